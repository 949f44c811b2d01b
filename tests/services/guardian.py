# SPDX-License-Identifier: Apache-2.0

"""Cleans up after a test run, however it ended.

Run as a script. It reads commands, one a line, until its standard input
ends, which happens when the test run is over, interrupted or killed. Then it
kills the process groups that are still watched, waits for their ends and
removes the directories: when it ends, nothing is left.

* ``watch PGID``: a process group to kill at the end
* ``forget PGID``: it has ended already, and its number may be used again
* ``remove PATH``: a directory to remove at the end
"""

import contextlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterable
from collections.abc import Iterator

# For one process; what the kernel cannot end is not waited for.
_END_LIMIT_S = 30.0


def clean_up_after(commands: Iterable[str]) -> None:
    """Follow the commands to their end, then kill and remove."""
    groups: set[int] = set()
    directories: list[str] = []
    for line in commands:
        verb, _, argument = line.rstrip("\n").partition(" ")
        if verb == "watch":
            groups.add(int(argument))
        elif verb == "forget":
            groups.discard(int(argument))
        elif verb == "remove":
            directories.append(argument)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for pid in _members(groups):
        _await_end(pid)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _members(groups: set[int]) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(int(entry)) in groups:
                    yield int(entry)


def _await_end(pid: int) -> None:
    # A signal only begins the end: ports and files are closed later.
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        select.select([descriptor], [], [], _END_LIMIT_S)
        os.close(descriptor)


if __name__ == "__main__":
    clean_up_after(sys.stdin)
