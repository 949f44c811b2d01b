# SPDX-License-Identifier: Apache-2.0

"""The tables, as the newest migration leaves them.

Their columns are the members of :mod:`.records`. The conductor assigns ids,
never the database. Times are wall-clock times in seconds.
"""

import collections.abc
import dataclasses
import datetime
import types
import typing
from typing import Any

import sqlalchemy as sa

from fpgapool.db import records
from fpgapool.vocabulary import states

# Columns hold identifiers that differ by case, which the default collations of
# MariaDB and MySQL would treat as equal.
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}

_TYPES: dict[Any, Any] = {
    bool: sa.Boolean,
    datetime.date: sa.Date,
    dict: sa.JSON,
    float: sa.Double,
    int: sa.BigInteger,
    str: sa.Text,
    collections.abc.Mapping: sa.JSON,
    collections.abc.Sequence: sa.JSON,
    tuple: sa.JSON,
}

metadata = sa.MetaData()


def _column(field: Any) -> sa.Column[Any]:
    hint, length = field.type, 0
    nullable = typing.get_origin(hint) in (types.UnionType, typing.Union)
    if nullable:
        (hint,) = (
            one for one in typing.get_args(hint) if one is not types.NoneType
        )
    if typing.get_origin(hint) is typing.Annotated:
        hint, length = typing.get_args(hint)
    kind = typing.get_origin(hint) or hint
    type_ = _TYPES[kind]
    if length:
        # The length is in characters for a text, and in bits for a number.
        type_ = sa.String(length) if kind is str else sa.Integer
    return sa.Column(field.name, type_, nullable=nullable, autoincrement=False)


def _table(name: str, record: type[Any], *constraints: Any) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        *map(_column, dataclasses.fields(record)),
        sa.PrimaryKeyConstraint(records.KEYS.get(record, "id")),
        *constraints,
        **_OPTIONS,
    )


def _unique(table: str, *names: str) -> sa.UniqueConstraint:
    name = "0".join((f"uniq_{table}", *names))
    return sa.UniqueConstraint(*names, name=name)


def _foreign(name: str, table: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [name], [f"{parent}.id"], name=f"fk_{table}_{name}"
    )


hosts = _table("hosts", records.HostRecord, _unique("hosts", "uuid"))

devices = _table(
    "devices",
    records.DeviceRecord,
    _foreign("host_id", "devices", "hosts"),
    _unique("devices", "host_id", "name"),
)

slots = _table(
    "slots",
    records.SlotRecord,
    _foreign("device_id", "slots", "devices"),
    _unique("slots", "device_id", "number"),
)

# There is a row for each device that ever had a reservation. Rows are never
# deleted, so every change is a row write. No foreign key, because the reader
# ignores rows of unknown devices.
reservations = _table("reservations", records.ReservationRecord)

# Rows are never deleted, so every change is a row write: when hardware is back
# in service, its fault becomes inactive. No foreign keys, because the level
# determines which table target_id refers to.
faults = _table(
    "faults",
    records.FaultRecord,
    _unique("faults", "level", "target_id", "accelerator", "shape"),
)

accelerators = _table("accelerators", records.AcceleratorRecord)

bitstreams = _table(
    "bitstreams",
    records.BitstreamRecord,
    _unique("bitstreams", "bitstream_id"),
    sa.Index("ix_bitstreams_project_id", "project_id"),
)

# No foreign keys, because the history of a session outlives the hardware that
# it ran on.
sessions = _table(
    "sessions",
    records.SessionRecord,
    _unique("sessions", "session_id"),
    _unique("sessions", "project_id", "request_id"),
    sa.Index("ix_sessions_state", "state"),
    sa.Index("ix_sessions_finished_at", "finished_at"),
    sa.Index("ix_sessions_updated_at", "updated_at"),
)

# The leader keeps names unique within a project. A constraint would refuse
# rows that exchange their names in one commit.
groups = _table(
    "groups",
    records.GroupRecord,
    _unique("groups", "group_id"),
    sa.Index("ix_groups_project_id", "project_id"),
)

# No foreign key, because rows are deleted in the same commit as their groups.
group_clients = _table(
    "group_clients",
    records.GroupClientRecord,
    _unique("group_clients", "client_id"),
    sa.Index("ix_group_clients_group_id", "group_id"),
    sa.Index("ix_group_clients_project_id", "project_id"),
)

# What each desk had counted when its counts were last charged. No foreign
# keys, because rows are deleted only some time after the desk or its group.
group_desks = _table("group_desks", records.GroupDeskRecord)

# holder_kind determines which table holder_id refers to.
assignments = _table(
    "assignments",
    records.AssignmentRecord,
    _foreign("slot_id", "assignments", "slots"),
    sa.Index("ix_assignments_holder", "holder_kind", "holder_id"),
)

#: The assignments of sessions.
OF_SESSIONS = assignments.c.holder_kind == states.HELD_BY_SESSION

# No foreign keys, because usage outlives the sessions that it sums up.
usage = _table(
    "usage",
    records.UsageRecord,
    _unique("usage", "day", "project_id", "accelerator"),
    sa.Index("ix_usage_project_id_day", "project_id", "day"),
)

# A row without a limit means that the default applies. Rows are never deleted,
# so every change is a row write.
quotas = _table(
    "quotas", records.QuotaRecord, _unique("quotas", "project_id", "resource")
)

# No foreign keys, because the ids are Nova's.
instances = _table(
    "instances",
    records.InstanceRecord,
    _unique("instances", "instance_id"),
    sa.Index("ix_instances_project_id", "project_id"),
    sa.Index("ix_instances_deleted_at", "deleted_at"),
)

# After the first election, the table has one row, with id 1.
leader_lease = sa.Table(
    "leader_lease",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    *map(_column, dataclasses.fields(records.Lease)),
    sa.Column("ahead_s", sa.Double),
    **_OPTIONS,
)
