# SPDX-License-Identifier: Apache-2.0

"""Permanently drops a process's privileges before it handles untrusted data.

The kernel interfaces used need no privileges themselves. Call these functions
before starting other threads, which would keep their privileges.
"""

from __future__ import annotations

import collections.abc
import ctypes
import os
import pathlib
import resource
import signal
import stat

from fpgapool.common.walls import calls
from fpgapool.common.walls import landlock
from fpgapool.common.walls import rights

#: The user that a root process becomes.
NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_NOSUID_NODEV = 2 | 4
_MS_BIND_ALL = 0x1000 | 0x4000
_MS_PRIVATE_ALL = 1 << 18 | 0x4000

#: What compilers read besides libraries.
_SYSTEM = ("/opt", "/sys", "/etc/OpenCL")
#: GPUs, which GPU compilers query.
_DEVICES = ("/dev/dri", "/dev/kfd", "/dev/nvidia*")
#: System calls that compilers need: they start linkers.
_CALLS = ("execve", "fork", "vfork")


def die_with_parent() -> None:
    """Make this process end when the thread that started it ends.

    The kernel resets this when the process's user changes.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def leave_others() -> bool:
    """Detach from all networks, System V shared memory and other processes.

    Execution continues in a child process; everything that it starts ends with
    it. The original process waits for it, and ends with its status, or with
    128 plus the signal that ended it.

    :returns: False, in the original process, if the kernel does not allow it.
    """
    flags = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWPID
    if os.geteuid() != 0:
        flags |= _CLONE_NEWUSER
    if _libc.unshare(flags) != 0:
        return False
    # Fork twice: the first process of a namespace ignores signals from the
    # others, but all others end with it.
    for _ in range(2):
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        die_with_parent()
    return True


def keep_files(readable: collections.abc.Iterable[str], writable: str) -> bool:
    """Give up access to all other files and processes.

    :param readable: directories whose files can be read and executed, in
        addition to the system's.
    :param writable: the only directory whose files can be changed.
    :returns: whether the kernel supports this.
    """
    return landlock.restrict(
        readable=(*_SYSTEM, *readable),
        writable=(writable,),
        devices=_DEVICES,
    )


def refuse_calls() -> bool:
    """Give up networks, other processes and the rest of the kernel.

    :returns: whether the machine supports this.
    """
    return calls.refuse(_CALLS)


def reveal(places: collections.abc.Collection[str]) -> None:
    """Keep access to paths below directories that only root can enter.

    To this process, the directories then appear to contain nothing else. A
    process that is not root's keeps its user, who can enter them anyway.

    :param places: absolute paths; a link and its target are two paths.
    """
    closed = {
        place: outer
        for place in places
        if (outer := _closed_parent(place)) and os.path.isdir(place)
    }
    if os.geteuid() != 0 or not closed:
        return
    if _libc.unshare(_CLONE_NEWNS) or _mount("/", "/", _MS_PRIVATE_ALL):
        return
    fds = {place: os.open(place, os.O_PATH) for place in sorted(closed)}
    for outer in set(closed.values()):
        _mount("tmpfs", outer, _MS_NOSUID_NODEV, b"mode=755")
    for place, fd in fds.items():
        os.makedirs(place, 0o755, exist_ok=True)
        _mount(f"/proc/self/fd/{fd}", place, _MS_BIND_ALL)
        os.close(fd)


def _closed_parent(place: str) -> str | None:
    """Return a path's outermost parent that the user nobody cannot enter."""
    for parent in reversed(pathlib.Path(place).parents):
        if not parent.stat().st_mode & stat.S_IXOTH:
            return str(parent)
    return None


def _mount(source: str, target: str, flags: int, data: bytes = b"") -> int:
    return int(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            b"tmpfs",
            ctypes.c_ulong(flags),
            data,
        )
    )


def drop_rights() -> None:
    """Become nobody if this process is root's; drop all capabilities."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    rights.drop_capabilities()
    # The kernel resets this when the process's user changes.
    rights.hide_memory()


def limit(
    *, cpu_s: int, memory_bytes: int, file_bytes: int, files: int, tasks: int
) -> None:
    """Set limits that only root can raise again.

    :param cpu_s: seconds of processor time.
    :param tasks: threads and processes of this process's user; 0: keep the
        current limit.
    """
    wanted = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_CORE: 0,
    }
    if tasks:
        wanted[resource.RLIMIT_NPROC] = tasks
    rights.limit(wanted)
