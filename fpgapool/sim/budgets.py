# SPDX-License-Identifier: Apache-2.0

"""The budgets of tenants in a run, by the rules of the pool's budgets.

A period has a length instead of a place in the calendar, and the first one
begins with the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.vocabulary import budget

#: What is left after rounding, as a part of what was used.
_ROUNDED = 1e-9


class _Account:
    """What a tenant may use, and has used.

    :ivar turn: the turn that the core knows.
    :ivar due_s: when the turn may change next, if slots stay as they are.
    """

    def __init__(self, limits: scenarios.Budget) -> None:
        self.limits = limits
        self.turn = model.Turn.NORMAL
        self.due_s = math.inf
        self._totals = (_total(limits.slot_s), _total(limits.bytes))
        self._charged = (0.0, 0.0)
        self._period = 0
        # When it got each of its slots, by number.
        self._since: dict[int, float] = {}

    def hold(self, slot: int, now: float) -> None:
        self._since[slot] = now

    def release(self, slot: int, now: float, data_bytes: float) -> None:
        """Charge a slot in the period in which it is released."""
        self._begin(now)
        slot_s, used_bytes = self._charged
        slot_s += now - self._since.pop(slot)
        self._charged = slot_s, used_bytes + data_bytes

    def next_turn(self, now: float) -> model.Turn:
        """Return whose turn it is from now on, and set when that may end."""
        self._begin(now)
        refills_s = (self._period + 1) * self.limits.period_s
        slot_s, used_bytes = self._charged
        open_s = sum(now - since for since in self._since.values())
        left_s = self._totals[0] - slot_s - open_s
        # The time at which nothing is left was rounded. Late in a run, it may
        # be too close to be told from now.
        if (
            left_s <= _ROUNDED * (slot_s + open_s)
            or (self._since and now + left_s / len(self._since) <= now)
            or used_bytes >= self._totals[1]
        ):
            self.due_s = refills_s
            if self.limits.action == budget.IDLE_ONLY:
                return model.Turn.LAST
            return model.Turn.NEVER
        self.due_s = math.inf
        if self._since:
            self.due_s = min(now + left_s / len(self._since), refills_s)
        return model.Turn.NORMAL

    def _begin(self, now: float) -> None:
        """Begin the period that a time is in."""
        period = int(now // self.limits.period_s)
        if now >= (period + 1) * self.limits.period_s:
            # The quotient was rounded down.
            period += 1
        if period == self._period:
            return
        given = _total(self.limits.slot_s), _total(self.limits.bytes)
        if self.limits.carry_over:
            # Of a period without any use, everything is left.
            is_next = period == self._period + 1
            charged = self._charged if is_next else (0.0, 0.0)
            given = (
                _carried(given[0], charged[0]),
                _carried(given[1], charged[1]),
            )
        self._totals = given
        self._charged = (0.0, 0.0)
        self._period = period


def _carried(limit: float, used: float) -> float:
    """Return the total of a period after one in which this was used."""
    return limit if limit == math.inf else limit + max(limit - used, 0.0)


def _total(limit: float | None) -> float:
    return math.inf if limit is None else limit


class Budgets:
    """The budgets of all tenants that have one."""

    def __init__(self, of_tenants: Mapping[str, scenarios.Budget]) -> None:
        self._accounts = {
            tenant: _Account(limits) for tenant, limits in of_tenants.items()
        }

    def hold(self, tenant: str, slot: int, now: float) -> None:
        """Note that a tenant gets a slot."""
        if (account := self._accounts.get(tenant)) is not None:
            account.hold(slot, now)
            account.due_s = now

    def release(
        self, tenant: str, slot: int, now: float, data_bytes: float
    ) -> None:
        """Note that a tenant has given a slot back.

        :param data_bytes: input and output in this slot.
        """
        if (account := self._accounts.get(tenant)) is not None:
            account.release(slot, now, data_bytes)
            account.due_s = now

    def next_s(self) -> float:
        """Return when a budget is used up or refills next."""
        return min(
            (one.due_s for one in self._accounts.values()), default=math.inf
        )

    def changes(self, now: float) -> Iterator[events.Event]:
        """Yield the tenants whose turns change now."""
        for tenant, account in self._accounts.items():
            if account.due_s > now:
                continue
            turn = account.next_turn(now)
            if turn is not account.turn:
                account.turn = turn
                yield events.TurnChanged(tenant, turn)
