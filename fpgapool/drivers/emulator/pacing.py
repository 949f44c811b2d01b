# SPDX-License-Identifier: Apache-2.0

"""Limits a slot to its modelled rate."""

from __future__ import annotations

import collections.abc
import threading
import time
import typing

from fpgapool.drivers.emulator import shares

#: A slot that has had no work for this long does not count as busy. This is
#: also the depth of the token bucket: a slot that starts its next piece within
#: this time loses none of its rate, and late wake-ups are compensated for.
IDLE_NS = 5_000_000
#: How often a waiting slot checks whether its share has changed.
SLICE_NS = 5_000_000

Wait: typing.TypeAlias = collections.abc.Callable[[float], bool]


class Cancelled(Exception):
    """The wait was cancelled."""


class _Cancellable:
    """A pacer that can be slowed down, and whose waits can be cancelled.

    :param clock_ns: returns monotonic time, equal in all processes of a host.
    :param wait: waits for some seconds; returns whether it was cancelled.
    """

    def __init__(
        self,
        clock_ns: collections.abc.Callable[[], int] = time.monotonic_ns,
        wait: Wait | None = None,
    ) -> None:
        self._clock_ns = clock_ns
        self._cancelled = threading.Event()
        self._wait = wait or self._cancelled.wait
        self._slowness = 1.0

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Wake a waiting :meth:`finish`, from any thread."""
        self._cancelled.set()


class Pacer(_Cancellable):
    """Limits one stream to its fair rate."""

    def __init__(
        self,
        table: shares.ShareTable,
        stream: int,
        peak_bytes_per_s: float,
        *,
        clock_ns: collections.abc.Callable[[], int] = time.monotonic_ns,
        wait: Wait | None = None,
    ) -> None:
        super().__init__(clock_ns, wait)
        self._table = table
        self._stream = stream
        self._peak_bytes_per_s = peak_bytes_per_s
        # Modelled time at which all work so far is done.
        self._served_until_ns = 0

    def slow_down(self, slowness: float) -> None:
        """Multiply the modelled time by a factor from now on."""
        if slowness != self._slowness:
            self._slowness = slowness
            self._table.set_peak(
                self._stream, self._peak_bytes_per_s / slowness
            )

    def start(self, work_bytes: int) -> None:
        """Record that work on a piece starts now."""
        now_ns = self._clock_ns()
        self._served_until_ns = max(self._served_until_ns, now_ns - IDLE_NS)
        # The real computation may take longer than the model.
        rate_bytes_per_s = self._rate_bytes_per_s(now_ns)
        self._announce(now_ns + int(work_bytes / rate_bytes_per_s * 1e9))

    def finish(self, work_bytes: int) -> None:
        """Wait until the current piece is finished in modelled time.

        :raises Cancelled: if :meth:`cancel` was called.
        """
        left_bytes = float(work_bytes)
        while True:
            now_ns = self._clock_ns()
            rate_bytes_per_s = self._rate_bytes_per_s(now_ns)
            need_ns = left_bytes / rate_bytes_per_s * 1e9
            ahead_ns = self._served_until_ns + need_ns - now_ns
            if ahead_ns <= 0:
                self._served_until_ns += int(need_ns)
                self._announce(now_ns)
                return
            served_ns = max(0, now_ns - self._served_until_ns)
            left_bytes -= served_ns * rate_bytes_per_s / 1e9
            self._served_until_ns += served_ns
            wait_ns = min(ahead_ns, SLICE_NS)
            self._announce(now_ns + int(wait_ns))
            if self._wait(wait_ns / 1e9):
                raise Cancelled

    def _announce(self, busy_until_ns: int) -> None:
        self._table.announce(self._stream, busy_until_ns + IDLE_NS)

    def _rate_bytes_per_s(self, now_ns: int) -> float:
        return self._table.rate_bytes_per_s(self._stream, now_ns)


class FreePacer(_Cancellable):
    """Like :class:`Pacer`, but without a rate limit: it only slows down."""

    _started_ns = 0

    def slow_down(self, slowness: float) -> None:
        """Multiply the computation's time by a factor from now on."""
        self._slowness = slowness

    def start(self, work_bytes: int) -> None:
        """Record that work on a piece starts now."""
        self._started_ns = self._clock_ns()

    def finish(self, work_bytes: int) -> None:
        """Wait if the computation is slowed down; may raise Cancelled."""
        if self._slowness == 1.0:
            return
        computing_ns = self._clock_ns() - self._started_ns
        if self._wait(computing_ns * (self._slowness - 1.0) / 1e9):
            raise Cancelled
