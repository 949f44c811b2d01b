# SPDX-License-Identifier: Apache-2.0

"""Signs of life of services, and the versions of agents.

Revision ID: 002
Revises: 001
"""

import sqlalchemy as sa
from alembic import op

revision = "002"
down_revision = "001"

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
    """Create what does not exist yet."""
    found = sa.inspect(op.get_bind())
    if not found.has_table("services"):
        op.create_table(
            "services",
            sa.Column("name", sa.String(255), primary_key=True),
            sa.Column("binary", sa.String(64), nullable=False),
            sa.Column("host", sa.String(255), nullable=False),
            sa.Column("version", sa.String(64), nullable=False),
            sa.Column("seen_at", sa.Double, nullable=False),
            **_OPTIONS,
        )
    if "agent_version" not in {
        one["name"] for one in found.get_columns("hosts")
    }:
        # The previous release writes rows without it.
        op.add_column(
            "hosts",
            sa.Column(
                "agent_version",
                sa.String(64),
                nullable=False,
                server_default="",
            ),
        )
