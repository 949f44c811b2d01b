# SPDX-License-Identifier: Apache-2.0

"""When sessions were changed last.

Revision ID: 010
Revises: 009
"""

import sqlalchemy as sa
from alembic import op

revision = "010"
down_revision = "009"

_SESSIONS = sa.Table(
    "sessions",
    sa.MetaData(),
    sa.Column("queued_at", sa.Double),
    sa.Column("ready_at", sa.Double),
    sa.Column("started_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("updated_at", sa.Double, nullable=True),
    sa.Index("ix_sessions_updated_at", "updated_at"),
)


def upgrade() -> None:
    """Do what an interrupted run has not done."""
    connection = op.get_bind()
    columns = _SESSIONS.columns
    known = sa.inspect(connection).get_columns("sessions")
    if "updated_at" not in {column["name"] for column in known}:
        op.add_column(
            "sessions", sa.Column("updated_at", sa.Double, nullable=True)
        )
    latest = sa.func.coalesce(
        columns.finished_at,
        columns.started_at,
        columns.ready_at,
        columns.queued_at,
    )
    connection.execute(
        sa.update(_SESSIONS)
        .where(columns.updated_at.is_(None))
        .values(updated_at=latest)
    )
    for index in _SESSIONS.indexes:
        index.create(connection, checkfirst=True)
