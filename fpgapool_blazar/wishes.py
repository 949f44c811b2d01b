# SPDX-License-Identifier: Apache-2.0

"""What a lease means for the pool. Decides only; knows no Blazar."""

from __future__ import annotations

import datetime
import re
import typing
from collections.abc import Mapping
from typing import Any

from fpgapool.vocabulary import reservation

RESOURCE_TYPE = "fpga:slot"

#: Members of a reservation in a lease, and their names in the pool. Blazar's
#: client parses ``amount``.
_MEMBERS: typing.Final[Mapping[str, str]] = {
    "accelerator": "accelerator",
    "amount": "slots",
    "device_id": "device_id",
    "grace_s": "grace_s",
    "host_uuids": "host_uuids",
}
_REQUIRED = ("accelerator", "amount")
#: What Blazar itself adds.
_OF_BLAZAR = frozenset(
    {"end_date", "id", "lease_id", "resource_type", "start_date"}
)
_NUMBER = re.compile("[0-9]{1,9}")

_NAME = re.compile("blazar-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")

#: States of the pool in which slots that were promised do not work.
_LACKING = frozenset({reservation.AT_RISK, reservation.FAILED})
#: Blazar's states of a reservation that is over.
_DELETED = "deleted"


class UnknownMemberError(ValueError):
    """Raised if the pool knows nothing of that name; it is the text."""


class MissingMemberError(ValueError):
    """Raised if a member is required; its name is the text."""


def name_of(reservation_id: str) -> str:
    """Return the name in the pool of one of Blazar's reservations."""
    return f"blazar-{reservation_id}"


def reservation_named(name: str | None) -> str | None:
    """Return which of Blazar's reservations has this name; None: none has."""
    found = _NAME.fullmatch(name or "")
    return found[1] if found else None


def check(values: Mapping[str, Any]) -> None:
    """Check what a new lease asks for, as far as Blazar can.

    :raises ValueError: see :class:`UnknownMemberError` and
        :class:`MissingMemberError`.
    """
    given = _wanted(values)
    for name in _REQUIRED:
        if given.get(_MEMBERS[name]) is None:
            raise MissingMemberError(name)


def new(
    reservation_id: str, values: Mapping[str, Any], now: datetime.datetime
) -> dict[str, Any]:
    """Return the request for a new reservation of the pool.

    :param values: as Blazar has them; its times are in UTC, without a zone.
    :raises ValueError: as :func:`check` does.
    """
    check(values)
    return {
        **_wanted(values),
        "name": name_of(reservation_id),
        "start_at": _start(values, now),
        "end_at": _utc(values["end_date"]).isoformat(),
    }


def changes(
    values: Mapping[str, Any],
    present: Mapping[str, Any],
    lease_start: datetime.datetime,
    now: datetime.datetime,
) -> dict[str, Any]:
    """Return what must change in the pool, so that it is as a lease wants it.

    It is empty if the pool has it already, after an attempt whose end nobody
    has noticed.

    :param values: as Blazar wants them.
    :param present: the reservation in the pool.
    :param lease_start: when the lease began until now; the pool's reservation
        began later if the lease did in the minute in which it was made.
    :raises UnknownMemberError: as :func:`check` does.
    """
    found = {
        name: value
        for name, value in _wanted(values).items()
        if present[name] != value
    }
    start, end = _utc(values["start_date"]), _utc(values["end_date"])
    present_start = datetime.datetime.fromisoformat(present["start_at"])
    begun = present_start <= now
    if start != (_utc(lease_start) if begun else present_start):
        found["start_at"] = _start(values, now)
    if end != datetime.datetime.fromisoformat(present["end_at"]):
        found["end_at"] = end.isoformat()
    return found


def is_left_over(
    present: Mapping[str, Any],
    known: Mapping[str, Any] | None,
    is_made: bool,
    now: datetime.datetime,
    unfinished_s: float,
) -> bool:
    """Tell whether no lease needs a reservation of the pool any more.

    :param known: what Blazar knows by its name; None: nothing.
    :param is_made: whether Blazar has finished the lease.
    :param unfinished_s: Blazar finishes a lease within this time, or was
        stopped and never will.
    """
    if present["state"] in reservation.OVER:
        return False
    if known is None:
        return True
    if known["resource_id"] not in (None, present["id"]):
        # Somebody has given the name to another one.
        return False
    if known["resource_id"] is not None:
        if known["status"] == _DELETED:
            return True
        if is_made:
            return False
    made = datetime.datetime.fromisoformat(present["created_at"])
    return (now - made).total_seconds() > unfinished_s


def is_lacking(present: Mapping[str, Any] | None) -> bool:
    """Tell whether a lease has fewer slots than were promised.

    :param present: the reservation in the pool; None: it is gone.
    """
    return present is None or present["state"] in _LACKING


def _wanted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given members, with the pool's names.

    :raises UnknownMemberError: if the pool does not know one.
    """
    found = {}
    for name, value in values.items():
        if name in _OF_BLAZAR:
            continue
        if name not in _MEMBERS:
            raise UnknownMemberError(name)
        # Command lines send text.
        if isinstance(value, str) and _is_number(name, value):
            value = int(value)
        found[_MEMBERS[name]] = value
    return found


def _is_number(name: str, value: str) -> bool:
    return name in ("amount", "grace_s") and bool(_NUMBER.fullmatch(value))


def _start(values: Mapping[str, Any], now: datetime.datetime) -> str:
    # "Now" is the beginning of the minute, which may be too long ago.
    return max(_utc(values["start_date"]), now).isoformat()


def _utc(value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=datetime.UTC)
