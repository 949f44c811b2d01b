# SPDX-License-Identifier: Apache-2.0
"""What many requests ask for, loaded for all of them at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic
from typing import TypeVar

_T = TypeVar("_T")


class Remembered(Generic[_T]):
    """Something that is loaded again when it has become too old.

    One thread loads while the others get the old one, or wait if there is
    none. Safe to use from several threads.

    :param load: returns it as it is now; its errors go to who caused it.
    :param max_age_s: how old it may be; 0: it is loaded for each who asks.
    :param clock: of seconds, never going back.
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
        # What is known, and when its loading began.
        self._known: tuple[_T, float] | None = None
        self._loading = False
        # Grows when what is being loaded may be out of date.
        self._era = 0

    def get(self) -> _T:
        """Return it, no older than allowed when this call began.

        While somebody loads it, it is older by the time that this takes.
        """
        if self._max_age_s <= 0:
            return self._load()
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
        """Have it loaded by whoever asks next, as after a change."""
        with self._changed:
            self._era += 1
            self._known = None
            # Whoever loads now may have begun before the change.
            self._loading = False
            self._changed.notify_all()
