# SPDX-License-Identifier: Apache-2.0

"""Reads enumerations in rows, also of other releases."""

from __future__ import annotations

import enum
from typing import Any
from typing import TypeVar

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_E = TypeVar("_E", bound=enum.Enum)


def read(meanings: type[_E], row: Any, column: str) -> _E | None:
    """Read the enumeration value of a column.

    :returns: None, with a line in the log, if this release does not know it.
    """
    word = getattr(row, column)
    try:
        return meanings(word)
    except ValueError:
        log_unknown(row, column)
        return None


def log_unknown(row: Any, column: str) -> None:
    """Log a row that is ignored because of an unknown value."""
    LOG.error(
        "A row is ignored, its %s %r is unknown: %s",
        column,
        getattr(row, column),
        row,
    )
