# SPDX-License-Identifier: Apache-2.0

"""System calls by name, and attempts in a child process."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import typing
from collections.abc import Callable

#: The GIL is kept, so that a child that a call makes has it, too.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

X86_64 = "x86_64"
#: Names, and numbers for x86_64 and aarch64; -1: there is no such call.
_TABLE = """
acct 163 89; add_key 248 217; adjtimex 159 171; bpf 321 280; capset 126 91;
chroot 161 51; clone 56 220; clone3 435 435; delete_module 176 106;
fanotify_init 300 262; fanotify_mark 301 263; fchmodat2 452 452; fchownat
260 54; file_setattr 469 469; finit_module 313 273; fsopen 430 430;
get_robust_list 274 100; getpid 39 172; init_module 175 105;
inotify_add_watch 254 27; inotify_init1 294 26; io_uring_setup 425 425;
ioperm 173 -1; iopl 172 -1; ioprio_set 251 30; kcmp 312 272; kexec_load 246
104; keyctl 250 219; landlock_create_ruleset 444 444; mount 165 40;
mount_setattr 442 442; move_mount 429 429; move_pages 279 239; mq_open 240
180; mq_unlink 241 181; msgctl 71 187; msgget 68 186; name_to_handle_at 303
264; open_by_handle_at 304 265; open_tree 428 428; perf_event_open 298 241;
personality 135 92; pidfd_getfd 438 438; pidfd_open 434 434;
pidfd_send_signal 424 424; pivot_root 155 41; process_madvise 440 440;
process_vm_readv 310 270; process_vm_writev 311 271; ptrace 101 117;
quotactl_fd 443 443; reboot 169 142; request_key 249 218; rt_sigqueueinfo
129 138; rt_tgsigqueueinfo 297 240; semctl 66 191; semget 64 190;
sethostname 170 161; setns 308 268; settimeofday 164 170; setxattrat 463
463; shmat 30 196; shmctl 31 195; shmdt 67 197; shmget 29 194; swapon 167
224; syslog 103 116; tgkill 234 131; tkill 200 130; umount2 166 39; unshare
272 97; userfaultfd 323 282; utimensat 280 88
"""
MACHINE = os.uname().machine


def _numbers(column: int) -> dict[str, int]:
    rows = [row.split() for row in _TABLE.split(";")]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-1"}


_OURS = _numbers(1 if MACHINE == X86_64 else 2)


def call(name: str | int, *arguments: typing.Any) -> int:
    """Do a system call.

    :param name: or its number.
    :param arguments: numbers, bytes, None, or objects of ctypes.
    :raises OSError: also if this architecture does not have the call.
    """
    number = name if isinstance(name, int) else _OURS.get(name)
    if number is None:
        raise OSError(errno.ENOSYS, name)
    ctypes.set_errno(0)
    result: int = _libc.syscall(
        ctypes.c_long(number),
        *(
            ctypes.c_long(each) if isinstance(each, int) else each
            for each in arguments
        ),
    )
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(option: int, value: int = 0) -> int:
    """Do a prctl.

    :raises OSError: if it fails.
    """
    zero = ctypes.c_ulong(0)
    result: int = _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def in_child(act: Callable[[], object]) -> str:
    """Do in a child what would change the process.

    :returns: what ``act`` returns, as text.
    :raises OSError: that ``act`` raises, or that keeps the child from being
        made.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(writer, act)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read().decode()
    _, status = os.waitpid(child, 0)
    return _told(answer, status)


def _answer(writer: int, act: Callable[[], object]) -> typing.NoReturn:
    try:
        try:
            text = f"0 {act()}"
        except OSError as error:
            text = f"{error.errno} {error}"
        os.write(writer, text.encode())
    finally:
        os._exit(0)


def _told(answer: str, status: int) -> str:
    code, _, text = answer.partition(" ")
    if not code:
        ended = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-ended).name if ended < 0 else f"status {ended}"
        return f"refused: the child ended, {how}"
    if int(code):
        raise OSError(int(code), text)
    return text


def reap(child: int, what: str) -> str:
    """Wait for a child that a call has made."""
    os.waitpid(child, 0)
    return what


def end_child() -> typing.NoReturn:
    """End a child that a call has made, as fast as possible."""
    _libc._exit(0)
    raise AssertionError
