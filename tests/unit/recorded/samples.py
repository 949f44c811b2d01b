# SPDX-License-Identifier: Apache-2.0

"""Values for every member, argument and column: no two names have the same."""

import collections.abc
import types
import typing
import uuid
import zlib
from typing import Any

import sqlalchemy as sa

from fpgapool.db import models
from fpgapool.objects import base

LEADER_EPOCH = 7
HOST_UUID = str(uuid.UUID(int=7))

#: Where not any value will do; for one method or table only, or for all.
_FIXED: dict[str, Any] = {
    # A member's holder is its group.
    "AssignRequest.session_id": str(uuid.UUID(int=9)),
    "Finding.kind": "session_differs",
    "SessionResult.state": "CLOSED",
    "SlotReport.state": "active",
    "administer.state": "draining",
    "assignments.holder_kind": "session",
    "assignments.phase": "ACTIVE",
    "bitstreams.projects": ["project"],
    "bitstreams.shapes": ["shape"],
    "bitstreams.state": "approved",
    "compute_state": "known",
    "admin_state": "draining",
    "code": "OK",
    "faults.level": "slot",
    "group_id": str(uuid.UUID(int=9)),
    "groups.projects": ["project"],
    "generation": (LEADER_EPOCH << 32) + 5,
    "host_uuid": HOST_UUID,
    "instance_id": str(uuid.UUID(int=8)),
    "leader_epoch": LEADER_EPOCH,
    "reason": "CANCELLED_BY_CLIENT",
    "reservations.instances": {str(uuid.UUID(int=8)): 1},
    "note_service.binary": "fpgapool-api",
    "resource": "sessions",
    "secret_sha256": "ef" * 32,
    "sessions.state": "ACTIVE",
    "set_budget.budget": {"slot_s": 5, "period": "week"},
    "set_quota.limits": {"sessions": 5},
    "set_reservation.reservation_id": str(uuid.UUID(int=6)),
    "set_reservation.wanted": {"accelerator": "aes", "slots": 4},
    "token_hash": "ab" * 32,
    "token_nonce": "cd" * 16,
    "usage.day": "2024-10-04",
}
UNIONS = (types.UnionType, typing.Union)
_MAPPINGS = (dict, collections.abc.Mapping)


def fixed(owner: str, name: str) -> Any:
    """Return the value that a name must have, None if any will do."""
    return _FIXED.get(f"{owner}.{name}", _FIXED.get(name))


def value(owner: str, name: str, type_: Any) -> Any:
    """Return a value of a type.

    :param owner: whose member or argument it is.
    """
    found = fixed(owner, name)
    if found is not None:
        return found
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in UNIONS:
        return value(owner, name, arguments[0])
    if origin in _MAPPINGS:
        return {f"{name}-key": value(owner, name, arguments[1])}
    if origin is not None:
        items = [value(owner, name, arguments[0])]
        return tuple(items) if origin is tuple else items
    if isinstance(type_, type) and issubclass(type_, base.Payload):
        return payload(type_)
    if type_ is bool:
        return True
    number = zlib.crc32(f"{owner}.{name}".encode()) % 10**6 + 2
    plain = {int: number, float: number + 0.5, Any: number}
    return plain.get(type_, f"{owner}.{name}")


def payload(cls: type[base.Payload]) -> base.Payload:
    """Return a payload without a member that has its default."""
    return cls(
        **{
            name: value(cls.__name__, name, type_)
            for name, type_ in base.members(cls).items()
        }
    )


def row(table: sa.Table) -> dict[str, Any]:
    """Return a row; all rows refer to each other."""
    return {column.name: _cell(column) for column in table.columns}


def rows() -> dict[str, dict[str, Any]]:
    """Return a row of each table, in an order in which they can be made."""
    return {table.name: row(table) for table in models.metadata.sorted_tables}


def _cell(column: sa.Column[Any]) -> Any:
    name = column.name
    type_ = column.type.python_type
    if type_ is int and (column.primary_key or name.endswith("_id")):
        return 1
    if isinstance(column.type, sa.JSON):
        type_ = dict[str, Any]
    found = value(column.table.name, name, type_)
    length = getattr(column.type, "length", None)
    return found[:length] if isinstance(found, str) else found
