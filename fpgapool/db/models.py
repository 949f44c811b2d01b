# SPDX-License-Identifier: Apache-2.0

"""The tables, as the newest migration leaves them.

Ids are allotted by the conductor, never by the database. Times are seconds
of the wall clock.
"""

from typing import Any

import sqlalchemy as sa

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

# Columns hold identifiers that differ by case, which the collations that
# MariaDB and MySQL choose by default would take for equal.
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}

# An identifier: 255 characters of up to 4 bytes fit an index of InnoDB.
NAME_LENGTH = 255

metadata = sa.MetaData()


def _id(name: str = "id") -> sa.Column[int]:
    return sa.Column(
        name, sa.BigInteger, primary_key=True, autoincrement=False
    )


def _required(name: str, type_: Any, *args: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, *args, nullable=False)


def _optional(name: str, type_: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=True)


def _described(field: fields.Field) -> sa.Column[Any]:
    types = {
        int: sa.Integer if field.length else sa.BigInteger,
        float: sa.Double,
        bool: sa.Boolean,
        str: sa.String(field.length) if field.length else sa.Text,
        tuple[str, ...]: sa.JSON,
    }
    type_ = types[field.kind.type]
    return sa.Column(field.name, type_, nullable=field.default is None)


def _administration() -> tuple[sa.Column[Any], ...]:
    """An operator's settings of hardware."""
    return (
        sa.Column(
            "admin_state",
            sa.String(16),
            nullable=False,
            server_default="enabled",
        ),
        sa.Column(
            "admin_reason",
            sa.String(NAME_LENGTH),
            nullable=False,
            server_default="",
        ),
        _optional("drain_deadline_at", sa.Double),
    )


hosts = sa.Table(
    "hosts",
    metadata,
    _id(),
    _required("uuid", sa.String(36)),
    _required("name", sa.String(NAME_LENGTH)),
    _required("nic_bytes_per_s", sa.Double),
    _required("up", sa.Boolean),
    _optional("last_report_at", sa.Double),
    *_administration(),
    sa.Column(
        "compute_state",
        sa.String(16),
        nullable=False,
        server_default="none",
    ),
    sa.UniqueConstraint("uuid", name="uniq_hosts0uuid"),
    **_OPTIONS,
)

devices = sa.Table(
    "devices",
    metadata,
    _id(),
    _required(
        "host_id",
        sa.BigInteger,
        sa.ForeignKey("hosts.id", name="fk_devices_host_id"),
    ),
    _required("name", sa.String(NAME_LENGTH)),
    _required("model", sa.String(NAME_LENGTH)),
    _required("dma_bytes_per_s", sa.Double),
    _required("healthy", sa.Boolean),
    _required("fault_reason", sa.Text),
    *_administration(),
    sa.Column(
        "reservable_slots", sa.Integer, nullable=False, server_default="0"
    ),
    sa.UniqueConstraint("host_id", "name", name="uniq_devices0host_id0name"),
    **_OPTIONS,
)

slots = sa.Table(
    "slots",
    metadata,
    _id(),
    _required(
        "device_id",
        sa.BigInteger,
        sa.ForeignKey("devices.id", name="fk_slots_device_id"),
    ),
    _required("number", sa.Integer),
    _required("shape", sa.String(NAME_LENGTH)),
    _optional("programmed", sa.String(NAME_LENGTH)),
    _required("programming_time_s", sa.Double),
    _required("faulty", sa.Boolean),
    _required("fault_reason", sa.Text),
    _optional("reserved_for", sa.String(36)),
    sa.UniqueConstraint(
        "device_id", "number", name="uniq_slots0device_id0number"
    ),
    **_OPTIONS,
)

# A row for each device that ever had any: no row is deleted, so that every
# change is a row to write. No foreign key: the reader knows the devices.
reservations = sa.Table(
    "reservations",
    metadata,
    _id("device_id"),
    _required("instances", sa.JSON),
    **_OPTIONS,
)

# No row is deleted, so that every change is a row to write: hardware that is
# in use again is not active. No foreign keys: the level tells the target.
faults = sa.Table(
    "faults",
    metadata,
    _id(),
    _required("level", sa.String(16)),
    _required("target_id", sa.BigInteger),
    _required("accelerator", sa.String(NAME_LENGTH)),
    _required("shape", sa.String(NAME_LENGTH)),
    _required("active", sa.Boolean),
    _required("reason", sa.String(64)),
    _required("failures", sa.Integer),
    _required("since", sa.Double),
    _required("tests", sa.Integer),
    _required("tries", sa.Integer),
    _required("last_test", sa.Text),
    _optional("last_test_at", sa.Double),
    _required("next_test_at", sa.Double),
    sa.UniqueConstraint(
        "level",
        "target_id",
        "accelerator",
        "shape",
        name="uniq_faults0level0target_id0accelerator0shape",
    ),
    **_OPTIONS,
)

accelerators = sa.Table(
    "accelerators",
    metadata,
    sa.Column("name", sa.String(NAME_LENGTH), primary_key=True),
    _required("profile", sa.JSON),
    **_OPTIONS,
)

bitstreams = sa.Table(
    "bitstreams",
    metadata,
    _id(),
    _required("bitstream_id", sa.String(36)),
    _required("project_id", sa.String(NAME_LENGTH)),
    _required("user_id", sa.String(NAME_LENGTH)),
    _required("name", sa.String(NAME_LENGTH)),
    _required("description", sa.Text),
    _required("accelerator", sa.String(NAME_LENGTH)),
    _required("version", sa.String(64)),
    _required("format", sa.String(16)),
    _required("state", sa.String(16)),
    _required("public", sa.Boolean),
    _required("projects", sa.JSON),
    _required("shapes", sa.JSON),
    _required("profile", sa.JSON),
    _required("properties", sa.JSON),
    _required("checksum_sha256", sa.String(64)),
    _required("size_bytes", sa.BigInteger),
    _required("signature", sa.Text),
    _required("signed_by", sa.String(NAME_LENGTH)),
    _required("location", sa.String(NAME_LENGTH)),
    _required("reason", sa.Text),
    _required("decided_by", sa.String(NAME_LENGTH)),
    _required("created_at", sa.Double),
    _required("updated_at", sa.Double),
    _optional("uploaded_at", sa.Double),
    _optional("decided_at", sa.Double),
    sa.UniqueConstraint("bitstream_id", name="uniq_bitstreams0bitstream_id"),
    sa.Index("ix_bitstreams_project_id", "project_id"),
    **_OPTIONS,
)

# No foreign keys: the history of a session outlives the hardware it ran on.
sessions = sa.Table(
    "sessions",
    metadata,
    _id(),
    *map(_described, description.FIELDS.kept),
    sa.UniqueConstraint("session_id", name="uniq_sessions0session_id"),
    sa.UniqueConstraint(
        "project_id", "request_id", name="uniq_sessions0project_id0request_id"
    ),
    sa.Index("ix_sessions_state", "state"),
    sa.Index("ix_sessions_finished_at", "finished_at"),
    sa.Index("ix_sessions_updated_at", "updated_at"),
    **_OPTIONS,
)

# The leader keeps names unique in their projects. A constraint would refuse
# rows that exchange their names in one commit.
groups = sa.Table(
    "groups",
    metadata,
    _id(),
    *map(_described, group.GROUP.kept),
    sa.UniqueConstraint("group_id", name="uniq_groups0group_id"),
    sa.Index("ix_groups_project_id", "project_id"),
    **_OPTIONS,
)

# No foreign key: rows go together with those of their groups.
group_clients = sa.Table(
    "group_clients",
    metadata,
    _id(),
    *map(_described, group.CLIENT.kept),
    sa.UniqueConstraint("client_id", name="uniq_group_clients0client_id"),
    sa.Index("ix_group_clients_group_id", "group_id"),
    sa.Index("ix_group_clients_project_id", "project_id"),
    **_OPTIONS,
)

# What each desk had counted when its counts were last charged. No foreign
# keys: rows go when the desk or its group has been gone for a while.
group_desks = sa.Table(
    "group_desks",
    metadata,
    _id(),
    _required("group_id", sa.String(36)),
    _required("host_id", sa.BigInteger),
    _required("boot_id", sa.String(NAME_LENGTH)),
    _required("counts", sa.JSON),
    _required("charged_at", sa.Double),
    _required("unpaid_s", sa.Double),
    **_OPTIONS,
)

assignments = sa.Table(
    "assignments",
    metadata,
    sa.Column(
        "slot_id",
        sa.BigInteger,
        sa.ForeignKey("slots.id", name="fk_assignments_slot_id"),
        primary_key=True,
        autoincrement=False,
    ),
    # The id is of a row of the table of this kind.
    _required("holder_kind", sa.String(16)),
    _required("holder_id", sa.BigInteger),
    _required("accelerator", sa.String(NAME_LENGTH)),
    _required("generation", sa.BigInteger),
    _required("phase", sa.String(16)),
    _required("local", sa.Boolean),
    _required("assigned_at", sa.Double),
    _optional("bitstream_id", sa.String(36)),
    sa.Index("ix_assignments_holder", "holder_kind", "holder_id"),
    **_OPTIONS,
)

#: The assignments of sessions.
OF_SESSIONS = assignments.c.holder_kind == states.HELD_BY_SESSION

# No foreign keys: it outlives the sessions that it sums up.
usage = sa.Table(
    "usage",
    metadata,
    _id(),
    _required("project_id", sa.String(NAME_LENGTH)),
    _required("accelerator", sa.String(NAME_LENGTH)),
    _required("day", sa.Date),
    _required("sessions", sa.BigInteger),
    _required("sessions_met", sa.BigInteger),
    _required("sessions_missed", sa.BigInteger),
    _required("slot_s", sa.Double),
    _required("group_busy_s", sa.Double),
    _required("group_idle_s", sa.Double),
    _required("input_bytes", sa.BigInteger),
    _required("output_bytes", sa.BigInteger),
    _optional("energy_j", sa.Double),
    sa.UniqueConstraint(
        "day",
        "project_id",
        "accelerator",
        name="uniq_usage0day0project_id0accelerator",
    ),
    sa.Index("ix_usage_project_id_day", "project_id", "day"),
    **_OPTIONS,
)

# A row without limits means that the default applies: rows are never deleted,
# so that every change is a row to write.
quotas = sa.Table(
    "quotas",
    metadata,
    _id(),
    _required("project_id", sa.String(NAME_LENGTH)),
    _required("resource", sa.String(64)),
    _optional("hard_limit", sa.BigInteger),
    sa.UniqueConstraint(
        "project_id", "resource", name="uniq_quotas0project_id0resource"
    ),
    **_OPTIONS,
)

# No foreign keys: the ids are Nova's.
instances = sa.Table(
    "instances",
    metadata,
    _id(),
    _required("instance_id", sa.String(36)),
    _required("project_id", sa.String(NAME_LENGTH)),
    _required("name", sa.String(NAME_LENGTH)),
    _optional("host_uuid", sa.String(36)),
    _optional("max_sessions", sa.Integer),
    _required("token_nonce", sa.String(64)),
    _required("token_hash", sa.String(64)),
    _required("token_revoked", sa.Boolean),
    _required("created_at", sa.Double),
    _optional("deleted_at", sa.Double),
    sa.UniqueConstraint("instance_id", name="uniq_instances0instance_id"),
    sa.Index("ix_instances_project_id", "project_id"),
    sa.Index("ix_instances_deleted_at", "deleted_at"),
    **_OPTIONS,
)

# One row, with the id 1, from the first election on.
leader_lease = sa.Table(
    "leader_lease",
    metadata,
    _id(),
    _required("holder", sa.String(NAME_LENGTH)),
    _required("epoch", sa.BigInteger),
    _required("renewals", sa.BigInteger),
    _optional("pool_time_s", sa.Double),
    _optional("ahead_s", sa.Double),
    **_OPTIONS,
)
