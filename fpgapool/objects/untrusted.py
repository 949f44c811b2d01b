# SPDX-License-Identifier: Apache-2.0

"""Untrusted JSON: of bounded size, depth and numbers, and readable in one way
only.

:mod:`fpgapool.vocabulary.shapes` checks its contents.
"""

from __future__ import annotations

import json
import math
import typing

_MAX_DIGITS = 20
_MAX_INTEGER = 2**63 - 1


def decode(data: bytes, what: str, max_bytes: int, max_depth: int) -> object:
    """Decode a document."""
    if len(data) > max_bytes:
        raise ValueError(f"{what}: larger than the limit of {max_bytes} bytes")
    reader = _Reader(what)
    try:
        document: object = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=reader.members_once,
            parse_int=reader.integer,
            parse_float=reader.number,
            parse_constant=reader.refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"{what}: not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{what}: not JSON: {error}") from error
    except RecursionError:
        raise _too_deep(what, max_depth) from None
    check_values(document, what, max_depth)
    return document


class _Reader:
    """Reads numbers and members of a kind of document."""

    def __init__(self, what: str) -> None:
        self._what = what

    def members_once(
        self, pairs: list[tuple[str, typing.Any]]
    ) -> dict[str, typing.Any]:
        # Of duplicate members, one reader may take the first, another the
        # last.
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError(f"{self._what}: duplicate member")
        return members

    def integer(self, text: str) -> int:
        if len(text) > _MAX_DIGITS or abs(int(text)) > _MAX_INTEGER:
            raise ValueError(f"{self._what}: number out of range")
        return int(text)

    def number(self, text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{self._what}: number out of range")
        return number

    def refuse_constant(self, name: str) -> typing.NoReturn:
        raise ValueError(f"{self._what}: {name} is not a number")


def check_values(value: object, what: str, max_depth: int) -> None:
    """Check the depth of decoded JSON, its strings and its numbers.

    :raises ValueError: with the fault.
    """

    def check(value: object, depth: int) -> None:
        if depth < 0:
            raise _too_deep(what, max_depth)
        match value:
            case dict():
                for name, item in value.items():
                    _check_string(name, what)
                    check(item, depth - 1)
            case list() | tuple():
                for item in value:
                    check(item, depth - 1)
            case str():
                _check_string(value, what)
            case float() if not math.isfinite(value):
                raise ValueError(f"{what}: number out of range")

    check(value, max_depth)


def _check_string(text: str, what: str) -> None:
    # JSON can have lone surrogates, which databases refuse.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{what}: a string is not valid Unicode")
    if "\0" in text:
        raise ValueError(f"{what}: a string contains a NUL character")


def _too_deep(what: str, max_depth: int) -> ValueError:
    return ValueError(f"{what}: nested deeper than {max_depth} levels")
