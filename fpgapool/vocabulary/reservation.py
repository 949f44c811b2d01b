# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar: slots for a project, from a time to another."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from typing import Any

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules

#: Its slots are promised.
SCHEDULED = "scheduled"
#: It has not begun, and fewer slots than promised work.
AT_RISK = "at_risk"
#: It has its slots now.
ACTIVE = "active"
#: It has begun, and fewer slots than promised work.
FAILED = "failed"
#: It has begun, and its slots were not used for too long.
RELEASED = "released"
ENDED = "ended"
STATES = (SCHEDULED, AT_RISK, ACTIVE, FAILED, RELEASED, ENDED)
#: States in which it is over.
OVER = frozenset({ENDED})

NEVER = "never"
DAY = "day"
WEEK = "week"
#: How often it recurs, and the seconds between two starts.
PERIODS_S: typing.Final[Mapping[str, float]] = {
    NEVER: 0.0,
    DAY: 86400.0,
    WEEK: 7 * 86400.0,
}
REPEATS = tuple(PERIODS_S)

MAX_SLOTS = 10_000
#: How often a reservation recurs at most, the first time included.
MAX_TIMES = 100
#: All reservations of a pool have so many spans together at most.
MAX_SPANS = 10_000
MIN_LENGTH_S = 60.0
#: How far ahead the last end may be.
HORIZON_S = 366 * 86400.0
MAX_HOSTS = 100
#: Default of ``grace_s``.
GRACE_S = 900.0
#: A reservation that is over is kept for so long.
KEPT_S = 7 * 86400.0

# In the year 5138.
_LATEST_S = 1e11
_NAME = re.compile(rules.GROUP_NAME)

#: The members of a request and their defaults, where they have one.
DEFAULTS: typing.Final[Mapping[str, Any]] = {
    "name": None,
    "repeat": NEVER,
    "times": 1,
    "host_uuids": (),
    "device_id": None,
    "grace_s": GRACE_S,
}
_REQUIRED = ("accelerator", "slots", "start_s", "end_s")
#: Members that a request may have.
MEMBERS = (*_REQUIRED, *DEFAULTS)
#: Members of a reservation that has begun and may still change.
_WHILE_ACTIVE = ("name", "end_s", "grace_s")
#: Times have other names and another form in the API, from which requests
#: come.
API_TIMES = {"start_at": "start_s", "end_at": "end_s"}
_API_NAMES = {ours: shown for shown, ours in API_TIMES.items()}

FIELDS = fields.Fields(
    fields.shown("id", fields.UUID, column=True),
    fields.shown(
        "name", fields.NAME, "Unique or not; null: none.", default=None
    ),
    fields.shown("project_id", fields.NAME, "The project that has the slots."),
    fields.shown(
        "accelerator",
        fields.NAME,
        "Only sessions and groups with it get the slots.",
        column=True,
    ),
    fields.shown(
        "slots", fields.COUNT, "Number of reserved slots.", column=True
    ),
    fields.shown(
        "start_at",
        fields.TIME,
        "Its present or next start; of the last one, if it is over.",
        column=True,
    ),
    fields.shown("end_at", fields.TIME, "The end that follows.", column=True),
    fields.shown(
        "state",
        fields.STATE,
        "`scheduled`; `at_risk`: fewer slots than promised work, and it has"
        " not begun; `active`; `failed`: fewer slots than promised work, and"
        " it has begun; `released`: its slots were not used for `grace_s`;"
        " `ended`.",
        column=True,
    ),
    fields.shown(
        "repeat",
        fields.STATE,
        "`never`, `day` or `week`: how often it recurs.",
    ),
    fields.shown(
        "times", fields.COUNT, "How often it begins yet, now included."
    ),
    fields.shown(
        "host_uuids",
        fields.NAMES,
        "The hosts that its slots may be on; empty: any.",
    ),
    fields.shown(
        "device_id", fields.UUID, "The device of its slots.", default=None
    ),
    fields.shown(
        "grace_s",
        fields.SECONDS,
        "After so many seconds without use its slots are released; 0: never.",
    ),
    fields.shown(
        "working_slots",
        fields.COUNT,
        "How many of its slots work now.",
        column=True,
    ),
    fields.shown(
        "used_slot_s",
        fields.NUMBER,
        "Seconds for which the project's sessions held its slots.",
    ),
    fields.shown(
        "unused_slot_s",
        fields.NUMBER,
        "Seconds for which its slots were kept for them and not held.",
    ),
    fields.shown("created_at", fields.TIME, ""),
    sort_keys=("start_at", "accelerator", "state", "created_at"),
    filters={
        name: name for name in ("name", "accelerator", "state", "project_id")
    },
)


class Invalid(ValueError):
    """Raised if a reservation makes no sense."""


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check a reservation without regard to the time and to the pool.

    :returns: all members, with the defaults.
    :raises Invalid: if a member is unknown, is missing or has no valid value.
    """
    for name in given:
        if name not in MEMBERS:
            raise Invalid(
                f"{name:.40} is no member of a reservation; the members are"
                f" {', '.join(map(_said, MEMBERS))}"
            )
    for name in _REQUIRED:
        if given.get(name) is None:
            raise Invalid(f"{_said(name)} is required")
    found = {**DEFAULTS, **given}
    _check_texts(found)
    if found["repeat"] != NEVER and given.get("times") is None:
        raise Invalid(
            "a reservation that recurs needs times: how often it begins, the"
            f" first time included; {MAX_TIMES} at most"
        )
    found["slots"] = _whole(found, "slots", 1, MAX_SLOTS)
    found["times"] = _whole(found, "times", 1, MAX_TIMES)
    for name, said in _API_NAMES.items():
        try:
            found[name] = _number(found, name, 0.0, _LATEST_S)
        except Invalid:
            raise Invalid(
                f"{said} must be in the years 1970 to 5138"
            ) from None
    found["grace_s"] = _number(found, "grace_s", 0.0, HORIZON_S)
    _check_times(found)
    return found


def changed(
    old: Mapping[str, Any], change: Mapping[str, Any], *, begun: bool
) -> dict[str, Any]:
    """Return a reservation with changes, checked like a new one.

    :param begun: whether it has begun.
    :raises Invalid: if the changes are invalid, or not possible any more.
    """
    if begun:
        for name in change:
            if name not in _WHILE_ACTIVE:
                raise Invalid(
                    f"{_said(name):.40} cannot change while the reservation"
                    f" runs; only {', '.join(map(_said, _WHILE_ACTIVE))} can"
                )
    merged = {**old, **change}
    if old["repeat"] == NEVER and "times" not in change:
        # That it began once does not say how often it is to begin.
        del merged["times"]
    return checked(merged)


def _said(name: str) -> str:
    return _API_NAMES.get(name, name)


def _check_texts(found: dict[str, Any]) -> None:
    name = found["name"]
    if name is not None and not (
        isinstance(name, str) and _NAME.fullmatch(name)
    ):
        raise Invalid(f"name must be {rules.GROUP_NAME_WORDS}")
    if found["repeat"] not in REPEATS:
        raise Invalid(f"repeat must be one of {', '.join(REPEATS)}")
    for name in "accelerator", "device_id":
        value = found[name]
        if value is not None and not _is_text(value):
            raise Invalid(f"{name} must be 1 to 255 printable characters")
    hosts = found["host_uuids"]
    if (
        not isinstance(hosts, list | tuple)
        or len(hosts) > MAX_HOSTS
        or not all(map(_is_text, hosts))
    ):
        raise Invalid(
            f"host_uuids must be a list of at most {MAX_HOSTS} UUIDs"
        )
    found["host_uuids"] = sorted(set(hosts))


def _is_text(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= 255
        and value.isprintable()
    )


def _check_times(found: Mapping[str, Any]) -> None:
    start_s, end_s = found["start_s"], found["end_s"]
    period_s = PERIODS_S[found["repeat"]]
    if end_s <= start_s:
        raise Invalid("the reservation must end after its start")
    if end_s - start_s < MIN_LENGTH_S:
        raise Invalid(f"the reservation must last {MIN_LENGTH_S:g} s at least")
    if not period_s and found["times"] != 1:
        raise Invalid("times above 1 need repeat, day or week")
    if period_s and end_s - start_s > period_s:
        raise Invalid("the reservation must end before it begins again")


def _whole(found: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = found[name]
    # JSON Schema also accepts 4.0 as an integer.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= most
    ):
        raise Invalid(f"{name} must be a whole number from {least} to {most}")
    return value


def _number(
    found: Mapping[str, Any], name: str, least: float, most: float
) -> float:
    value = found[name]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        # Whole numbers of any size can be compared; NaN is in no range.
        or not least <= value <= most
    ):
        raise Invalid(f"{name} must be a number from {least:g} to {most:g}")
    return float(value)
