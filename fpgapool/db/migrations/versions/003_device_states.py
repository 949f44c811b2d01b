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

"""What operators say of devices and hosts.

Revision ID: 003
Revises: 002
"""

import sqlalchemy as sa
from alembic import op

revision = "003"
down_revision = "002"


def upgrade() -> None:
    """Let devices and hosts be enabled, draining or disabled."""
    # Columns are added and dropped in place: to copy a table, as alembic
    # does for SQLite otherwise, others must not refer to it.
    for table in ("hosts", "devices"):
        op.add_column(
            table,
            sa.Column(
                "admin_state",
                sa.String(16),
                nullable=False,
                server_default="enabled",
            ),
        )
        op.add_column(
            table,
            sa.Column(
                "admin_reason",
                sa.String(255),
                nullable=False,
                server_default="",
            ),
        )
        op.add_column(
            table, sa.Column("drain_deadline_at", sa.Double(), nullable=True)
        )
    devices = sa.table(
        "devices", sa.column("admin_state"), sa.column("enabled", sa.Boolean())
    )
    op.execute(
        devices.update()
        .where(devices.c.enabled == sa.false())
        .values(admin_state="disabled")
    )
    op.drop_column("devices", "enabled")
