# SPDX-License-Identifier: Apache-2.0

"""Deadlines of sessions, and slots that they leave to others.

Revision ID: 002
Revises: 001
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "002"
down_revision = "001"


def upgrade() -> None:
    """Add the columns that do not exist yet."""
    _add(
        "sessions",
        sa.Column("deadline_s", sa.Double),
        sa.Column("deadline_action", sa.String(16)),
        sa.Column("deadline_at", sa.Double),
        sa.Column("deadline_met", sa.Boolean),
        _count("former_input_bytes"),
        _count("former_output_bytes"),
    )
    _add("usage", _count("sessions_met"), _count("sessions_missed"))


def _count(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def _add(table: str, *columns: sa.Column[Any]) -> None:
    # An interrupted run may have added some of them.
    known = {
        one["name"] for one in sa.inspect(op.get_bind()).get_columns(table)
    }
    for column in columns:
        if column.name not in known:
            op.add_column(table, column)
