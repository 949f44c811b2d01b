# SPDX-License-Identifier: Apache-2.0

"""What the words in rows mean."""

from __future__ import annotations

import enum
from typing import Any
from typing import TypeVar

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_E = TypeVar("_E", bound=enum.Enum)


def read(meanings: type[_E], row: Any, column: str) -> _E | None:
    """Return what a row says in a column.

    :returns: None if this release does not know the word: a line in the log
        names the row then.
    """
    word = getattr(row, column)
    try:
        return meanings(word)
    except ValueError:
        log_unknown(row, column)
        return None


def log_unknown(row: Any, column: str) -> None:
    """Name a row that is set aside for what it says in a column."""
    LOG.error(
        "A row is set aside, its %s %r is unknown: %s",
        column,
        getattr(row, column),
        row,
    )
