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

"""Quotas of projects, and the energy that they have used.

Revision ID: 004
Revises: 003
"""

import sqlalchemy as sa
from alembic import op

revision = "004"
down_revision = "003"

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
    """Create the table and add the column."""
    op.create_table(
        "quotas",
        sa.Column(
            "id",
            sa.BigInteger(),
            primary_key=True,
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("resource", sa.String(64), nullable=False),
        sa.Column("hard_limit", sa.BigInteger(), nullable=True),
        sa.UniqueConstraint(
            "project_id",
            "resource",
            name="uniq_quotas0project_id0resource",
        ),
        **_OPTIONS,
    )
    op.add_column("usage", sa.Column("energy_j", sa.Double(), nullable=True))
