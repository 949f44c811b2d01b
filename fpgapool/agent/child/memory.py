# SPDX-License-Identifier: Apache-2.0

"""What bounds the memory of a process: its cgroup, or a limit of its own."""

from __future__ import annotations

import resource


def limit(cgroup: str | None, memory_bytes: int) -> None:
    """Let this process use what its cgroup allows or, without one, the bytes.

    :param memory_bytes: 0 for no limit.
    :raises OSError: if the cgroup is not there.
    """
    if cgroup is not None:
        enter(cgroup)
    elif memory_bytes:
        bound(memory_bytes)


def enter(cgroup: str) -> None:
    """Move this process to a cgroup.

    :param cgroup: path of its directory.
    :raises OSError: if it is not there.
    """
    # "r+": never creates a file.
    with open(f"{cgroup}/cgroup.procs", "r+", encoding="ascii") as file:
        file.write("0")


def bound(limit_bytes: int) -> None:
    """Limit what this process may allocate from now on, without a cgroup.

    What it allocates beyond the limit raises MemoryError. Memory that it
    shares, and memory that its threads' stacks reserve, is not told apart:
    stacks count, rings and mapped files do not.
    """
    # What it has already, which a fork server may have allocated.
    with open("/proc/self/statm", encoding="ascii") as file:
        data_bytes = int(file.read().split()[5]) * resource.getpagesize()
    most_bytes = data_bytes + limit_bytes
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most_bytes = min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
