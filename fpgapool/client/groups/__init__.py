# SPDX-License-Identifier: Apache-2.0

"""Groups: accelerators that several programs share, task by task.

:mod:`.group` is what ``group_open()`` returns. :mod:`.grouptasks` sends each
task to a host and receives the results, :mod:`.grouphosts` keeps the hosts
connected, and :mod:`.grouplink` has one host, its tasks and locks.

Programs and transfers call it. It never opens a session.
"""
