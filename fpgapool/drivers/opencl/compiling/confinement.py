# SPDX-License-Identifier: Apache-2.0

"""Permanently drops a process's privileges before it handles untrusted data.

The kernel interfaces used need no privileges themselves. Call these functions
before starting other threads, which would keep their privileges.
"""

from __future__ import annotations

import collections.abc
import contextlib
import ctypes
import dataclasses
import errno
import os
import pathlib
import resource
import signal
import socket
import stat
import struct

#: The user that a root process becomes.
NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_CAPABILITY_VERSION = 0x20080522
_MS_NOSUID_NODEV = 2 | 4
_MS_BIND_ALL = 0x1000 | 0x4000
_MS_PRIVATE_ALL = 1 << 18 | 0x4000

# These numbers are the same on all architectures.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_RULESET = struct.Struct("<QQQ")
_RULE = struct.Struct("<Qi")
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_TRUNCATE = 1 << 14
_IOCTL_DEVICE = 1 << 15
#: File rights, by the version of Landlock that introduced them.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
_CONNECT_AND_BIND = 3
_SOCKETS_AND_SIGNALS = 3
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE


@dataclasses.dataclass(frozen=True, slots=True)
class _Calls:
    """System call numbers of an architecture.

    :ivar sockets: calls that create sockets; the first argument is the family.
    :ivar forbidden: calls that leave the process group, or that could bypass
        the filter.
    :ivar end: first number that belongs to another calling interface.
    """

    architecture: int
    sockets: tuple[int, ...]
    forbidden: tuple[int, ...]
    end: int


# socket, socketpair; setpgid, setsid, io_uring_setup.
_CALLS = {
    "x86_64": _Calls(0xC000003E, (41, 53), (109, 112, 425), 0x40000000),
    "aarch64": _Calls(0xC00000B7, (198, 199), (154, 157, 425), 0x40000000),
}
_FILTER = 2
_INSTRUCTION = struct.Struct("<HBBI")
_LOAD = 0x20
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_AT_LEAST = 0x35
_RETURN = 0x06
# Offsets in the kernel's description of a system call.
_CALL, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM

#: Paths that any program needs: libraries, and data about the processor.
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/opt", "/proc", "/sys"),
    *("/etc/ld.so.cache", "/etc/OpenCL"),
)
#: Devices that do not expose other users' data: sources of random bytes, and
#: GPUs, which GPU compilers query.
_DEVICES = (
    *("null", "zero", "full", "random", "urandom"),
    *("dri", "kfd", "nvidia*"),
)


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


def refuse_calls() -> bool:
    """Allow only Unix sockets, and do not allow leaving the process group.

    :returns: whether the kernel supports this.
    """
    calls = _CALLS.get(os.uname().machine)
    if calls is None or struct.calcsize("P") != 8:
        return False
    refused = [
        (_JUMP_IF_AT_LEAST, calls.end),
        *((_JUMP_IF_EQUAL, number) for number in calls.forbidden),
    ]
    asked = [(_JUMP_IF_EQUAL, number) for number in calls.sockets]
    rest = len(refused) + len(asked)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, calls.architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _CALL),
        # Jump to the refusal at the end, or to the check of sockets.
        *(
            (jump, rest - place + 2, 0, value)
            for place, (jump, value) in enumerate(refused)
        ),
        *(
            (jump, rest - place, 0, value)
            for place, (jump, value) in enumerate(asked, len(refused))
        ),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_EQUAL, 1, 0, socket.AF_UNIX),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    code = b"".join(_INSTRUCTION.pack(*each) for each in program)
    held = ctypes.create_string_buffer(code)
    header = struct.pack("@HP", len(program), ctypes.addressof(held))
    return _libc.prctl(_PR_SET_SECCOMP, _FILTER, header, 0, 0) == 0


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
    header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    _libc.capset(header, bytes(24))


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
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def keep_files(readable: collections.abc.Iterable[str], writable: str) -> bool:
    """Give up access to all other files and processes.

    :param readable: directories whose files can be read and executed, in
        addition to the system's.
    :param writable: the only directory whose files can be changed.
    :returns: whether the kernel supports this.
    """
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    version = _libc.syscall(
        _LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION
    )
    if version < 1:
        return False
    handled = sum(
        right for since, right in _RIGHTS.items() if since <= version
    )
    attributes = _RULESET.pack(
        handled,
        _CONNECT_AND_BIND if version >= 4 else 0,
        _SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    # Older kernels expect a shorter structure.
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _libc.syscall(
        _LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0
    )
    if ruleset < 0:
        return False
    try:
        read = _EXECUTE | _READ_FILE | _READ_DIR
        for place in (*_SYSTEM, *readable):
            _allow(ruleset, place, read)
        # Libraries that identify the processor list the root directory.
        _allow(ruleset, "/", _READ_DIR)
        use = _READ_FILE | _WRITE_FILE | _READ_DIR | _IOCTL_DEVICE
        for name in _DEVICES:
            for path in pathlib.Path("/dev").glob(name):
                _allow(ruleset, str(path), use & handled)
        _allow(ruleset, writable, handled)
        return _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, place: str, rights: int) -> None:
    # A missing path needs no rule.
    with contextlib.suppress(OSError):
        fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(place):
                rights &= _OF_FILES
            rule = _RULE.pack(rights, fd)
            _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(fd)
