# SPDX-License-Identifier: Apache-2.0

"""Landlock: a process gives up access to files, TCP and other processes.

See https://docs.kernel.org/userspace-api/landlock.html. Each version of its
interface (ABI) restricts more; Debian 12 has 2.
"""

from __future__ import annotations

import collections.abc
import contextlib
import ctypes
import glob
import os
import struct

from fpgapool.common.walls import rights

_libc = ctypes.CDLL(None, use_errno=True)

# These numbers are the same on all architectures.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_RULESET = struct.Struct("<QQQ")
_RULE = struct.Struct("<Qi")
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_TRUNCATE = 1 << 14
_IOCTL_DEVICE = 1 << 15
#: File rights, by the version that introduced them.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
_CONNECT_AND_BIND = 3
_SOCKETS_AND_SIGNALS = 3
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_USE = _READ_FILE | _WRITE_FILE | _READ_DIR | _IOCTL_DEVICE | _TRUNCATE

#: What any program needs: libraries, the time zone, and facts about the
#: processor.
SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"),
    *("/etc/localtime", "/proc/cpuinfo", "/proc/meminfo"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
#: What a process reads about itself in /proc. The kernel may forget this when
#: memory is short, so nothing must depend on it.
_OWN = ("auxv", "cmdline", "exe", "fd", "maps", "stat", "statm", "status")
#: Device files that belong to no one.
DEVICES = tuple(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")
)


def version() -> int:
    """Return the version of Landlock's interface; 0 if there is none."""
    found = _libc.syscall(
        _CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION
    )
    return max(0, int(found))


def restrict(
    *,
    readable: collections.abc.Iterable[str] = (),
    writable: collections.abc.Iterable[str] = (),
    devices: collections.abc.Iterable[str] = (),
) -> bool:
    """Give up access to all files but these and what any program needs.

    It also gives up TCP connections and ports, and signals and abstract
    sockets of other processes, if the kernel's version can restrict them.
    Open files stay open. A missing path stays out of reach.

    :param readable: files, and directories whose files can be read and
        executed.
    :param writable: directories whose files can also be changed.
    :param devices: device files, or patterns of them.
    :returns: whether the kernel supports it.
    """
    rights.gain_nothing()
    found = version()
    if not found:
        return False
    handled = sum(right for since, right in _RIGHTS.items() if since <= found)
    attributes = _RULESET.pack(
        handled,
        _CONNECT_AND_BIND if found >= 4 else 0,
        _SOCKETS_AND_SIGNALS if found >= 6 else 0,
    )
    # Older kernels expect a shorter structure.
    size = 24 if found >= 6 else 16 if found >= 4 else 8
    ruleset = _libc.syscall(
        _CREATE_RULESET, attributes, ctypes.c_size_t(size), 0
    )
    if ruleset < 0:
        return False
    try:
        own = [f"/proc/self/{name}" for name in _OWN]
        for place in (*SYSTEM, *own, *readable):
            _allow(ruleset, place, _READ)
        for pattern in (*DEVICES, *devices):
            for path in glob.glob(pattern):
                _allow(ruleset, path, _USE & handled)
        for place in writable:
            _allow(ruleset, place, handled)
        return _libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, place: str, wanted: int) -> None:
    # A missing path needs no rule.
    with contextlib.suppress(OSError):
        fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(place):
                wanted &= _OF_FILES
            rule = _RULE.pack(wanted, fd)
            _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(fd)
