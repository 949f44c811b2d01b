# SPDX-License-Identifier: Apache-2.0

"""Columns that migrations add."""

from typing import Any

import sqlalchemy as sa
from alembic import op


def add_missing(table: str, *columns: sa.Column[Any]) -> None:
    """Add the columns that a table lacks.

    An interrupted run of the migration may have added some of them.
    """
    known = {
        one["name"] for one in sa.inspect(op.get_bind()).get_columns(table)
    }
    for column in columns:
        if column.name not in known:
            op.add_column(table, column)


def count(name: str) -> sa.Column[Any]:
    """Return a column of numbers that are 0 in rows from before."""
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
