#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The first tables.

Revision ID: 001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "001"
down_revision = None

_OPTIONS = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}


def upgrade() -> None:
    """Create all tables."""
    _create_hardware()
    _create_accelerators()
    _create_sessions()
    _create_assignments()
    _create_leader_lease()


def _id() -> sa.Column:
    return sa.Column(
        "id",
        sa.BigInteger(),
        primary_key=True,
        autoincrement=False,
        nullable=False,
    )


def _create_hardware() -> None:
    op.create_table(
        "hosts",
        _id(),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("nic_bytes_per_s", sa.Double(), nullable=False),
        sa.Column("up", sa.Boolean(), nullable=False),
        sa.Column("last_report_at", sa.Double(), nullable=True),
        sa.UniqueConstraint("uuid", name="uniq_hosts0uuid"),
        **_OPTIONS,
    )
    op.create_table(
        "devices",
        _id(),
        sa.Column(
            "host_id",
            sa.BigInteger(),
            sa.ForeignKey("hosts.id", name="fk_devices_host_id"),
            nullable=False,
        ),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("model", sa.String(255), nullable=False),
        sa.Column("dma_bytes_per_s", sa.Double(), nullable=False),
        sa.Column("healthy", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("fault_reason", sa.Text(), nullable=False),
        sa.UniqueConstraint(
            "host_id", "name", name="uniq_devices0host_id0name"
        ),
        **_OPTIONS,
    )
    op.create_table(
        "slots",
        _id(),
        sa.Column(
            "device_id",
            sa.BigInteger(),
            sa.ForeignKey("devices.id", name="fk_slots_device_id"),
            nullable=False,
        ),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("shape", sa.String(255), nullable=False),
        sa.Column("programmed", sa.String(255), nullable=True),
        sa.Column("programming_time_s", sa.Double(), nullable=False),
        sa.Column("faulty", sa.Boolean(), nullable=False),
        sa.Column("fault_reason", sa.Text(), nullable=False),
        sa.UniqueConstraint(
            "device_id", "number", name="uniq_slots0device_id0number"
        ),
        **_OPTIONS,
    )


def _create_accelerators() -> None:
    op.create_table(
        "accelerators",
        sa.Column("name", sa.String(255), primary_key=True, nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        **_OPTIONS,
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        _id(),
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("host_id", sa.BigInteger(), nullable=True),
        sa.Column("accelerator", sa.String(255), nullable=False),
        sa.Column("claimed_bytes", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("skips", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("slot_id", sa.BigInteger(), nullable=True),
        sa.Column("local", sa.Boolean(), nullable=True),
        sa.Column("wait_timeout_s", sa.Double(), nullable=True),
        sa.Column("connect_timeout_s", sa.Double(), nullable=False),
        sa.Column("resume_grace_s", sa.Double(), nullable=False),
        sa.Column("queued_at", sa.Double(), nullable=False),
        sa.Column("ready_at", sa.Double(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("input_bytes", sa.BigInteger(), nullable=False),
        sa.Column("output_bytes", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("session_id", name="uniq_sessions0session_id"),
        sa.UniqueConstraint(
            "project_id",
            "request_id",
            name="uniq_sessions0project_id0request_id",
        ),
        **_OPTIONS,
    )
    op.create_index("ix_sessions_state", "sessions", ["state"])
    op.create_index("ix_sessions_finished_at", "sessions", ["finished_at"])


def _create_assignments() -> None:
    op.create_table(
        "assignments",
        sa.Column(
            "slot_id",
            sa.BigInteger(),
            sa.ForeignKey("slots.id", name="fk_assignments_slot_id"),
            primary_key=True,
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            "job_id",
            sa.BigInteger(),
            sa.ForeignKey("sessions.id", name="fk_assignments_job_id"),
            nullable=False,
        ),
        sa.Column("accelerator", sa.String(255), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("local", sa.Boolean(), nullable=False),
        sa.Column("assigned_at", sa.Double(), nullable=False),
        **_OPTIONS,
    )
    op.create_index("ix_assignments_job_id", "assignments", ["job_id"])


def _create_leader_lease() -> None:
    op.create_table(
        "leader_lease",
        _id(),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        **_OPTIONS,
    )
