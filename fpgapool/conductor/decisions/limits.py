# SPDX-License-Identifier: Apache-2.0

"""Checks the values of RPC payloads before they reach the engine.

A value that does not fit its column would block the group commit for all
sessions, so it is refused on arrival.
"""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import Any
from typing import TypeVar

from fpgapool.common import exception
from fpgapool.objects import base
from fpgapool.vocabulary import shapes

_T = TypeVar("_T")

_MAX_NAME_LENGTH = 255
# Members with shorter columns.
_MAX_LENGTHS = {"code": 64, "host_uuid": 36, "state": 16}

# Free texts, which are shortened and made writable before they are written.
_FREE_TEXTS = frozenset(
    {
        "description",
        "link_message",
        "message",
        "reason",
        "secret",
        "signature",
    }
)

MAX_INTEGER = 2**63 - 1
# Members with smaller columns, or that are summed up.
_MAX_INTEGERS = {
    "slot": 2**31 - 1,
    "input_bytes": 2**53,
    "output_bytes": 2**53,
}
# Above any real time, rate or energy; sums stay finite.
_MAX_FLOAT = 1e18


def argument(shape: shapes.Shape[_T], value: Any, name: str) -> _T:
    """Check an argument of a call."""
    try:
        return shape(value, name)
    except shapes.Invalid as error:
        raise exception.InvalidRequest(reason=str(error)) from None


def writable(text: str) -> str:
    """Return a text with the characters replaced that databases refuse.

    Error messages may quote tenants' input.

    :param text: may hold surrogates and the character 0.
    """
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text.replace("\0", "?")


def check(payload: base.Payload, known: Container[int] = ()) -> None:
    """Check that every member of a payload fits its column.

    :raises ValueError: otherwise; names the payload and the member.
    """
    values = vars(payload)
    for name, longest, largest in _limits(type(payload)):
        value = values[name]
        kind = type(value)
        if kind is str:
            # Fast path: nearly all texts are short and plain.
            if (
                len(value) > longest
                or not value.isascii()
                or not value.isprintable()
            ):
                _check(payload, name, value)
        elif kind is int:
            if not -largest <= value <= largest:
                _check(payload, name, value)
        elif kind is float:
            if not -_MAX_FLOAT <= value <= _MAX_FLOAT:
                _check(payload, name, value)
        elif value is not None and kind is not bool:
            _check(payload, name, value, known)


@functools.cache
def _limits(
    cls: type[base.Payload],
) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (
            name,
            _MAX_LENGTHS.get(name, _MAX_NAME_LENGTH),
            _MAX_INTEGERS.get(name, MAX_INTEGER),
        )
        for name in base.members(cls)
    )


def _check(
    payload: base.Payload, name: str, value: Any, known: Container[int] = ()
) -> None:
    if isinstance(value, base.Payload):
        if id(value) not in known:
            check(value, known)
    elif isinstance(value, tuple):
        for item in value:
            _check(payload, name, item, known)
    elif isinstance(value, str):
        if name in _FREE_TEXTS:
            return
        if len(value) > _MAX_LENGTHS.get(name, _MAX_NAME_LENGTH):
            raise ValueError(_complaint(payload, name, "too long"))
        # A line break would break a log line; a surrogate fits no column.
        if not value.isprintable():
            raise ValueError(
                _complaint(payload, name, "text that cannot be printed")
            )
    elif (
        isinstance(value, int)
        and abs(value) > _MAX_INTEGERS.get(name, MAX_INTEGER)
        # The engine refuses sizes with a code of their own.
        and name != "claimed_bytes"
    ) or (isinstance(value, float) and abs(value) > _MAX_FLOAT):
        raise ValueError(_complaint(payload, name, "out of range"))


def _complaint(payload: base.Payload, name: str, what: str) -> str:
    return f"{type(payload).__name__}.{name} is {what}"
