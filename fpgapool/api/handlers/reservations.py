# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar: create, show, change, delete."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.api.http import rights
from fpgapool.api.http import times
from fpgapool.db import calendar
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import rules

_TIMES = reservation.API_TIMES


def index(call: calls.Call) -> calls.Answer:
    """List the reservations of your project."""
    project_id = paging.project_id(call, rights.RESERVATIONS_LIST_ALL)
    found = call.backends.database.calendar(project_id)
    page = paging.chosen(
        call,
        reservation.FIELDS,
        found,
        lambda member: operator.attrgetter(_TIMES.get(member, member)),
    )
    return calls.Answer(
        document=paging.document(
            call, "reservations", [_document(call, one) for one in page]
        )
    )


def show(call: calls.Call) -> calls.Answer:
    """Show a reservation."""
    return _answer(call, _find(call))


def create(call: calls.Call) -> calls.Answer:
    """Reserve slots; refused unless all earlier promises can be kept."""
    wanted = _wanted(call)
    project_id = wanted.pop("project_id", None) or call.project_id
    if not rules.PROJECT_ID.fullmatch(project_id):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"reservation.project_id must be {rules.PROJECT_ID_WORDS}",
        )
    call.require(call.policy, project_id)
    reservation_id = str(uuid.uuid4())
    _set(call, reservation_id, wanted, project_id)
    return _answer(
        call,
        _reread(call, reservation_id),
        status=201,
        headers={"Location": call.url("reservations", reservation_id)},
    )


def update(call: calls.Call) -> calls.Answer:
    """Move, extend or cut short a reservation, or change its slots."""
    found = _find(call)
    call.require(call.policy, found.project_id)
    wanted = _wanted(call)
    call.audit.before = {name: found.wanted[name] for name in wanted}
    _set(call, found.id, wanted)
    return _answer(call, _reread(call, found.id))


def delete(call: calls.Call) -> calls.Answer:
    """Delete a reservation; its slots are free for all."""
    found = _find(call)
    call.require(call.policy, found.project_id)
    call.audit.before = {"state": found.state, **found.wanted}
    _set(call, found.id, None)
    return calls.NO_CONTENT


def _set(
    call: calls.Call,
    reservation_id: str,
    wanted: Mapping[str, Any] | None,
    project_id: str = "",
) -> None:
    call.backends.conductor.set_reservation(
        reservation_id,
        wanted,
        project_id=project_id,
        user_id=call.caller.user_id or "",
        exempt=call.allows(rights.RESERVATIONS_ALL_PROJECTS),
    )


def _find(call: calls.Call) -> calendar.Reservation:
    """Return the reservation that the path identifies.

    :raises ApiError: if it does not exist or the caller may not see it.
    """
    wanted = call.path["reservation_id"].lower()
    for found in call.backends.database.calendar():
        if found.id == wanted and (
            found.project_id == call.caller.project_id
            or call.may(rights.RESERVATIONS_ALL_PROJECTS)
        ):
            return found
    raise errors.missing(codes.RESERVATION_NOT_FOUND, "reservation", wanted)


def _reread(call: calls.Call, reservation_id: str) -> calendar.Reservation:
    for found in call.backends.database.calendar():
        if found.id == reservation_id:
            return found
    raise errors.ApiError(
        codes.RESERVATION_NOT_FOUND, "the reservation has just been deleted"
    )


# Forms.


def _wanted(call: calls.Call) -> dict[str, Any]:
    """Return the request in the conductor's form."""
    wanted = dict(call.body["reservation"])
    for name, seconds in _TIMES.items():
        if name in wanted:
            try:
                wanted[seconds] = times.seconds(wanted.pop(name))
            except (ValueError, OverflowError) as error:
                raise errors.ApiError(
                    codes.INVALID_RESERVATION,
                    f"reservation.{name} must be an ISO 8601 time",
                ) from error
    if wanted.get("host_uuids"):
        wanted["host_uuids"] = _real(
            wanted["host_uuids"],
            {seen: real for real, seen in _hosts(call).items()},
            codes.HOST_NOT_FOUND,
            "host",
        )
    if wanted.get("device_id"):
        (wanted["device_id"],) = _real(
            [wanted["device_id"]],
            {seen: real for real, seen in _devices(call).items()},
            codes.DEVICE_NOT_FOUND,
            "device",
        )
    return wanted


def _real(
    wanted: Iterable[str], known: Mapping[str, str], code: str, kind: str
) -> list[str]:
    """Return the real identifiers of what the caller sees."""
    found = []
    for one in wanted:
        if one not in known:
            raise errors.missing(code, kind, one)
        found.append(known[one])
    return found


def _hosts(call: calls.Call) -> dict[str, str]:
    """Return the UUIDs of hosts, and how the caller sees them."""
    pool = call.backends.inventory.get()
    seen = call.places.inventory(pool).hosts
    pairs = zip(pool.hosts, seen, strict=True)
    return {real.uuid: shown.uuid for real, shown in pairs}


def _devices(call: calls.Call) -> dict[str, str]:
    """Return the identifiers of devices, and how the caller sees them."""
    pool = call.backends.inventory.get()
    seen = call.places.inventory(pool).devices
    pairs = zip(pool.devices, seen, strict=True)
    return {real.id: shown.id for real, shown in pairs}


def _answer(
    call: calls.Call,
    found: calendar.Reservation,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> calls.Answer:
    return calls.Answer(
        document={"reservation": _document(call, found)},
        status=status,
        headers=headers or {},
    )


def _document(call: calls.Call, found: calendar.Reservation) -> dict[str, Any]:
    members = {
        "id": found.id,
        "project_id": found.project_id,
        "state": found.state,
        "working_slots": found.working,
        "used_slot_s": found.used_slot_s,
        "unused_slot_s": found.unused_slot_s,
        "created_at": times.text(found.created_at),
        **found.wanted,
    }
    for name, seconds in _TIMES.items():
        members[name] = times.text(members.pop(seconds))
    if found.host_uuids and not call.places.are_named:
        members["host_uuids"] = [
            call.places.uuid(one) for one in found.host_uuids
        ]
    if found.device_id and not call.places.are_named:
        members["device_id"] = _devices(call).get(found.device_id)
    return {
        **members,
        "links": calls.self_link(call.url("reservations", found.id)),
    }
