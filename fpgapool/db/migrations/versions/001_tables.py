# SPDX-License-Identifier: Apache-2.0

"""The tables of release 1.0.0.

Revision ID: 001
Revises:
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "001"
down_revision = None

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}

_UUID = sa.String(36)
_WORD = sa.String(16)
_CODE = sa.String(64)
_NAME = sa.String(255)

_METADATA = sa.MetaData()


def _table(name: str, *parts: Any) -> None:
    items: list[Any] = []
    for part in parts:
        items += part if isinstance(part, Iterator) else [part]
    sa.Table(name, _METADATA, *items, **_OPTIONS)


def _key(name: str = "id", *args: Any) -> sa.Column[int]:
    return sa.Column(
        name, sa.BigInteger, *args, primary_key=True, autoincrement=False
    )


def _required(type_: Any, *names: str) -> Iterator[sa.Column[Any]]:
    return (sa.Column(name, type_, nullable=False) for name in names)


def _optional(type_: Any, *names: str) -> Iterator[sa.Column[Any]]:
    return (sa.Column(name, type_) for name in names)


def _default(type_: Any, value: str, *names: str) -> Iterator[sa.Column[Any]]:
    return (
        sa.Column(name, type_, nullable=False, server_default=value)
        for name in names
    )


def _unique(table: str, *names: str) -> sa.UniqueConstraint:
    name = "0".join((f"uniq_{table}", *names))
    return sa.UniqueConstraint(*names, name=name)


def _parent(name: str, table: str, parent: str) -> sa.ForeignKey:
    return sa.ForeignKey(f"{parent}.id", name=f"fk_{table}_{name}")


_table(
    "hosts",
    _key(),
    _required(_UUID, "uuid"),
    _required(_NAME, "name"),
    _required(sa.Double, "nic_bytes_per_s"),
    _required(sa.Boolean, "up"),
    _optional(sa.Double, "last_report_at"),
    _default(_WORD, "enabled", "admin_state"),
    _default(_NAME, "", "admin_reason"),
    _optional(sa.Double, "drain_deadline_at"),
    _default(_WORD, "none", "compute_state"),
    _unique("hosts", "uuid"),
)

_table(
    "devices",
    _key(),
    sa.Column(
        "host_id",
        sa.BigInteger,
        _parent("host_id", "devices", "hosts"),
        nullable=False,
    ),
    _required(_NAME, "name", "model"),
    _required(sa.Double, "dma_bytes_per_s"),
    _required(sa.Boolean, "healthy"),
    _required(sa.Text, "fault_reason"),
    _default(_WORD, "enabled", "admin_state"),
    _default(_NAME, "", "admin_reason"),
    _optional(sa.Double, "drain_deadline_at"),
    _default(sa.Integer, "0", "reservable_slots"),
    _unique("devices", "host_id", "name"),
)

_table(
    "slots",
    _key(),
    sa.Column(
        "device_id",
        sa.BigInteger,
        _parent("device_id", "slots", "devices"),
        nullable=False,
    ),
    _required(sa.Integer, "number"),
    _required(_NAME, "shape"),
    _optional(_NAME, "programmed"),
    _required(sa.Double, "programming_time_s"),
    _required(sa.Boolean, "faulty"),
    _required(sa.Text, "fault_reason"),
    _optional(_UUID, "reserved_for"),
    _unique("slots", "device_id", "number"),
)

_table("reservations", _key("device_id"), _required(sa.JSON, "instances"))

_table(
    "faults",
    _key(),
    _required(_WORD, "level"),
    _required(sa.BigInteger, "target_id"),
    _required(_NAME, "accelerator"),
    _default(_NAME, "", "shape"),
    _required(sa.Boolean, "active"),
    _required(_CODE, "reason"),
    _required(sa.Integer, "failures"),
    _required(sa.Double, "since"),
    _required(sa.Integer, "tests", "tries"),
    _required(sa.Text, "last_test"),
    _optional(sa.Double, "last_test_at"),
    _required(sa.Double, "next_test_at"),
    _unique("faults", "level", "target_id", "accelerator", "shape"),
)

_table(
    "accelerators",
    sa.Column("name", _NAME, primary_key=True),
    _required(sa.JSON, "profile"),
)

_table(
    "bitstreams",
    _key(),
    _required(_UUID, "bitstream_id"),
    _required(_NAME, "project_id", "user_id", "name"),
    _required(sa.Text, "description"),
    _required(_NAME, "accelerator"),
    _required(_CODE, "version"),
    _required(_WORD, "format", "state"),
    _required(sa.Boolean, "public"),
    _required(sa.JSON, "projects", "shapes", "profile", "properties"),
    _required(_CODE, "checksum_sha256"),
    _required(sa.BigInteger, "size_bytes"),
    _required(sa.Text, "signature"),
    _required(_NAME, "signed_by", "location"),
    _required(sa.Text, "reason"),
    _required(_NAME, "decided_by"),
    _required(sa.Double, "created_at", "updated_at"),
    _optional(sa.Double, "uploaded_at", "decided_at"),
    _unique("bitstreams", "bitstream_id"),
    sa.Index("ix_bitstreams_project_id", "project_id"),
)

_table(
    "sessions",
    _key(),
    _required(_UUID, "session_id"),
    _required(_CODE, "request_id"),
    _required(_NAME, "project_id", "user_id"),
    _optional(sa.BigInteger, "host_id"),
    _required(_NAME, "accelerator"),
    _required(sa.BigInteger, "claimed_bytes"),
    _required(sa.Integer, "priority"),
    _required(sa.BigInteger, "skips"),
    _required(_WORD, "state"),
    _required(_CODE, "reason"),
    _required(sa.Text, "message"),
    _required(sa.BigInteger, "generation", "revision"),
    _optional(sa.BigInteger, "slot_id"),
    _optional(sa.Boolean, "local"),
    _optional(_CODE, "application"),
    _optional(sa.Double, "wait_timeout_s"),
    _required(sa.Double, "connect_timeout_s", "resume_grace_s"),
    _optional(sa.Double, "deadline_s"),
    _optional(_WORD, "deadline_action"),
    _optional(sa.Double, "deadline_at"),
    _optional(sa.Boolean, "deadline_met"),
    _required(sa.Double, "queued_at"),
    _optional(sa.Double, "arrival_s", "ready_at", "started_at"),
    _optional(sa.Double, "finished_at", "updated_at"),
    _required(sa.BigInteger, "input_bytes", "output_bytes"),
    _default(sa.BigInteger, "0", "former_input_bytes"),
    _default(sa.BigInteger, "0", "former_output_bytes"),
    _optional(sa.Double, "energy_j"),
    _unique("sessions", "session_id"),
    _unique("sessions", "project_id", "request_id"),
    sa.Index("ix_sessions_state", "state"),
    sa.Index("ix_sessions_finished_at", "finished_at"),
    sa.Index("ix_sessions_updated_at", "updated_at"),
)

_table(
    "groups",
    _key(),
    _required(_UUID, "group_id"),
    _required(_CODE, "name"),
    _required(_NAME, "project_id", "accelerator"),
    _required(_WORD, "state"),
    _required(sa.Integer, "size", "min_size", "max_size"),
    _required(sa.Boolean, "elastic", "shared"),
    _required(sa.JSON, "projects"),
    _required(sa.Double, "created_at"),
    _optional(sa.Double, "updated_at"),
    _required(_WORD, "goal_kind"),
    _optional(sa.Double, "deadline_at", "rate_per_s"),
    _optional(sa.BigInteger, "actions"),
    _required(sa.BigInteger, "actions_done"),
    _unique("groups", "group_id"),
    sa.Index("ix_groups_project_id", "project_id"),
)

_table(
    "group_clients",
    _key(),
    _required(_UUID, "client_id", "group_id"),
    _required(_NAME, "project_id", "user_id"),
    _required(_WORD, "state"),
    _required(_CODE, "secret_hash"),
    _required(sa.Double, "created_at"),
    _required(sa.BigInteger, "tasks"),
    _required(sa.Double, "slot_s"),
    _unique("group_clients", "client_id"),
    sa.Index("ix_group_clients_group_id", "group_id"),
    sa.Index("ix_group_clients_project_id", "project_id"),
)

_table(
    "group_desks",
    _key(),
    _required(_UUID, "group_id"),
    _required(sa.BigInteger, "host_id"),
    _required(_NAME, "boot_id"),
    _required(sa.JSON, "counts"),
    _required(sa.Double, "charged_at", "unpaid_s"),
)

_table(
    "assignments",
    _key("slot_id", _parent("slot_id", "assignments", "slots")),
    _required(_WORD, "holder_kind"),
    _required(sa.BigInteger, "holder_id"),
    _required(_NAME, "accelerator"),
    _required(sa.BigInteger, "generation"),
    _required(_WORD, "phase"),
    _required(sa.Boolean, "local"),
    _required(sa.Double, "assigned_at"),
    _optional(_UUID, "bitstream_id"),
    sa.Index("ix_assignments_holder", "holder_kind", "holder_id"),
)

_table(
    "usage",
    _key(),
    _required(_NAME, "project_id", "accelerator"),
    _required(sa.Date, "day"),
    _required(sa.BigInteger, "sessions"),
    _default(sa.BigInteger, "0", "sessions_met", "sessions_missed"),
    _required(sa.Double, "slot_s", "group_busy_s", "group_idle_s"),
    _required(sa.BigInteger, "input_bytes", "output_bytes"),
    _optional(sa.Double, "energy_j"),
    _unique("usage", "day", "project_id", "accelerator"),
    sa.Index("ix_usage_project_id_day", "project_id", "day"),
)

_table(
    "quotas",
    _key(),
    _required(_NAME, "project_id"),
    _required(_CODE, "resource"),
    _optional(sa.BigInteger, "hard_limit"),
    _unique("quotas", "project_id", "resource"),
)

_table(
    "instances",
    _key(),
    _required(_UUID, "instance_id"),
    _required(_NAME, "project_id", "name"),
    _optional(_UUID, "host_uuid"),
    _optional(sa.Integer, "max_sessions"),
    _required(_CODE, "token_nonce", "token_hash"),
    _required(sa.Boolean, "token_revoked"),
    _required(sa.Double, "created_at"),
    _optional(sa.Double, "deleted_at"),
    _unique("instances", "instance_id"),
    sa.Index("ix_instances_project_id", "project_id"),
    sa.Index("ix_instances_deleted_at", "deleted_at"),
)

_table(
    "leader_lease",
    _key(),
    _required(_NAME, "holder"),
    _required(sa.BigInteger, "epoch", "renewals"),
    _optional(sa.Double, "pool_time_s", "ahead_s"),
)


def upgrade() -> None:
    """Create the tables and indexes that do not exist yet."""
    connection = op.get_bind()
    _METADATA.create_all(connection, checkfirst=True)
    # An interrupted run may have created a table without its indexes.
    for table in _METADATA.sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)
