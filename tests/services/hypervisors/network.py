# SPDX-License-Identifier: Apache-2.0

"""A network for everything that a test starts, servers' machines included."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator

from tests.services import process

BRIDGE = "pool"
#: Of this machine, for its machines: reserved for measurements.
ADDRESS = "198.19.255.254"
PREFIX_BITS = 15
_MAC = "52:54:01:00:00:01"
_CLONE_NEWNET = 0x40000000
_OWN = "/proc/thread-self/ns/net"


def _set(*arguments: str) -> None:
    subprocess.run(
        ["ip", *arguments],
        env={"PATH": process.SEARCH_PATH},
        timeout=60,
        check=True,
    )


def _check(status: int) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextlib.contextmanager
def entered() -> Iterator[None]:
    """Be in a network namespace: this thread, and what it starts.

    It has a loopback device and a bridge, and nothing leads out of it.

    :raises OSError: if this user may not make one.
    """
    system = ctypes.CDLL(None, use_errno=True)
    with open(_OWN, "rb") as before:
        _check(system.unshare(_CLONE_NEWNET))
        try:
            _set("link", "set", "dev", "lo", "up")
            # One that stays: else it is that of one of its machines.
            _set("link", "add", BRIDGE, "address", _MAC, "type", "bridge")
            address = f"{ADDRESS}/{PREFIX_BITS}"
            _set("address", "add", address, "dev", BRIDGE)
            _set("link", "set", "dev", BRIDGE, "up")
            yield
        finally:
            _check(system.setns(before.fileno(), _CLONE_NEWNET))
