# SPDX-License-Identifier: Apache-2.0

"""Checks the values of RPC payloads, and reads enumerations from rows, which
other releases may have written.

A value that does not fit its column would block the group commit for all
sessions, so it is rejected on arrival.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Container
from typing import Any
from typing import TypeVar

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.objects import base
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")
_E = TypeVar("_E", bound=enum.Enum)

_MAX_NAME_LENGTH = 255
# Maximum lengths of members whose columns are shorter.
_MAX_LENGTHS = {"code": 64, "host_uuid": 36, "state": 16}

# Not checked here: free text, which is truncated and sanitized before it is
# stored, and sizes, which the engine rejects with their own error code.
_UNLIMITED = frozenset(
    {
        "claimed_bytes",
        "description",
        "isolation_message",
        "link_message",
        "message",
        "reason",
        "secret",
        "signature",
    }
)

MAX_INTEGER = 2**63 - 1
# Members whose columns are smaller, or whose sums are stored.
_MAX_INTEGERS = {
    "slot": 2**31 - 1,
    "input_bytes": 2**53,
    "output_bytes": 2**53,
    # The sums of a desk, which may run for months.
    "ClientCounts.input_bytes": MAX_INTEGER,
    "ClientCounts.output_bytes": MAX_INTEGER,
}
# Higher than any real time, rate or energy; its sums are still finite.
_MAX_FLOAT = 1e18


def argument(shape: shapes.Shape[_T], value: Any, name: str) -> _T:
    """Check an argument of a call."""
    try:
        return shape(value, name)
    except shapes.Invalid as error:
        raise exception.InvalidRequest(reason=str(error)) from None


def writable(text: str) -> str:
    """Replace surrogates and NUL characters, which databases reject.

    :param text: may quote users' input.
    """
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text.replace("\0", "?")


def check(payload: base.Payload, known: Container[int] = ()) -> None:
    """Check that every member of a payload fits its column.

    :raises ValueError: if one does not; the message names it and the payload.
    """
    values = vars(payload)
    # All checks are in one function for speed: messages have many members.
    for name, longest, largest in _limits(type(payload)):
        value = values[name]
        for one in value if type(value) is tuple else (value,):
            kind, fault = type(one), ""
            if kind is str:
                if len(one) > longest:
                    fault = "too long"
                elif not one.isprintable():
                    # A line break splits log lines; columns reject surrogates.
                    fault = "not printable"
            elif kind is int:
                if not -largest <= one <= largest:
                    fault = "out of range"
            elif kind is float:
                if not -_MAX_FLOAT <= one <= _MAX_FLOAT:
                    fault = "out of range"
            elif isinstance(one, base.Payload) and id(one) not in known:
                check(one, known)
            if fault:
                raise ValueError(f"{type(payload).__name__}.{name} is {fault}")


@functools.cache
def _limits(
    cls: type[base.Payload],
) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (
            name,
            _MAX_LENGTHS.get(name, _MAX_NAME_LENGTH),
            _MAX_INTEGERS.get(
                f"{cls.__name__}.{name}",
                _MAX_INTEGERS.get(name, MAX_INTEGER),
            ),
        )
        for name in base.members(cls)
        if name not in _UNLIMITED
    )


def read_enum(meanings: type[_E], row: Any, column: str) -> _E | None:
    """Read the enumeration value of a column.

    :returns: None if this release does not know the value, which is logged.
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
        "Row ignored because its %s %r is unknown: %s",
        column,
        getattr(row, column),
        row,
    )
