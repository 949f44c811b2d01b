# SPDX-License-Identifier: Apache-2.0

"""Groups: accelerators that several programs share, task by task.

:mod:`.group` is what ``group_open()`` returns. :mod:`.grouphosts` decides
which host of the group gets a task and receives the results;
:mod:`.grouplink` has the tasks and locks at one host.

Programs and transfers call it. It never opens a session.
"""
