# SPDX-License-Identifier: Apache-2.0

"""Limits of what a payload may hold before it reaches the engine.

A value that no column can hold would stop the group commit for everybody, so
it is refused at the door, whoever sent it.
"""

from __future__ import annotations

import functools
from typing import Any

from fpgapool.objects import base

_MAX_NAME_LENGTH = 255
# Of what has a shorter column, by the names of members.
_MAX_LENGTHS = {"code": 64, "host_uuid": 36, "state": 16}

# Texts for people: cut, and made writable, where they are written.
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
# Of what has a shorter column, or is added up with others.
_MAX_INTEGERS = {
    "slot": 2**31 - 1,
    "input_bytes": 2**53,
    "output_bytes": 2**53,
}
# More than any time, rate or energy; sums of them stay numbers.
_MAX_FLOAT = 1e18


def writable(text: str) -> str:
    """Return a text for people as every database takes it.

    What tells of an error may quote what a tenant has sent.

    :param text: may hold surrogates and the character 0.
    """
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text.replace("\0", "?")


def check(payload: base.Payload) -> None:
    """Make sure that every member of a payload fits its column.

    :raises ValueError: that names the payload and the member.
    """
    for name, longest, largest in _limits(type(payload)):
        value = getattr(payload, name)
        kind = type(value)
        if kind is str:
            # What is short and plain is what there is nearly always.
            if len(value) > longest or not value.isascii() or "\0" in value:
                _check(payload, name, value)
        elif kind is int:
            if not -largest <= value <= largest:
                _check(payload, name, value)
        elif value is not None and kind is not bool:
            _check(payload, name, value)


@functools.cache
def _limits(
    cls: type[base.Payload],
) -> tuple[tuple[str, int, int], ...]:
    """Return what texts and whole numbers may be that are right surely.

    :returns: names of members, lengths of texts, and amounts of numbers.
    """
    return tuple(
        (
            name,
            _MAX_LENGTHS.get(name, _MAX_NAME_LENGTH),
            _MAX_INTEGERS.get(name, MAX_INTEGER),
        )
        for name in base.members(cls)
    )


def _check(payload: base.Payload, name: str, value: Any) -> None:
    if isinstance(value, base.Payload):
        check(value)
    elif isinstance(value, tuple):
        for item in value:
            _check(payload, name, item)
    elif isinstance(value, str):
        if name in _FREE_TEXTS:
            return
        if len(value) > _MAX_LENGTHS.get(name, _MAX_NAME_LENGTH):
            raise ValueError(_complaint(payload, name, "too long"))
        if writable(value) != value:
            raise ValueError(_complaint(payload, name, "no text to write"))
    elif (
        isinstance(value, int)
        and abs(value) > _MAX_INTEGERS.get(name, MAX_INTEGER)
        # The engine refuses sizes with a code of their own.
        and name != "claimed_bytes"
    ) or (isinstance(value, float) and abs(value) > _MAX_FLOAT):
        raise ValueError(_complaint(payload, name, "out of range"))


def _complaint(payload: base.Payload, name: str, what: str) -> str:
    return f"{type(payload).__name__}.{name} is {what}"
