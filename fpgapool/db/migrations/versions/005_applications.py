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
_UNIQUE = ["level", "target_id", "accelerator", "shape"]


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
    if op.get_bind().dialect.name == "sqlite":
        if _OLD in known:
            _copy_faults()
        return
    if _NEW not in known:
        op.create_unique_constraint(_NEW, "faults", _UNIQUE)
    if _OLD in known:
        op.drop_constraint(_OLD, "faults", type_="unique")


def _copy_faults() -> None:
    """Replace the table by a copy: SQLite cannot change its constraints.

    The copy of an interrupted run may be there. All that follows the first
    row of the new one is one transaction.
    """
    bind = op.get_bind()
    op.execute("DROP TABLE IF EXISTS faults_005")
    old = sa.Table("faults", sa.MetaData(), autoload_with=bind)
    new = old.to_metadata(sa.MetaData(), name="faults_005")
    for one in list(new.constraints):
        if one.name == _OLD:
            new.constraints.remove(one)
    new.append_constraint(
        sa.UniqueConstraint(*[new.c[name] for name in _UNIQUE], name=_NEW)
    )
    new.create(bind)
    op.execute(new.insert().from_select(old.c.keys(), old.select()))
    op.drop_table("faults")
    op.rename_table("faults_005", "faults")
