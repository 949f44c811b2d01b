# SPDX-License-Identifier: Apache-2.0

"""System calls that a process gives up, through libseccomp.

The list names what is refused, as the filters of systemd's units do, and not
what is allowed, because vendors' runtimes make calls that are not documented.
"""

from __future__ import annotations

import collections.abc
import ctypes
import errno
import functools
import os
import socket
import typing

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_SECCOMP = 22
_FILTER = 2

#: Refused calls, by what they would reach.
REFUSED = {
    "networks": ("socket", "connect", "bind", "listen"),
    "other processes": (
        *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp"),
        *("pidfd_open", "pidfd_getfd", "pidfd_send_signal", "tkill"),
        *("process_madvise", "process_mrelease", "setsid", "setpgid"),
    ),
    # Landlock does not restrict these.
    "attributes of files": (
        *("chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat"),
        *("lchown", "utime", "utimes", "utimensat", "futimesat", "truncate"),
        *("setxattr", "lsetxattr", "fsetxattr"),
        *("removexattr", "lremovexattr", "fremovexattr"),
    ),
    "changes of files": (
        *("inotify_init", "inotify_init1", "fanotify_init", "fanotify_mark"),
        *("name_to_handle_at", "open_by_handle_at", "lookup_dcookie"),
    ),
    "shared memory and queues by name": (
        *("shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl"),
        *("semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl"),
        *("mq_open", "mq_unlink"),
    ),
    "mounts and namespaces": (
        *("mount", "umount2", "pivot_root", "chroot", "move_mount"),
        *("open_tree", "fsopen", "fsconfig", "fsmount", "fspick"),
        *("mount_setattr", "unshare", "setns"),
    ),
    "other users": (
        *("setuid", "setgid", "setreuid", "setregid", "setresuid"),
        *("setresgid", "setgroups", "setfsuid", "setfsgid", "capset"),
    ),
    "keys": ("add_key", "request_key", "keyctl"),
    "the kernel": (
        *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup"),
        *("io_uring_enter", "io_uring_register", "init_module"),
        *("finit_module", "delete_module", "kexec_load", "kexec_file_load"),
        *("iopl", "ioperm", "modify_ldt", "mknod", "mknodat"),
    ),
    "the host": (
        *("reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd"),
        *("syslog", "settimeofday", "clock_settime", "adjtimex"),
        *("clock_adjtime", "sethostname", "setdomainname", "vhangup"),
        *("personality", "uselib", "ustat", "sysfs"),
    ),
    "other programs": ("execve", "execveat", "fork", "vfork"),
}

#: Calls that the libraries of Debian 11 and RHEL 9 do not know by name. All
#: architectures have the same numbers.
_NUMBERS: dict[str | int, int] = {
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "process_mrelease": 448,
}
#: Calls whose first argument names a process: only this one.
_OF_OWN = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
#: Calls whose first argument names a process or thread: only the caller's.
_OF_CALLER = (
    *("prlimit64", "sched_setaffinity", "sched_setscheduler"),
    *("sched_setparam", "sched_setattr", "migrate_pages", "move_pages"),
    "get_robust_list",
)
#: Calls whose two first arguments do so.
_OF_CALLER_IN_TWO = ("setpriority", "ioprio_set")
_IOPRIO_PROCESS = 1
_WORD = 0xFFFFFFFF
#: Commands that make a file's events signal other processes, and that type
#: into a terminal.
_FCNTL = (8, 10, 15)
_IOCTL = (0x8901, 0x8902, 0x5412, 0x541C)
_KIND = 0xF
_CONNECTED = {socket.SOCK_STREAM, socket.SOCK_SEQPACKET}
#: Calls that can connect with their first data, by the place of their flags.
#: A worker could close its listening socket, and use that.
_SENDING = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
#: Flags for pages that are reserved, as for virtual machines. No cgroup of
#: memory counts them.
_HUGE = {"mmap": (3, 0x40000), "memfd_create": (1, 0x4)}
_CLONE_THREAD = 0x10000
#: Namespaces: mount, cgroup, UTS, IPC, user, PID, network, time.
_CLONE_NEW = (
    *(0x20000, 0x2000000, 0x4000000, 0x8000000),
    *(0x10000000, 0x20000000, 0x40000000, 0x80),
)
#: Calls that are newer than the list: from cachestat on.
_NEWER = range(451, 560)
_PROCESS_CALLS = frozenset(("execve", "fork", "vfork"))


@functools.cache
def problem() -> str | None:
    """Return why calls cannot be refused; None if they can."""
    # A filter at no address cannot be read, where filters are allowed.
    _libc.prctl(_PR_SET_SECCOMP, _FILTER, None, 0, 0)
    if (code := ctypes.get_errno()) != errno.EFAULT:
        return (
            "the kernel, or the filter of a container, allows no seccomp"
            f" filters ({os.strerror(code)})"
        )
    try:
        _rules()
    except (ImportError, OSError, RuntimeError) as exc:
        return f"libseccomp cannot be used: {exc}"
    return None


def _library() -> typing.Any:
    # It loads a shared library that not all hosts have.
    import pyseccomp

    return pyseccomp


def refuse(allowed: collections.abc.Collection[str] = ()) -> bool:
    """Refuse all calls of :data:`REFUSED`, and such arguments of others.

    They fail with EPERM. ``clone3`` and calls that are newer than the list
    fail with ENOSYS, as on an older kernel, ``fallocate`` with EOPNOTSUPP, and
    requests for reserved huge pages with ENOMEM.

    :param allowed: names of calls that stay. A process that may ``execve``
        may also start processes.
    :returns: whether the machine supports it.
    :raises OSError: if the kernel does not take them.
    """
    if problem() is not None:
        return False
    _rules(allowed).load()
    return True


def _rules(allowed: collections.abc.Collection[str] = ()) -> typing.Any:
    lib = _library()
    rules = lib.SyscallFilter(lib.ALLOW)
    no = lib.ERRNO(errno.EPERM)
    for name in (name for names in REFUSED.values() for name in names):
        if name not in allowed:
            _add(rules, no, name)
    for name in _OF_OWN:
        _add(rules, no, name, lib.Arg(0, lib.NE, os.getpid()))
    for name in _OF_CALLER:
        _add(rules, no, name, lib.Arg(0, lib.NE, 0))
    for name, which in zip(
        _OF_CALLER_IN_TWO, (os.PRIO_PROCESS, _IOPRIO_PROCESS), strict=True
    ):
        _add(rules, no, name, lib.Arg(0, lib.NE, which))
        _add(rules, no, name, lib.Arg(1, lib.NE, 0))
    for name, commands in (("fcntl", _FCNTL), ("ioctl", _IOCTL)):
        for command in commands:
            _add(rules, no, name, lib.Arg(1, lib.MASKED_EQ, _WORD, command))
    for name, place in _SENDING.items():
        flag = socket.MSG_FASTOPEN
        _add(rules, no, name, lib.Arg(place, lib.MASKED_EQ, flag, flag))
    for name, (place, flag) in _HUGE.items():
        argument = lib.Arg(place, lib.MASKED_EQ, flag, flag)
        # As if none were reserved.
        _add(rules, lib.ERRNO(errno.ENOMEM), name, argument)
    # Only connected pairs: other kinds can send to any socket's path.
    _add(rules, no, "socketpair", lib.Arg(0, lib.NE, socket.AF_UNIX))
    for kind in {*range(_KIND + 1)} - _CONNECTED:
        argument = lib.Arg(1, lib.MASKED_EQ, _KIND, kind)
        _add(rules, no, "socketpair", argument)
    for flag in _CLONE_NEW:
        _add(rules, no, "clone", lib.Arg(0, lib.MASKED_EQ, flag, flag))
    if not _PROCESS_CALLS.intersection(allowed):
        argument = lib.Arg(0, lib.MASKED_EQ, _CLONE_THREAD, 0)
        _add(rules, no, "clone", argument)
    # It takes any room at once. Libraries then write what they need.
    _add(rules, lib.ERRNO(errno.EOPNOTSUPP), "fallocate")
    # Its flags are in memory, where no filter sees them; libraries then use
    # clone.
    for call in ("clone3", *_NEWER):
        _add(rules, lib.ERRNO(errno.ENOSYS), call)
    return rules


def _add(rules: typing.Any, action: int, call: str | int, *of: object) -> None:
    # A call that this architecture does not have is skipped. One that the
    # library does not know by name is an error.
    rules.add_rule(action, _NUMBERS.get(call, call), *of)
