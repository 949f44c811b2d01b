#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Modelled rates: the slots of a device share its DMA pipe.

Every slot is its own process. They tell each other through a small table in
a mapped file which of them are busy; each computes its own max-min fair
share from it and holds itself to that.
"""

from __future__ import annotations

import collections.abc
import mmap
import os
import threading
import time

from fpgapool.core import fairness

#: A slot without work for this long no longer counts as busy. It is also
#: the depth of the token bucket: a slot that starts its next piece within
#: that time has lost nothing, and wake-ups that come late are made good.
IDLE_NS = 5_000_000
#: How often a waiting slot looks whether its share has changed.
SLICE_NS = 5_000_000

_RECORD_WORDS = 2
_WORD_BYTES = 8


class Cancelled(Exception):
    """The wait was given up."""


class ShareTable:
    """Which slots of a device are busy, shared by their processes.

    Two aligned 8-byte words per slot: until when it is busy, in ns of
    ``CLOCK_MONOTONIC``, and its own peak rate in bytes/s. Each slot writes
    only its own, and single words are read and written whole. A process
    that dies leaves a time that passes soon.

    :param path: of the file; made if it is missing.
    :param slots: number of slots of the device.
    """

    def __init__(self, path: str | os.PathLike[str], slots: int) -> None:
        length_bytes = slots * _RECORD_WORDS * _WORD_BYTES
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Grows only: another process may have it mapped.
            if os.fstat(fd).st_size < length_bytes:
                os.ftruncate(fd, length_bytes)
            memory = memoryview(mmap.mmap(fd, length_bytes))
        finally:
            os.close(fd)
        self._slots = slots
        self._busy_until_ns = memory.cast("Q")
        self._peaks_bytes_per_s = memory.cast("d")

    def announce(
        self, slot: int, busy_until_ns: int, peak_bytes_per_s: float
    ) -> None:
        """Say until when a slot is busy.

        :param slot: the caller's own.
        :param busy_until_ns: monotonic time.
        :param peak_bytes_per_s: what it could use alone.
        """
        self._peaks_bytes_per_s[slot * _RECORD_WORDS + 1] = peak_bytes_per_s
        self._busy_until_ns[slot * _RECORD_WORDS] = busy_until_ns

    def busy_peaks_bytes_per_s(
        self, now_ns: int, besides: int | None = None
    ) -> list[float]:
        """List the peak rates of the busy slots.

        :param now_ns: monotonic time.
        :param besides: a slot to leave out.
        :returns: rates in bytes/s.
        """
        peaks = []
        for slot in range(self._slots):
            word = slot * _RECORD_WORDS
            if slot != besides and self._busy_until_ns[word] > now_ns:
                peaks.append(self._peaks_bytes_per_s[word + 1])
        return peaks


class Pacer:
    """Holds one slot to its modelled rate.

    :param table: shared by the slots of the device.
    :param slot: number of this one.
    :param peak_bytes_per_s: its own limit.
    :param shared_bytes_per_s: limit that all slots share.
    :param clock_ns: monotonic time, the same in all processes of the host.
    :param wait: waits for so many seconds; true if cancelled meanwhile.
    """

    def __init__(
        self,
        table: ShareTable,
        slot: int,
        peak_bytes_per_s: float,
        shared_bytes_per_s: float,
        *,
        clock_ns: collections.abc.Callable[[], int] = time.monotonic_ns,
        wait: collections.abc.Callable[[float], bool] | None = None,
    ) -> None:
        self._table = table
        self._slot = slot
        self._peak_bytes_per_s = peak_bytes_per_s
        self._shared_bytes_per_s = shared_bytes_per_s
        self._clock_ns = clock_ns
        self._cancelled = threading.Event()
        self._wait = wait or self._cancelled.wait
        # The work done so far has taken the model until this time.
        self._served_until_ns = 0

    def start(self, work_bytes: int) -> None:
        """Note that a piece of work begins now.

        :param work_bytes: its length.
        """
        now_ns = self._clock_ns()
        self._served_until_ns = max(self._served_until_ns, now_ns - IDLE_NS)
        # Computing it for real may take as long as the model says.
        rate_bytes_per_s = self._rate_bytes_per_s(now_ns)
        self._announce(now_ns + int(work_bytes / rate_bytes_per_s * 1e9))

    def finish(self, work_bytes: int) -> None:
        """Wait until the model is through with the piece that began.

        :param work_bytes: its length.
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

    def cancel(self) -> None:
        """Wake a waiting :meth:`finish`, from any thread."""
        self._cancelled.set()

    def _announce(self, busy_until_ns: int) -> None:
        self._table.announce(
            self._slot, busy_until_ns + IDLE_NS, self._peak_bytes_per_s
        )

    def _rate_bytes_per_s(self, now_ns: int) -> float:
        others = self._table.busy_peaks_bytes_per_s(now_ns, self._slot)
        rates: list[float] = fairness.share_one_link(
            self._shared_bytes_per_s, [self._peak_bytes_per_s, *others]
        )
        return rates[0]
