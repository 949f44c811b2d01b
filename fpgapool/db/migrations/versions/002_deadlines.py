# SPDX-License-Identifier: Apache-2.0

"""Deadlines of sessions.

Revision ID: 002
Revises: 001
"""

import sqlalchemy as sa

from fpgapool.db.migrations import columns

revision = "002"
down_revision = "001"


def upgrade() -> None:
    """Add the columns that do not exist yet."""
    columns.add_missing(
        "sessions",
        sa.Column("deadline_s", sa.Double),
        sa.Column("deadline_action", sa.String(16)),
        sa.Column("deadline_at", sa.Double),
        sa.Column("deadline_met", sa.Boolean),
    )
    columns.add_missing(
        "usage",
        columns.count("sessions_met"),
        columns.count("sessions_missed"),
    )
