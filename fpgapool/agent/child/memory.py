# SPDX-License-Identifier: Apache-2.0

"""What bounds the memory of a process: its cgroup, or a limit of its own.

The same bounds its helper, which a spare has forked before it knew them.
"""

from __future__ import annotations

import contextlib
import os
import resource

#: What is left to end a session that has used all it may: to report it takes
#: memory, too, and the stack of a thread.
RESERVE_BYTES = 32 << 20

_is_spent = False


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
    """Move this process and its children to a cgroup.

    :param cgroup: path of its directory.
    :raises OSError: if it is not there.
    """
    # "r+": never creates a file.
    with open(f"{cgroup}/cgroup.procs", "r+b", buffering=0) as file:
        for pid in (0, *_children()):
            file.write(b"%d\n" % pid)


def bound(limit_bytes: int) -> None:
    """Limit what this process may allocate from now on, without a cgroup.

    Each of its children may allocate as much. What it allocates beyond the
    limit raises MemoryError; see :func:`use_reserve`. Memory that it shares,
    and memory that its threads' stacks reserve, is not told apart: stacks
    count, rings and mapped files do not.
    """
    # What it has already, which a fork server may have allocated.
    with open("/proc/self/statm", encoding="ascii") as file:
        data_bytes = int(file.read().split()[5]) * resource.getpagesize()
    most_bytes = data_bytes + limit_bytes
    all_bytes = most_bytes + RESERVE_BYTES
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most_bytes, all_bytes = min(most_bytes, hard), min(all_bytes, hard)
    for pid in (0, *_children()):
        resource.prlimit(pid, resource.RLIMIT_DATA, (most_bytes, all_bytes))


def use_reserve() -> None:
    """Let this process end what a MemoryError has stopped."""
    global _is_spent
    _is_spent = True
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def is_spent() -> bool:
    """Whether a MemoryError has come: what is freed may be in pieces."""
    return _is_spent


def _children() -> list[int]:
    # Not all kernels have the file.
    with contextlib.suppress(FileNotFoundError):
        path = f"/proc/self/task/{os.getpid()}/children"
        with open(path, encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    return []
