# SPDX-License-Identifier: Apache-2.0

"""Applications of sessions, and faults of accelerators by shape.

Revision ID: 005
Revises: 004
"""

import sqlalchemy as sa
from alembic import op

from fpgapool.db.migrations import columns

revision = "005"
down_revision = "004"

_OLD = "uniq_faults0level0target_id0accelerator"
_NEW = f"{_OLD}0shape"


def upgrade() -> None:
    """Add what does not exist yet."""
    columns.add_missing("sessions", sa.Column("application", sa.String(64)))
    columns.add_missing(
        "faults",
        sa.Column("shape", sa.String(255), nullable=False, server_default=""),
    )
    known = {
        one["name"]
        for one in sa.inspect(op.get_bind()).get_unique_constraints("faults")
    }
    with op.batch_alter_table("faults") as faults:
        if _NEW not in known:
            faults.create_unique_constraint(
                _NEW, ["level", "target_id", "accelerator", "shape"]
            )
        if _OLD in known:
            faults.drop_constraint(_OLD, type_="unique")
