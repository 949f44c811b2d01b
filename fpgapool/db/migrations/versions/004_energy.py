# SPDX-License-Identifier: Apache-2.0

"""Energy of sessions.

Revision ID: 004
Revises: 003
"""

import sqlalchemy as sa

from fpgapool.db.migrations import columns

revision = "004"
down_revision = "003"


def upgrade() -> None:
    """Add the column that does not exist yet."""
    columns.add_missing("sessions", sa.Column("energy_j", sa.Double))
