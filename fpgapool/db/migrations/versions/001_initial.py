# SPDX-License-Identifier: Apache-2.0

"""The tables of the first release.

Revision ID: 001
Revises:
"""

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

_NAME_LENGTH = 255

_METADATA = sa.MetaData()


def _id(name: str = "id") -> sa.Column[int]:
    return sa.Column(
        name, sa.BigInteger, primary_key=True, autoincrement=False
    )


def _required(name: str, type_: Any, *args: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, *args, nullable=False)


def _optional(name: str, type_: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=True)


def _administration() -> tuple[sa.Column[Any], ...]:
    """The administrative columns of hosts and devices."""
    return (
        sa.Column(
            "admin_state",
            sa.String(16),
            nullable=False,
            server_default="enabled",
        ),
        sa.Column(
            "admin_reason",
            sa.String(_NAME_LENGTH),
            nullable=False,
            server_default="",
        ),
        _optional("drain_deadline_at", sa.Double),
    )


sa.Table(
    "hosts",
    _METADATA,
    _id(),
    _required("uuid", sa.String(36)),
    _required("name", sa.String(_NAME_LENGTH)),
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

sa.Table(
    "devices",
    _METADATA,
    _id(),
    _required(
        "host_id",
        sa.BigInteger,
        sa.ForeignKey("hosts.id", name="fk_devices_host_id"),
    ),
    _required("name", sa.String(_NAME_LENGTH)),
    _required("model", sa.String(_NAME_LENGTH)),
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

sa.Table(
    "slots",
    _METADATA,
    _id(),
    _required(
        "device_id",
        sa.BigInteger,
        sa.ForeignKey("devices.id", name="fk_slots_device_id"),
    ),
    _required("number", sa.Integer),
    _required("shape", sa.String(_NAME_LENGTH)),
    _optional("programmed", sa.String(_NAME_LENGTH)),
    _required("programming_time_s", sa.Double),
    _required("faulty", sa.Boolean),
    _required("fault_reason", sa.Text),
    _optional("reserved_for", sa.String(36)),
    sa.UniqueConstraint(
        "device_id", "number", name="uniq_slots0device_id0number"
    ),
    **_OPTIONS,
)

sa.Table(
    "reservations",
    _METADATA,
    _id("device_id"),
    _required("instances", sa.JSON),
    **_OPTIONS,
)

sa.Table(
    "faults",
    _METADATA,
    _id(),
    _required("level", sa.String(16)),
    _required("target_id", sa.BigInteger),
    _required("accelerator", sa.String(_NAME_LENGTH)),
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
        name="uniq_faults0level0target_id0accelerator",
    ),
    **_OPTIONS,
)

sa.Table(
    "accelerators",
    _METADATA,
    sa.Column("name", sa.String(_NAME_LENGTH), primary_key=True),
    _required("profile", sa.JSON),
    **_OPTIONS,
)

sa.Table(
    "bitstreams",
    _METADATA,
    _id(),
    _required("bitstream_id", sa.String(36)),
    _required("project_id", sa.String(_NAME_LENGTH)),
    _required("user_id", sa.String(_NAME_LENGTH)),
    _required("name", sa.String(_NAME_LENGTH)),
    _required("description", sa.Text),
    _required("accelerator", sa.String(_NAME_LENGTH)),
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
    _required("signed_by", sa.String(_NAME_LENGTH)),
    _required("location", sa.String(_NAME_LENGTH)),
    _required("reason", sa.Text),
    _required("decided_by", sa.String(_NAME_LENGTH)),
    _required("created_at", sa.Double),
    _required("updated_at", sa.Double),
    _optional("uploaded_at", sa.Double),
    _optional("decided_at", sa.Double),
    sa.UniqueConstraint("bitstream_id", name="uniq_bitstreams0bitstream_id"),
    sa.Index("ix_bitstreams_project_id", "project_id"),
    **_OPTIONS,
)

sa.Table(
    "sessions",
    _METADATA,
    _id(),
    _required("session_id", sa.String(36)),
    _required("request_id", sa.String(64)),
    _required("project_id", sa.String(_NAME_LENGTH)),
    _required("user_id", sa.String(_NAME_LENGTH)),
    _optional("host_id", sa.BigInteger),
    _required("accelerator", sa.String(_NAME_LENGTH)),
    _required("claimed_bytes", sa.BigInteger),
    _required("priority", sa.Integer),
    _required("skips", sa.BigInteger),
    _required("state", sa.String(16)),
    _required("reason", sa.String(64)),
    _required("message", sa.Text),
    _required("generation", sa.BigInteger),
    _required("revision", sa.BigInteger),
    _optional("slot_id", sa.BigInteger),
    _optional("local", sa.Boolean),
    _optional("wait_timeout_s", sa.Double),
    _required("connect_timeout_s", sa.Double),
    _required("resume_grace_s", sa.Double),
    _required("queued_at", sa.Double),
    _optional("arrival_s", sa.Double),
    _optional("ready_at", sa.Double),
    _optional("started_at", sa.Double),
    _optional("finished_at", sa.Double),
    _optional("updated_at", sa.Double),
    _required("input_bytes", sa.BigInteger),
    _required("output_bytes", sa.BigInteger),
    sa.UniqueConstraint("session_id", name="uniq_sessions0session_id"),
    sa.UniqueConstraint(
        "project_id", "request_id", name="uniq_sessions0project_id0request_id"
    ),
    sa.Index("ix_sessions_state", "state"),
    sa.Index("ix_sessions_finished_at", "finished_at"),
    sa.Index("ix_sessions_updated_at", "updated_at"),
    **_OPTIONS,
)

sa.Table(
    "groups",
    _METADATA,
    _id(),
    _required("group_id", sa.String(36)),
    _required("name", sa.String(64)),
    _required("project_id", sa.String(_NAME_LENGTH)),
    _required("accelerator", sa.String(_NAME_LENGTH)),
    _required("state", sa.String(16)),
    _required("size", sa.Integer),
    _required("min_size", sa.Integer),
    _required("max_size", sa.Integer),
    _required("elastic", sa.Boolean),
    _required("shared", sa.Boolean),
    _required("projects", sa.JSON),
    _required("created_at", sa.Double),
    _optional("updated_at", sa.Double),
    _required("goal_kind", sa.String(16)),
    _optional("deadline_at", sa.Double),
    _optional("rate_per_s", sa.Double),
    _optional("actions", sa.BigInteger),
    _required("actions_done", sa.BigInteger),
    sa.UniqueConstraint("group_id", name="uniq_groups0group_id"),
    sa.Index("ix_groups_project_id", "project_id"),
    **_OPTIONS,
)

sa.Table(
    "group_clients",
    _METADATA,
    _id(),
    _required("client_id", sa.String(36)),
    _required("group_id", sa.String(36)),
    _required("project_id", sa.String(_NAME_LENGTH)),
    _required("user_id", sa.String(_NAME_LENGTH)),
    _required("state", sa.String(16)),
    _required("secret_hash", sa.String(64)),
    _required("created_at", sa.Double),
    _required("tasks", sa.BigInteger),
    _required("slot_s", sa.Double),
    sa.UniqueConstraint("client_id", name="uniq_group_clients0client_id"),
    sa.Index("ix_group_clients_group_id", "group_id"),
    sa.Index("ix_group_clients_project_id", "project_id"),
    **_OPTIONS,
)

sa.Table(
    "group_desks",
    _METADATA,
    _id(),
    _required("group_id", sa.String(36)),
    _required("host_id", sa.BigInteger),
    _required("boot_id", sa.String(_NAME_LENGTH)),
    _required("counts", sa.JSON),
    _required("charged_at", sa.Double),
    _required("unpaid_s", sa.Double),
    **_OPTIONS,
)

sa.Table(
    "assignments",
    _METADATA,
    sa.Column(
        "slot_id",
        sa.BigInteger,
        sa.ForeignKey("slots.id", name="fk_assignments_slot_id"),
        primary_key=True,
        autoincrement=False,
    ),
    _required("holder_kind", sa.String(16)),
    _required("holder_id", sa.BigInteger),
    _required("accelerator", sa.String(_NAME_LENGTH)),
    _required("generation", sa.BigInteger),
    _required("phase", sa.String(16)),
    _required("local", sa.Boolean),
    _required("assigned_at", sa.Double),
    _optional("bitstream_id", sa.String(36)),
    sa.Index("ix_assignments_holder", "holder_kind", "holder_id"),
    **_OPTIONS,
)

sa.Table(
    "usage",
    _METADATA,
    _id(),
    _required("project_id", sa.String(_NAME_LENGTH)),
    _required("accelerator", sa.String(_NAME_LENGTH)),
    _required("day", sa.Date),
    _required("sessions", sa.BigInteger),
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

sa.Table(
    "quotas",
    _METADATA,
    _id(),
    _required("project_id", sa.String(_NAME_LENGTH)),
    _required("resource", sa.String(64)),
    _optional("hard_limit", sa.BigInteger),
    sa.UniqueConstraint(
        "project_id", "resource", name="uniq_quotas0project_id0resource"
    ),
    **_OPTIONS,
)

sa.Table(
    "instances",
    _METADATA,
    _id(),
    _required("instance_id", sa.String(36)),
    _required("project_id", sa.String(_NAME_LENGTH)),
    _required("name", sa.String(_NAME_LENGTH)),
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

sa.Table(
    "leader_lease",
    _METADATA,
    _id(),
    _required("holder", sa.String(_NAME_LENGTH)),
    _required("epoch", sa.BigInteger),
    _required("renewals", sa.BigInteger),
    _optional("pool_time_s", sa.Double),
    _optional("ahead_s", sa.Double),
    **_OPTIONS,
)


def upgrade() -> None:
    """Create the tables and indexes that do not exist yet."""
    connection = op.get_bind()
    _METADATA.create_all(connection, checkfirst=True)
    # An interrupted run may have created a table without its indexes.
    for table in _METADATA.sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)
