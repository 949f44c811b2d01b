# SPDX-License-Identifier: Apache-2.0

"""Groups: accelerators that several programs share, task by task.

:mod:`.group` is what ``group_open()`` returns. :mod:`.grouptasks` sends each
task to a host and receives the results, :mod:`.grouphosts` keeps the hosts
connected, and :mod:`.grouplink` tracks the tasks and locks of one host.

Programs and transfers use groups; groups never open sessions.
"""
