# SPDX-License-Identifier: Apache-2.0

"""One thread that serves many rings and runs calls from other threads.

While there is work, the thread polls all recently active rings without system
calls. When all are empty, it enables the peers' doorbells and sleeps.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import select
import time
import typing
from collections.abc import Callable

from fpgapool.common.monitoring import ratelimit

LOG = ratelimit.RateLimitedLog(__name__)

_LONGEST_SLEEP_S = 3600.0
# While the first ports have work, others are polled in one of this many
# rounds.
_SKIPPED_ROUNDS = 4


class Port(typing.Protocol):
    """A ring or another source of work that the loop polls."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when the peer has rung."""

    def work(self, now: float) -> bool:
        """Do some of the available work; return whether there was any."""

    def arm(self) -> bool:
        """Enable the peer's doorbell.

        :returns: False if there already is work.
        """

    def disarm(self) -> None:
        """Disable the doorbell that :meth:`arm` enabled."""


@dataclasses.dataclass(eq=False)
class RingLoop:
    """Serves ports until it is stopped.

    :param after_work: called with the time after a port has worked, and after
        calls.
    :param after_round: called with the current time after each round.
    :param is_hungry: returns whether the other ports must be polled although
        the first ones have work.
    :param deadline_s: returns the time at which ``after_work`` must be called
        even without work, or None.
    """

    after_work: Callable[[float], None]
    after_round: Callable[[float], None]
    is_hungry: Callable[[], bool]
    deadline_s: Callable[[], float | None]

    def __post_init__(self) -> None:
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._calls: collections.deque[Callable[[], None]] = (
            collections.deque()
        )
        # Ports and watching callbacks, by descriptor.
        self._ports: dict[int, Port] = {}
        self._watched: dict[int, Callable[[], None]] = {}
        # Ports that are polled, whose peers need not ring.
        self._awake: list[Port] = []
        self._first: frozenset[Port] = frozenset()
        self._first_awake: list[Port] = []
        self._running = True

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread, from any thread."""
        self._calls.append(function)
        os.eventfd_write(self._bell, 1)

    def stop(self) -> None:
        """End :meth:`run`; only the loop's thread may call this."""
        self._running = False

    def add(self, port: Port, first: bool = False) -> None:
        """Serve a port.

        :param first: whether it is polled before the others.
        """
        fd = port.fileno()
        self._ports[fd] = port
        self._epoll.register(fd, select.EPOLLIN)
        if first:
            self._first |= {port}
        self._wake(port)

    def wake(self, port: Port) -> None:
        """Poll a sleeping port again, if it is served."""
        is_served = self._ports.get(port.fileno()) is port
        if is_served and port not in self._first_awake + self._awake:
            port.disarm()
            self._wake(port)

    def _wake(self, port: Port) -> None:
        if port in self._first:
            self._first_awake.append(port)
        else:
            self._awake.append(port)

    def remove(self, port: Port) -> None:
        """Stop serving a port; it must still be open."""
        del self._ports[port.fileno()]
        self._epoll.unregister(port.fileno())
        self._first -= {port}
        # Replace the lists, because run() may be iterating over them.
        self._awake = [one for one in self._awake if one is not port]
        self._first_awake = [
            one for one in self._first_awake if one is not port
        ]

    def watch(self, fd: int, function: Callable[[], None]) -> None:
        """Call a function whenever a descriptor is readable."""
        self._watched[fd] = function
        self._epoll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        del self._watched[fd]
        self._epoll.unregister(fd)

    def close(self) -> None:
        self._epoll.close()
        os.close(self._bell)

    def run(self) -> None:
        """Serve until :meth:`stop`."""
        monotonic, after_work = time.monotonic, self.after_work
        rounds = 0
        while self._running:
            now = monotonic()
            rounds += 1
            worked = False
            for port in self._first_awake:
                if port.work(now):
                    worked = True
                    after_work(now)
            if not (worked and rounds % _SKIPPED_ROUNDS) or self.is_hungry():
                for port in self._awake:
                    if port.work(now):
                        worked = True
                        after_work(now)
            self.after_round(now)
            if self._calls:
                self._call_all()
                after_work(now)
                continue
            if worked:
                continue
            self._sleep(now)

    def _call_all(self) -> None:
        while self._calls:
            function = self._calls.popleft()
            try:
                function()
            except Exception:
                LOG.exception("a call failed")

    def _sleep(self, now: float) -> None:
        ports = self._first_awake + self._awake
        self._first_awake, self._awake = [], []
        for port in ports:
            if not port.arm():
                port.disarm()
                self._wake(port)
        if self._first_awake or self._awake:
            return
        due_s = self.deadline_s()
        timeout_s = _LONGEST_SLEEP_S
        if due_s is not None:
            timeout_s = min(max(0.0, due_s - now), _LONGEST_SLEEP_S)
        for fd, _ in self._epoll.poll(timeout_s):
            port_here = self._ports.get(fd)
            if port_here is not None:
                port_here.disarm()
                self._wake(port_here)
            elif fd == self._bell:
                os.eventfd_read(fd)
            elif (function := self._watched.get(fd)) is not None:
                self.call_now(function)
        if due_s is not None and time.monotonic() >= due_s:
            self.after_work(time.monotonic())

    def call_now(self, function: Callable[[], None]) -> None:
        """Call a function in the next round; only from the loop's thread."""
        self._calls.append(function)
