# SPDX-License-Identifier: Apache-2.0

"""The times of a reservation."""

import typing

from fpgapool.vocabulary import reservation


class Span(typing.NamedTuple):
    """A time from a start to an end, which is not part of it."""

    start_s: float
    end_s: float

    def overlaps(self, other: "Span") -> bool:
        """Return whether both have a moment in common."""
        return self.start_s < other.end_s and other.start_s < self.end_s

    def later(self, delay_s: float) -> "Span":
        """Return the same span after a delay."""
        return Span(self.start_s + delay_s, self.end_s + delay_s)


def occurrences(first: Span, repeat: str, times: int) -> tuple[Span, ...]:
    """Return all spans of a reservation, the first one included.

    :param repeat: one of :data:`fpgapool.vocabulary.reservation.REPEATS`.
    :param times: the number of spans.
    """
    period_s = reservation.PERIODS_S[repeat]
    return tuple(first.later(number * period_s) for number in range(times))
