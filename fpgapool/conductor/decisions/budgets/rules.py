# SPDX-License-Identifier: Apache-2.0

"""What a budget allows, and what is left of it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Self

from fpgapool.vocabulary import budget

#: The highest percentage that an estimate is said to take.
MOST_PCT = 1000.0


class Amounts(NamedTuple):
    """What was used of each resource, in slot seconds, bytes and joules."""

    slot_s: float = 0.0
    bytes: float = 0.0
    energy_j: float = 0.0

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum of both."""
        return Amounts(
            self.slot_s + other.slot_s,
            self.bytes + other.bytes,
            self.energy_j + other.energy_j,
        )


NOTHING = Amounts()


class Limits(NamedTuple):
    """The limits of a period; None: the resource is not limited."""

    slot_s: int | None = None
    bytes: int | None = None
    energy_j: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of a project, or the default.

    :ivar carry_over: whether what was left of one period can be used in the
        next one, and in no later one.
    :ivar changed_on: the day on which its limits were last set; None: it is
        the default, and was always the same.
    :ivar former: the limits at the end of the period before that day; None:
        there was no such budget.
    """

    limits: Limits
    period: str = budget.MONTH
    action: str = budget.REFUSE
    carry_over: bool = False
    changed_on: datetime.date | None = None
    former: Limits | None = None

    @classmethod
    def of(cls, checked: Mapping[str, Any]) -> Self:
        """Return the budget of :func:`fpgapool.vocabulary.budget.checked`."""
        return cls(
            limits=Limits(*(checked[name] for name in Limits._fields)),
            period=checked["period"],
            action=checked["action"],
            carry_over=checked["carry_over"],
        )

    def is_as(self, other: Budget) -> bool:
        """Return whether this allows the same, apart from the past."""
        same = dataclasses.replace(
            other, changed_on=self.changed_on, former=self.former
        )
        return self == same

    def set_on(self, day: datetime.date, before: Budget | None) -> Budget:
        """Return this budget as one that replaces another on a day."""
        former = None
        if before is not None and before.period == self.period:
            former = before.limits_before(begins(self.period, day))
        return dataclasses.replace(self, changed_on=day, former=former)

    def limits_before(self, begin: datetime.date) -> Limits | None:
        """Return the limits at the end of the period before this one."""
        if self.changed_on is None or self.changed_on < begin:
            return self.limits
        return self.former


def begins(period: str, day: datetime.date) -> datetime.date:
    """Return the first day of the period that a day is in.

    Weeks begin on Mondays.
    """
    if period == budget.DAY:
        return day
    if period == budget.WEEK:
        return day - datetime.timedelta(days=day.weekday())
    return day.replace(day=1)


def refills(period: str, begin: datetime.date) -> datetime.date:
    """Return the first day of the next period."""
    # Longer than any period, and shorter than two of them.
    days = {budget.DAY: 1, budget.WEEK: 7, budget.MONTH: 31}[period]
    return begins(period, begin + datetime.timedelta(days=days))


def former(period: str, begin: datetime.date) -> datetime.date:
    """Return the first day of the period before."""
    return begins(period, begin - datetime.timedelta(days=1))


def carried(
    this: Budget, begin: datetime.date, used_before: Amounts
) -> Amounts:
    """Return what is left of the former period and can be used now.

    :param begin: the first day of the period.
    :param used_before: what was used in the former one.
    """
    limits = this.limits_before(begin) if this.carry_over else None
    if limits is None:
        return NOTHING
    return Amounts(
        *(
            0.0 if limit is None else max(limit - used, 0.0)
            for limit, used in zip(limits, used_before, strict=True)
        )
    )


class Part(NamedTuple):
    """One resource of a budget.

    :ivar total: the limit and what was carried over.
    :ivar used: what was used, including what is not charged yet.
    """

    resource: str
    total: float
    used: float

    @property
    def left(self) -> float:
        return max(self.total - self.used, 0.0)


def parts(this: Budget, extra: Amounts, used: Amounts) -> Iterator[Part]:
    """Yield the limited resources.

    :param extra: what was carried over.
    """
    for name, limit, more, spent in zip(
        Limits._fields, this.limits, extra, used, strict=True
    ):
        if limit is not None:
            yield Part(name, limit + more, spent)


def state(this: Budget, extra: Amounts, used: Amounts) -> str:
    """Return how much of a budget is used: one of its states."""
    share = max(
        (one.used / one.total for one in parts(this, extra, used)),
        default=0.0,
    )
    if share >= 1:
        return budget.EXHAUSTED
    return budget.NEAR if share >= budget.NEAR_SHARE else budget.WITHIN


def taken_pct(
    this: Budget, extra: Amounts, used: Amounts, estimate: Amounts
) -> float:
    """Return the percentage of what is left that an estimate takes.

    It is that of the scarcest resource; more than 100: it is not enough.
    Higher percentages than :data:`MOST_PCT` count as this one.
    """
    wanted = estimate._asdict()
    shares = (
        100.0 * wanted[one.resource] / one.left if one.left else MOST_PCT
        for one in parts(this, extra, used)
        if wanted[one.resource]
    )
    return min(max(shares, default=0.0), MOST_PCT)
