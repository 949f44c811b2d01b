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

"""Slots that instances can reserve, and those that they have.

Revision ID: 007
Revises: 006
"""

import sqlalchemy as sa
from alembic import op

revision = "007"
down_revision = "006"

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
    """Let slots be reserved."""
    op.add_column(
        "devices",
        sa.Column(
            "reservable_slots",
            sa.Integer(),
            nullable=False,
            server_default="0",
        ),
    )
    op.add_column(
        "slots", sa.Column("reserved_for", sa.String(36), nullable=True)
    )
    op.create_table(
        "reservations",
        sa.Column(
            "device_id",
            sa.BigInteger(),
            primary_key=True,
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("instances", sa.JSON(), nullable=False),
        **_OPTIONS,
    )
