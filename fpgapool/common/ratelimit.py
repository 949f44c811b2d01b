# SPDX-License-Identifier: Apache-2.0

"""A rate limit for log lines that unauthenticated peers can cause."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import typing
from collections.abc import Callable

BURST = 10
INTERVAL_S = 60.0


@dataclasses.dataclass(slots=True)
class _Kind:
    """Counts the lines of one format in the current interval."""

    until_s: float
    count: int = 0


class RateLimitedLog(logging.LoggerAdapter[logging.Logger]):
    """Logs at most :data:`BURST` lines of each format in an interval.

    The first line of the next interval says how many were left out. Safe to
    use from several threads.

    :param name: of the logger.
    :param clock: monotonic time in seconds.
    """

    def __init__(
        self, name: str, clock: Callable[[], float] | None = None
    ) -> None:
        super().__init__(logging.getLogger(name), {})
        self._clock = clock or time.monotonic
        self._lock = threading.Lock()
        # By format; the code has few.
        self._kinds: dict[object, _Kind] = {}

    def log(
        self, level: int, msg: object, *args: object, **kwargs: typing.Any
    ) -> None:
        """Log a line, or only count it if there were too many like it."""
        left_out = self._count(msg)
        if left_out is None:
            return
        if left_out:
            msg, args = f"{msg} (%d more like it left out)", (*args, left_out)
        # stacklevel: the line names the caller's place in the code.
        super().log(level, msg, *args, **{"stacklevel": 2, **kwargs})

    def _count(self, msg: object) -> int | None:
        """:returns: the number left out before; None to leave this out."""
        now_s = self._clock()
        with self._lock:
            kind = self._kinds.get(msg)
            left_out = 0
            if kind is None or now_s >= kind.until_s:
                left_out = 0 if kind is None else max(0, kind.count - BURST)
                kind = self._kinds[msg] = _Kind(now_s + INTERVAL_S)
            kind.count += 1
            return left_out if kind.count <= BURST else None
