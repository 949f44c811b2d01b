# SPDX-License-Identifier: Apache-2.0

"""Alembic runs this to apply migrations; see fpgapool.db.migration."""

from alembic import context

from fpgapool.db import models

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=models.metadata,
    # SQLite cannot alter tables, so Alembic copies them.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
