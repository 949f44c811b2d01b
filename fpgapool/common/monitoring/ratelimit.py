# SPDX-License-Identifier: Apache-2.0

"""Rate limits on callers, and on log lines that untrusted peers can cause."""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
import time
import typing
from collections.abc import Callable

BURST = 10
INTERVAL_S = 60.0

# Maximum number of callers per limiter; it forgets those whose last request
# is oldest.
_MAX_BUCKETS = 10_000


@dataclasses.dataclass(slots=True)
class _Kind:
    """Counts the lines of one format in the current interval."""

    until_s: float
    count: int = 0


class RateLimitedLog(logging.LoggerAdapter[logging.Logger]):
    """Logs at most :data:`BURST` lines of each format per interval.

    The first line of the next interval says how many were omitted. Safe to
    use from several threads.
    """

    def __init__(
        self, name: str, clock: Callable[[], float] | None = None
    ) -> None:
        super().__init__(logging.getLogger(name), {})
        self._clock = clock or time.monotonic
        self._lock = threading.Lock()
        # Keyed by format; there are only as many as the code has.
        self._kinds: dict[object, _Kind] = {}

    def log(
        self, level: int, msg: object, *args: object, **kwargs: typing.Any
    ) -> None:
        """Log a line; if there were too many like it, only count it."""
        left_out = self._count(msg)
        if left_out is None:
            return
        if left_out:
            msg, args = f"{msg} (%d similar lines omitted)", (*args, left_out)
        # stacklevel makes the line show where the caller logged it.
        super().log(level, msg, *args, **{"stacklevel": 2, **kwargs})

    def _count(self, msg: object) -> int | None:
        """Return the number of lines omitted before; None: omit this one."""
        now_s = self._clock()
        with self._lock:
            kind = self._kinds.get(msg)
            left_out = 0
            if kind is None or now_s >= kind.until_s:
                left_out = 0 if kind is None else max(0, kind.count - BURST)
                kind = self._kinds[msg] = _Kind(now_s + INTERVAL_S)
            kind.count += 1
            return left_out if kind.count <= BURST else None


@dataclasses.dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_s: float


class Limiter:
    """A token bucket for each of many callers; thread-safe.

    :param per_s: sustained requests per second; 0: unlimited.
    """

    def __init__(
        self,
        per_s: float,
        burst: int,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._clock = clock or time.monotonic
        self._lock = threading.Lock()
        self._buckets: collections.OrderedDict[str, _Bucket] = (
            collections.OrderedDict()
        )

    def wait_s(self, caller: str) -> float:
        """Count a request and return 0, or return the seconds to wait."""
        if not self._per_s:
            return 0.0
        with self._lock:
            now = self._clock()
            bucket = self._buckets.pop(caller, None)
            if bucket is None:
                bucket = _Bucket(self._burst, now)
            self._buckets[caller] = bucket
            while len(self._buckets) > _MAX_BUCKETS:
                self._buckets.popitem(last=False)
            gained = (now - bucket.filled_s) * self._per_s
            bucket.tokens = min(self._burst, bucket.tokens + gained)
            bucket.filled_s = now
            if bucket.tokens < 1:
                return (1 - bucket.tokens) / self._per_s
            bucket.tokens -= 1
            return 0.0
