# SPDX-License-Identifier: Apache-2.0

"""How the code that is running waits: its thread blocks, or a task does.

By default, waiting blocks the thread. A :class:`Waiter` replaces that for the
calls that it runs, so that a thread can run many of them: whenever one waits,
another continues.
"""

from __future__ import annotations

import socket
import threading
import time
import typing
from collections.abc import Callable
from typing import Protocol
from typing import TypeVar

_T = TypeVar("_T")


class Waiter(Protocol):
    """Waits on behalf of the calls that it runs, in one thread."""

    def ready(self, fd: int, events: int, timeout_s: float | None) -> bool:
        """Wait until a descriptor may be ready; return False after the limit.

        It may return too early.

        :param events: bitmask of ``select.POLLIN`` and ``select.POLLOUT``.
        """

    def park(self, timeout_s: float | None) -> None:
        """Wait for :meth:`wake`, which may have been called before."""

    def wake(self) -> None:
        """End the wait of :meth:`park` or :meth:`ready`; thread-safe."""

    def start(self, work: Callable[[], object]) -> None:
        """Run a function that blocks, and never raises, in another thread."""

    def offload(self, work: Callable[[], typing.Any]) -> typing.Any:
        """Run a function that blocks in another thread; return its result."""


class _Local(threading.local):
    waiter: Waiter | None = None


_local = _Local()


def current() -> Waiter | None:
    """Return who waits for the running code; None: its thread blocks."""
    return _local.waiter


def use(waiter: Waiter | None) -> None:
    """Set who waits for the code that this thread runs from now on."""
    _local.waiter = waiter


def prepare(sock: socket.socket) -> None:
    """Let a socket block, or not, as the running code waits."""
    sock.setblocking(_local.waiter is None)


def pause(seconds: float) -> None:
    """Wait for so many seconds, or less if a waiter is woken."""
    waiter = _local.waiter
    if waiter is None:
        time.sleep(seconds)
    else:
        waiter.park(seconds)


def for_event(event: threading.Event, timeout_s: float) -> bool:
    """Wait until an event is set; return whether it is."""
    waiter = _local.waiter
    if waiter is None:
        return event.wait(timeout_s)
    if not event.is_set():
        waiter.park(timeout_s)
    return event.is_set()


def offload(work: Callable[[], _T]) -> _T:
    """Run a function that blocks: here, or where the waiter runs these."""
    waiter = _local.waiter
    if waiter is None:
        return work()
    result: _T = waiter.offload(work)
    return result
