# SPDX-License-Identifier: Apache-2.0

"""The clock for timestamps that are stored."""

import threading
import time
from collections.abc import Callable


class WallClock:
    """The wall clock at the start, advanced by the monotonic clock.

    It never runs backwards and never jumps, even if the system clock is
    changed. Safe to use from several threads.

    :param not_before: the latest time that an earlier run has stored; this
        clock starts there if the system clock was set back meanwhile.
    :param wall: returns seconds since the epoch; None: the system clock.
    :param monotonic: returns seconds that never run backwards; None: the
        system's monotonic clock.
    """

    def __init__(
        self,
        not_before: float = 0.0,
        *,
        wall: Callable[[], float] | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        # Look them up here and not at import, because tests replace them.
        wall = wall or time.time
        self._monotonic = monotonic = monotonic or time.monotonic
        # wall() may be slow, so read the monotonic clock after it.
        self._start_s = max(wall(), not_before)
        self._start_monotonic_s = monotonic()
        self._latest_s = self._start_s
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return seconds since the epoch, never less than an earlier call."""
        progress_s = self._monotonic() - self._start_monotonic_s
        with self._lock:
            # Threads may arrive here out of order.
            self._latest_s = max(self._latest_s, self._start_s + progress_s)
            return self._latest_s
