# SPDX-License-Identifier: Apache-2.0

"""Applications of sessions.

Revision ID: 005
Revises: 004
"""

import sqlalchemy as sa

from fpgapool.db.migrations import columns

revision = "005"
down_revision = "004"


def upgrade() -> None:
    """Add the column that does not exist yet."""
    columns.add_missing("sessions", sa.Column("application", sa.String(64)))
