# SPDX-License-Identifier: Apache-2.0
"""Caches of data that many requests need."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
import time
from collections.abc import Callable
from collections.abc import Hashable
from typing import Any
from typing import Generic
from typing import NamedTuple
from typing import TypeVar

_T = TypeVar("_T")

# Maximum total size of cached documents, and maximum number of cached values.
_MOST_BYTES = 16 * 2**20
_MOST_VALUES = 1000


class Remembered(Generic[_T]):
    """A value that is loaded again when it is too old.

    One thread loads the value while the others get the old one, or wait if
    there is none. Thread-safe.

    :param load: returns the current value; its errors reach the caller.
    :param max_age_s: maximum age; 0: the value is loaded for each caller.
    :param clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        load: Callable[[], _T],
        max_age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._max_age_s = max_age_s
        self._clock = clock
        self._changed = threading.Condition()
        # The value, and when loading it began.
        self._known: tuple[_T, float] | None = None
        self._loading = False
        # Increases when a value that is being loaded may be out of date.
        self._era = 0

    def get(self) -> _T:
        """Return the value, and load it first if it is too old."""
        if self._max_age_s <= 0:
            return self._load()
        # The usual case, which does not need the lock.
        known = self._known
        if known is not None and self._clock() - known[1] <= self._max_age_s:
            return known[0]
        with self._changed:
            while True:
                if self._known is not None:
                    value, at = self._known
                    fresh = self._clock() - at <= self._max_age_s
                    if fresh or self._loading:
                        return value
                if not self._loading:
                    break
                self._changed.wait()
            self._loading = True
            era, began = self._era, self._clock()
        return self._loaded(era, began)

    def _loaded(self, era: int, began: float) -> _T:
        known: tuple[_T, float] | None = None
        try:
            known = self._load(), began
            return known[0]
        finally:
            with self._changed:
                if era == self._era:
                    self._loading = False
                    self._known = known or self._known
                self._changed.notify_all()

    def forget(self) -> None:
        """Drop the value, so that the next caller sees a change."""
        with self._changed:
            self._era += 1
            self._known = None
            # The current load may have begun before the change.
            self._loading = False
            self._changed.notify_all()


class Ended(Generic[_T]):
    """Caches only values that have ended and hardly change; thread-safe.

    :param load: returns the current value for a key.
    :param max_age_s: maximum age; 0: no values are kept.
    :param clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        load: Callable[[str], _T],
        has_ended: Callable[[_T], bool],
        max_age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._has_ended = has_ended
        self._max_age_s = max_age_s
        self._clock = clock
        self._known: dict[str, tuple[_T, float]] = {}

    def get(self, key: str) -> _T:
        began = self._clock()
        known = self._known.get(key)
        if known is not None and began - known[1] <= self._max_age_s:
            return known[0]
        value = self._load(key)
        if self._max_age_s > 0 and self._has_ended(value):
            if len(self._known) >= _MOST_VALUES:
                self._known.clear()
            self._known[key] = value, began
        return value


class Text(NamedTuple):
    """An encoded document, with its ETag."""

    data: bytes
    tag: str


class Texts:
    """Documents made from a value, cached until it changes; thread-safe."""

    def __init__(self) -> None:
        self._kept = _Kept(None, {})

    def get(
        self, value: object, key: Hashable, make: Callable[[], Any]
    ) -> Text:
        """Return an encoded document.

        :param value: the value from which it is made.
        :param key: everything else that the document depends on.
        :param make: makes the document if it is not cached.
        """
        kept = self._kept
        if kept.value is not value:
            kept = self._kept = _Kept(value, {})
        found = kept.texts.get(key)
        if found is None:
            data = json.dumps(make()).encode()
            found = Text(data, hashlib.sha256(data).hexdigest()[:32])
            if kept.size_bytes + len(data) <= _MOST_BYTES:
                kept.size_bytes += len(data)
                kept.texts[key] = found
        return found


@dataclasses.dataclass
class _Kept:
    value: object
    texts: dict[Hashable, Text]
    size_bytes: int = 0
