# SPDX-License-Identifier: Apache-2.0

"""Estimates how long sessions will wait for a slot."""

from __future__ import annotations

import collections

# Maximum and minimum number of measurements for a mean; more would follow
# changes too slowly.
_REMEMBERED = 100
_LEAST = 5


class Pace:
    """The rate at which waiting sessions get slots.

    A session that finds an idle slot restarts the measurement: nobody waits.
    """

    def __init__(self) -> None:
        self._given_at: collections.deque[float] = collections.deque(
            maxlen=_REMEMBERED
        )

    def note(self, waited_s: float, now: float) -> None:
        """Record that a session gets a slot."""
        if waited_s > 0:
            self._given_at.append(now)
        else:
            self._given_at.clear()

    def expected_wait_s(self, position: int, now: float) -> float | None:
        """Estimate the remaining wait at the current rate.

        :param position: position in the queue; 0 is next.
        :returns: None while there are too few measurements.
        """
        interval_s = self.interval_s(now)
        return None if interval_s is None else (position + 1) * interval_s

    def interval_s(self, now: float) -> float | None:
        """Return the mean time between two assignments.

        :returns: None while there are too few measurements.
        """
        count = len(self._given_at)
        if count < _LEAST:
            return None
        return max(now - self._given_at[0], 0.0) / count
