# SPDX-License-Identifier: Apache-2.0

"""Budgets: how much a project may use in a day, week or month."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from fpgapool.vocabulary import fields

#: The resources that budgets limit, and what each counts.
RESOURCES: typing.Final = {
    "slot_s": "Seconds for which slots are held.",
    "bytes": "Bytes of input and output.",
    "energy_j": "Joules, where they are measured or known.",
}
#: The largest limit; the smallest is 1.
MAX_LIMIT = 2**53 - 1

DAY = "day"
WEEK = "week"
MONTH = "month"
PERIODS = (DAY, WEEK, MONTH)

#: New sessions are refused; those that wait stay in the queue.
REFUSE = "refuse"
#: Sessions get only slots that nobody else takes.
IDLE_ONLY = "idle_only"
#: New sessions are refused, and those that wait end.
FINISH = "finish"
ACTIONS = (REFUSE, IDLE_ONLY, FINISH)

WITHIN = "within"
NEAR = "near"
EXHAUSTED = "exhausted"
#: How much of a budget is used, least first.
STATES = (WITHIN, NEAR, EXHAUSTED)
#: The part of a budget at which it is NEAR.
NEAR_SHARE = 0.8

#: The default of each member that a request omits.
DEFAULTS: typing.Final = {
    **dict.fromkeys(RESOURCES),
    "period": MONTH,
    "action": REFUSE,
    "carry_over": False,
}


_AMOUNTS = (
    " Null: no limit. `limit` is the amount for a period, `carried` what was"
    " left of the one before, `used` what was charged, `open` what sessions"
    " and groups have used that is charged later, and `left` the rest."
)
#: A project's budget.
FIELDS = fields.Fields(
    fields.shown("project_id", fields.NAME, column=True),
    fields.shown(
        "source",
        fields.STATE,
        "`project`: it was set for the project; `default`: the default.",
        column=True,
    ),
    fields.shown(
        "period",
        fields.STATE,
        "`day`, `week` (from Monday) or `month`, in UTC.",
        column=True,
    ),
    fields.shown(
        "action",
        fields.STATE,
        "What happens when nothing is left: `refuse`, `idle_only` or"
        " `finish`.",
        column=True,
    ),
    fields.shown(
        "carry_over",
        fields.FLAG,
        "Whether what is left can be used in the next period.",
    ),
    fields.shown(
        "state",
        fields.STATE,
        "`within`, `near` (at least 80 % are used) or `exhausted`.",
        column=True,
    ),
    fields.shown("begins", fields.DAY, "First day of the period."),
    fields.shown(
        "refills", fields.DAY, "First day of the next period.", column=True
    ),
    *(
        fields.shown(
            name, fields.OBJECT, meaning + _AMOUNTS, default=None, column=True
        )
        for name, meaning in RESOURCES.items()
    ),
)


class Invalid(ValueError):
    """Raised if a budget makes no sense."""


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check a budget, and complete it with the defaults.

    :raises Invalid: if a member is unknown or has no valid value, or if
        nothing is limited.
    """
    for name in given:
        if name not in DEFAULTS:
            raise Invalid(
                f"{name:.40} is no member of a budget; the members are"
                f" {', '.join(DEFAULTS)}"
            )
    found = {**DEFAULTS, **given}
    for name, words in ("period", PERIODS), ("action", ACTIONS):
        if found[name] not in words:
            raise Invalid(f"{name} must be one of {', '.join(words)}")
    if not isinstance(found["carry_over"], bool):
        raise Invalid("carry_over must be true or false")
    for name in RESOURCES:
        found[name] = _limit(name, found[name])
    if all(found[name] is None for name in RESOURCES):
        raise Invalid(f"at least one of {', '.join(RESOURCES)} needs a limit")
    return found


def _limit(name: str, value: object) -> int | None:
    if value is None:
        return None
    # JSON Schema also accepts 1e9 as an integer.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not 1 <= value <= MAX_LIMIT
    ):
        raise Invalid(
            f"{name} must be a whole number from 1 to {MAX_LIMIT}, or null"
            " for no limit"
        )
    return value
