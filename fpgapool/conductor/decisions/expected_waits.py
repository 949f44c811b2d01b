# SPDX-License-Identifier: Apache-2.0

"""How long who waits will probably have to."""

from __future__ import annotations

import collections

# Enough for a mean, few enough to follow a change.
_REMEMBERED = 100
_LEAST = 5


class Pace:
    """How fast slots have been given to sessions that waited for one.

    A session that found an idle slot says nothing of a queue, and neither
    does what was before: it begins anew whenever nobody has had to wait.
    """

    def __init__(self) -> None:
        self._given_at: collections.deque[float] = collections.deque(
            maxlen=_REMEMBERED
        )

    def note(self, waited_s: float, now: float) -> None:
        """A session gets a slot.

        :param waited_s: how long it has waited for it.
        :param now: wall clock in seconds.
        """
        if waited_s > 0:
            self._given_at.append(now)
        else:
            self._given_at.clear()

    def expected_wait_s(self, position: int, now: float) -> float | None:
        """How long somebody still waits if all goes on like this.

        :param position: in the queue; 0 is next.
        :param now: wall clock in seconds.
        :returns: None while too little is known.
        """
        count = len(self._given_at)
        if count < _LEAST:
            return None
        return (position + 1) * max(now - self._given_at[0], 0.0) / count
