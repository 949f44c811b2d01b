# SPDX-License-Identifier: Apache-2.0

"""From what clients saw: how long the pool was down, and what was lost."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import statistics
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.vocabulary import codes
from tests.chaos import clients

#: Over how long a rate of opens is taken.
WINDOW_S = 4.0
#: What share of the rate before counts as recovered.
RECOVERED_SHARE = 0.7
NO_FAULT = "(no fault)"
TWO_FAULTS = "(two at a time)"


@dataclasses.dataclass(frozen=True)
class Window:
    """The time of one fault, or of two at a time.

    :ivar begin_s: when it began, on the monotonic clock.
    :ivar calm_s: when the calm after it was over.
    :ivar before_per_s: slots that were given out per second before it.
    """

    title: str
    begin_s: float
    end_s: float
    calm_s: float
    before_per_s: float


def rate_per_s(
    ready_s: Sequence[float], begin_s: float, end_s: float
) -> float:
    """Return how many slots were given out per second.

    :param ready_s: when slots were given out, in the order of time.
    """
    count = bisect.bisect_left(ready_s, end_s) - bisect.bisect_left(
        ready_s, begin_s
    )
    return count / (end_s - begin_s)


def longest_gap_s(
    ready_s: Sequence[float], begin_s: float, end_s: float
) -> float:
    """Return the longest time in which no slot was given out.

    :param ready_s: when slots were given out, in the order of time.
    """
    inside = [at_s for at_s in ready_s if begin_s < at_s < end_s]
    points = [begin_s, *inside, end_s]
    return max(later - sooner for sooner, later in itertools.pairwise(points))


def recovered_after_s(
    ready_s: Sequence[float], window: Window
) -> float | None:
    """Return how long after the end of a fault all was as before.

    The rate of opens is as before from the first moment on from which
    RECOVERED_SHARE of the earlier number is given out within WINDOW_S.

    :param ready_s: when slots were given out, in the order of time.
    :returns: seconds; None if that was not seen.
    """
    wanted = RECOVERED_SHARE * window.before_per_s
    moments = [window.end_s, *(t for t in ready_s if t > window.end_s)]
    for at_s in moments:
        if at_s + WINDOW_S > window.calm_s:
            return None
        if rate_per_s(ready_s, at_s, at_s + WINDOW_S) >= wanted:
            return at_s - window.end_s
    return None


# What became of sessions.

Test = Callable[[clients.Outcome], bool]


def _failed(outcome: clients.Outcome) -> bool:
    if outcome.neighbour and outcome.code == codes.BUDGET_EXHAUSTED:
        return False
    return bool(outcome.code) and not outcome.wanted


def was_refused(outcome: clients.Outcome) -> bool:
    """Tell whether a request was refused before it was taken in."""
    return _failed(outcome) and not outcome.state


def lost_queued(outcome: clients.Outcome) -> bool:
    """Tell whether a request was taken in and never got to its slot."""
    return _failed(outcome) and bool(outcome.state) and not outcome.ready_s


def lost_stateless(outcome: clients.Outcome) -> bool:
    """Tell whether one ended that could have gone on in another slot."""
    return _failed(outcome) and bool(outcome.ready_s) and outcome.stateless


def lost_stateful(outcome: clients.Outcome) -> bool:
    """Tell whether one ended that could only go on where it was."""
    return _failed(outcome) and bool(outcome.ready_s) and not outcome.stateless


def moved(outcome: clients.Outcome) -> bool:
    """Tell whether a session went on in another slot or connection."""
    return bool(outcome.reopens or outcome.reconnects or outcome.restarts)


@dataclasses.dataclass
class Row:
    """What has been measured of a kind of fault.

    :ivar times: how often it was injected.
    :ivar lasted_s: for how long each time.
    :ivar down_s: each time, longest time without a session getting READY.
    :ivar unrecovered: how often recovery was not seen.
    """

    title: str
    times: int = 0
    lasted_s: list[float] = dataclasses.field(default_factory=list)
    down_s: list[float] = dataclasses.field(default_factory=list)
    recovery_s: list[float] = dataclasses.field(default_factory=list)
    unrecovered: int = 0
    jobs: int = 0
    moved: int = 0
    refused: int = 0
    lost_queued: int = 0
    lost_stateless: int = 0
    lost_stateful: int = 0
    codes: dict[str, int] = dataclasses.field(default_factory=dict)

    def count(self, outcomes: Iterable[clients.Outcome]) -> None:
        """Add what became of jobs that the fault may have hit."""
        found = collections.Counter(self.codes)
        for one in outcomes:
            self.jobs += 1
            self.moved += moved(one)
            self.refused += was_refused(one)
            self.lost_queued += lost_queued(one)
            self.lost_stateless += lost_stateless(one)
            self.lost_stateful += lost_stateful(one)
            if _failed(one):
                found[one.code] += 1
        self.codes = dict(found.most_common())


def mean(values_s: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return statistics.fmean(values_s) if values_s else None


def hit(outcome: clients.Outcome, window: Window) -> bool:
    """Tell whether a job was over in the time of a fault or its calm."""
    return window.begin_s <= outcome.ended_s < window.calm_s


def rows(
    ready_s: Sequence[float],
    outcomes: Sequence[clients.Outcome],
    windows: Iterable[Window],
) -> list[Row]:
    """Measure.

    :param ready_s: when slots were given out, in the order of time.
    :param windows: faults; the two of one time are a kind of their own.
    :returns: a row for each kind, in the order of their names.
    """
    found: dict[str, Row] = {}
    for window in windows:
        title = TWO_FAULTS if " + " in window.title else window.title
        row = found.setdefault(title, Row(title))
        row.times += 1
        row.lasted_s.append(window.end_s - window.begin_s)
        row.down_s.append(
            longest_gap_s(ready_s, window.begin_s, window.calm_s)
        )
        if title != NO_FAULT:
            recovery_s = recovered_after_s(ready_s, window)
            if recovery_s is None:
                row.unrecovered += 1
            else:
                row.recovery_s.append(recovery_s)
        row.count(one for one in outcomes if hit(one, window))
    return [found[title] for title in sorted(found)]
