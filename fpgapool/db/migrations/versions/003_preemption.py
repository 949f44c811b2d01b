# SPDX-License-Identifier: Apache-2.0

"""What sessions computed in slots that they left to others.

Revision ID: 003
Revises: 002
"""

from fpgapool.db.migrations import columns

revision = "003"
down_revision = "002"


def upgrade() -> None:
    """Add the columns that do not exist yet."""
    columns.add_missing(
        "sessions",
        columns.count("former_input_bytes"),
        columns.count("former_output_bytes"),
    )
