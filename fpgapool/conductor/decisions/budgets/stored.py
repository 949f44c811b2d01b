# SPDX-License-Identifier: Apache-2.0

"""Budgets as rows of the table of quotas.

Earlier releases ignore resources that they do not know, so the tables stay as
they are, and services can go back to an earlier release.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.conductor.decisions.budgets import rules
from fpgapool.vocabulary import budget

_PREFIX = "budget."
_FORMER = "budget.former."
_PERIOD = "budget.period"
_ACTION = "budget.action"
_CARRY_OVER = "budget.carry_over"
_CHANGED_ON = "budget.changed_on"
#: The row with the state of a project's budget, of which operators know.
STATE = "budget.state"

# Stored by number. Never change the order.
_PERIODS = (budget.DAY, budget.WEEK, budget.MONTH)
_ACTIONS = (budget.REFUSE, budget.IDLE_ONLY, budget.FINISH)
_STATES = (budget.WITHIN, budget.NEAR, budget.EXHAUSTED)

# A former budget without a limit differs from none.
_NO_LIMIT = -1

_NAMES = (
    *(_PREFIX + name for name in rules.Limits._fields),
    *(_FORMER + name for name in rules.Limits._fields),
    _PERIOD,
    _ACTION,
    _CARRY_OVER,
    _CHANGED_ON,
)


def values(this: rules.Budget | None) -> dict[str, int | None]:
    """Return the values of a budget's rows, by resource; None: no value."""
    found: dict[str, int | None] = dict.fromkeys(_NAMES)
    if this is None:
        return found
    for name, limit in this.limits._asdict().items():
        found[_PREFIX + name] = limit
    if this.former is not None:
        for name, limit in this.former._asdict().items():
            found[_FORMER + name] = _NO_LIMIT if limit is None else limit
    found[_PERIOD] = _PERIODS.index(this.period)
    found[_ACTION] = _ACTIONS.index(this.action)
    found[_CARRY_OVER] = int(this.carry_over)
    if this.changed_on is not None:
        found[_CHANGED_ON] = this.changed_on.toordinal()
    return found


def read(stored: Mapping[str, int | None]) -> rules.Budget | None:
    """Return the budget in a project's rows; None: there is none.

    A period or action of a later release means none, too.
    """
    period, action = stored.get(_PERIOD), stored.get(_ACTION)
    changed_on = stored.get(_CHANGED_ON)
    if (
        period not in range(len(_PERIODS))
        or action not in range(len(_ACTIONS))
        or period is None
        or action is None
        or changed_on is None
    ):
        return None
    former = [stored.get(_FORMER + name) for name in rules.Limits._fields]
    return rules.Budget(
        limits=rules.Limits(
            *(stored.get(_PREFIX + name) for name in rules.Limits._fields)
        ),
        period=_PERIODS[period],
        action=_ACTIONS[action],
        carry_over=bool(stored.get(_CARRY_OVER)),
        changed_on=datetime.date.fromordinal(changed_on),
        former=(
            None
            if None in former
            else rules.Limits(
                *(None if one == _NO_LIMIT else one for one in former)
            )
        ),
    )


def periods(rows: Iterable[tuple[str, int | None]]) -> set[str]:
    """Return the kinds of periods of the budgets in rows.

    :param rows: resources and values.
    """
    return {
        _PERIODS[value]
        for resource, value in rows
        if resource == _PERIOD
        and value is not None
        and value in range(len(_PERIODS))
    }


def state_value(state: str) -> dict[str, int | None]:
    """Return the value of the row with a budget's state, by resource."""
    return {STATE: _STATES.index(state) or None}


def read_state(value: int | None) -> str:
    """Return the state in a row; None: there is no row."""
    if value is None or value not in range(len(_STATES)):
        return budget.WITHIN
    return _STATES[value]
