# SPDX-License-Identifier: Apache-2.0

"""How the code that is running waits: its thread blocks, or a task does.

By default, waiting blocks the thread. A :class:`Waiter` replaces that for the
calls that it runs, so that a thread can run many of them: whenever one waits,
another continues.
"""

from __future__ import annotations

import collections
import socket
import threading
import time
import typing
from collections.abc import Callable
from typing import Protocol
from typing import TypeVar

_T = TypeVar("_T")


class Running(Protocol):
    """A function that runs beside others, in a thread or a task."""

    def is_alive(self) -> bool:
        """Whether it has not ended."""

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end, at most for so long."""


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

    def spawn(self, work: Callable[[], object]) -> Running:
        """Run a function that never raises beside; it waits in this way."""

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


def spawn(work: Callable[[], object], name: str) -> Running:
    """Run a function that never raises beside: in a thread, or as a task.

    :param name: of the thread.
    """
    waiter = _local.waiter
    if waiter is not None:
        return waiter.spawn(work)
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def offload(work: Callable[[], _T]) -> _T:
    """Run a function that blocks: here, or where the waiter runs these."""
    waiter = _local.waiter
    if waiter is None:
        return work()
    result: _T = waiter.offload(work)
    return result


class Lock:
    """A lock of threads and of tasks: whoever waits for it waits as it does
    otherwise.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parked: collections.deque[Waiter] = collections.deque()

    def acquire(self, blocking: bool = True) -> bool:
        """As :meth:`threading.Lock.acquire`."""
        if self._lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        waiter = _local.waiter
        if waiter is None:
            return self._lock.acquire()
        while True:
            self._parked.append(waiter)
            if self._lock.acquire(blocking=False):
                return True
            waiter.park(None)

    def release(self) -> None:
        """As :meth:`threading.Lock.release`."""
        self._lock.release()
        while self._parked:
            # All try again: one that gave up would lose the news.
            self._parked.popleft().wake()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_exc: object) -> None:
        self.release()


class Condition:
    """As :class:`threading.Condition`, for threads and for tasks."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._parked: list[Waiter] = []

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for news; the caller holds it once.

        :returns: False after the limit.
        """
        waiter = _local.waiter
        if waiter is None:
            return self._condition.wait(timeout_s)
        due_s = None if timeout_s is None else time.monotonic() + timeout_s
        self._parked.append(waiter)
        self._lock.release()
        try:
            waiter.park(timeout_s)
        finally:
            self._lock.acquire()
            self._parked.remove(waiter)
        return due_s is None or time.monotonic() < due_s

    def wait_for(self, predicate: Callable[[], object]) -> None:
        """Wait until something holds; the caller holds it once."""
        while not predicate():
            self.wait()

    def notify_all(self) -> None:
        """Tell all who wait; the caller holds it."""
        self._condition.notify_all()
        for waiter in self._parked:
            waiter.wake()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_exc: object) -> None:
        self._lock.release()
