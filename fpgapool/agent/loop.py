# SPDX-License-Identifier: Apache-2.0

"""One thread that owns all mutable state of an agent.

Only this thread accesses the slot table, the workers' control connections and
the front door's clients, so none of them needs a lock. Blocking work (RPC,
netlink) runs in other threads, which return results through :meth:`Loop.call`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import heapq
import itertools
import selectors
import socket
import threading
import time
import typing
from collections.abc import Callable

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Callback = Callable[[], None]

#: Maximum number of calls per turn. Each turn polls the sockets, so a flood of
#: RPC messages does not block clients.
MAX_CALLS_PER_TURN = 1000


@dataclasses.dataclass(slots=True, eq=False)
class Timer:
    """A callback scheduled for later; it can be cancelled."""

    due_s: float
    callback: Callback | None

    def cancel(self) -> None:
        """Cancel the callback, unless it has already run."""
        self.callback = None


class Loop:
    """A selector, timers and a queue of calls, served by one thread."""

    def __init__(self, name: str) -> None:
        #: The monotonic clock in seconds.
        self.now = time.monotonic
        self._selector = selectors.DefaultSelector()
        self._calls: collections.deque[Callback] = collections.deque()
        self._turns: collections.deque[Callback] = collections.deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._started = self._stopping = False
        self._wake_lock = threading.Lock()
        self._wake_pending = False
        self._wake_read, self._wake_write = socket.socketpair()
        for end in (self._wake_read, self._wake_write):
            end.setblocking(False)
        # By file object: the awaited events and the callback for them.
        self._watched: dict[typing.Any, tuple[int, Callable[[int], None]]] = {}
        self.watch(self._wake_read, READ, self._drain_wakeups)
        self._thread = threading.Thread(
            target=self._run, name=name, daemon=True
        )

    def start(self) -> None:
        self._started = True
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread after its current turn, or before it has begun."""
        self.call(self._request_stop)
        if not self._started:
            self._close()
        elif threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def call(self, callback: Callback) -> None:
        """Run ``callback`` in the loop's thread; any thread may call this."""
        self._calls.append(callback)
        with self._wake_lock:
            if self._wake_pending:
                return
            self._wake_pending = True
        try:
            self._wake_write.send(b"\0")
        except OSError:
            # The loop has ended, so there is no thread to wake.
            LOG.debug("Dropped a call after the end of the loop")

    def run_and_wait(
        self, callback: Callable[[], object], timeout_s: float
    ) -> None:
        """Run ``callback`` in the loop's thread and wait for it.

        :raises: the callback's exception, or TimeoutError.
        """
        done = threading.Event()
        failures: list[BaseException] = []

        def run() -> None:
            try:
                callback()
            except BaseException as error:
                failures.append(error)
            finally:
                done.set()

        self.call(run)
        if not done.wait(timeout_s):
            raise TimeoutError(
                f"the agent's event loop did not respond within {timeout_s} s"
            )
        if failures:
            raise failures[0]

    def call_in_turn(self, callback: Callback) -> None:
        """Run ``callback`` after everything else; call this in the loop's
        thread.

        Sockets, timers and calls are served before each of these callbacks, so
        these delay only each other.

        :param callback: does a small piece of work, and requeues itself if
            more work remains.
        """
        self._turns.append(callback)

    def call_later(self, delay_s: float, callback: Callback) -> Timer:
        """Run ``callback`` once, later; call this in the loop's thread."""
        timer = Timer(self.now() + max(0.0, delay_s), callback)
        heapq.heappush(self._timers, (timer.due_s, next(self._order), timer))
        return timer

    def watch(
        self,
        fileobj: typing.Any,
        events: int,
        callback: Callable[[int], None],
    ) -> None:
        """Call ``callback(events)`` whenever ``fileobj`` is ready.

        :param events: READ, WRITE or both; a later call replaces them.
        """
        known = self._watched.get(fileobj)
        self._watched[fileobj] = events, callback
        if known is None:
            self._selector.register(fileobj, events)
        elif known[0] != events:
            self._selector.modify(fileobj, events)

    def unwatch(self, fileobj: typing.Any) -> None:
        """Stop watching a file object, if it is watched."""
        if self._watched.pop(fileobj, None) is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(fileobj)

    def _request_stop(self) -> None:
        self._stopping = True

    def _drain_wakeups(self, _events: int) -> None:
        # Read before resetting the flag: a call that arrives in between does
        # not send a wake-up, because it runs later in this turn anyway.
        try:
            self._wake_read.recv(4096)
        except BlockingIOError:
            pass
        with self._wake_lock:
            self._wake_pending = False

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._close()

    def _close(self) -> None:
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()

    def _turn(self) -> None:
        for key, events in self._selector.select(self._wait_s()):
            watched = self._watched.get(key.fileobj)
            if watched is not None:
                self._guarded(functools.partial(watched[1], events))
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                self._guarded(callback)
        for _ in range(min(len(self._calls), MAX_CALLS_PER_TURN)):
            self._guarded(self._calls.popleft())
        if self._turns:
            self._guarded(self._turns.popleft())

    def _wait_s(self) -> float | None:
        if self._calls or self._turns:
            return 0.0
        # Do not wake for cancelled timers.
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self.now())

    @staticmethod
    def _guarded(callback: Callback) -> None:
        """Run a callback, so that its failure does not affect others."""
        try:
            callback()
        except Exception:
            LOG.exception("Unexpected failure; the agent continues")
