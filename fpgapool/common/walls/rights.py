# SPDX-License-Identifier: Apache-2.0

"""What a process may do or become, apart from files and system calls."""

from __future__ import annotations

import collections.abc
import ctypes
import resource
import struct

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522


def gain_nothing() -> None:
    """Let no program that this process starts have more rights than it."""
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def hide_memory() -> None:
    """Let no other process of this user read this one's memory."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def drop_capabilities() -> None:
    header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    _libc.capset(header, bytes(24))


def limit(limits: collections.abc.Mapping[int, int]) -> None:
    """Set limits that only root can raise again.

    :param limits: by resource, as in :mod:`resource`. A limit that is lower
        already stays.
    """
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))
