# SPDX-License-Identifier: Apache-2.0

"""Reads untrusted JSON: limits its size, depth and numbers, and rejects what
readers could interpret differently.

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
    try:
        return _decoded(data, max_bytes, max_depth)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def _decoded(data: bytes, max_bytes: int, max_depth: int) -> object:
    if len(data) > max_bytes:
        raise ValueError(f"larger than the limit of {max_bytes} bytes")
    try:
        document: object = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_members_once,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    except RecursionError:
        raise _too_deep(max_depth) from None
    _check(document, max_depth, max_depth)
    return document


def _members_once(
    pairs: list[tuple[str, typing.Any]],
) -> dict[str, typing.Any]:
    # Of duplicate members, one reader may use the first and another the last.
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate member")
    return members


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS or abs(int(text)) > _MAX_INTEGER:
        raise ValueError("number out of range")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("number out of range")
    return number


def _refuse_constant(name: str) -> typing.NoReturn:
    raise ValueError(f"{name} is not a number")


def check_values(value: object, what: str, max_depth: int) -> None:
    """Check the depth of decoded JSON, its strings and its numbers.

    :raises ValueError: with the problem.
    """
    try:
        _check(value, max_depth, max_depth)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def _check(value: object, depth: int, max_depth: int) -> None:
    if depth < 0:
        raise _too_deep(max_depth)
    match value:
        case dict():
            for name, item in value.items():
                _check_string(name)
                _check(item, depth - 1, max_depth)
        case list() | tuple():
            for item in value:
                _check(item, depth - 1, max_depth)
        case str():
            _check_string(value)
        case float() if not math.isfinite(value):
            raise ValueError("number out of range")


def _check_string(text: str) -> None:
    # JSON strings may contain lone surrogates, which databases refuse.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a string is not valid Unicode")
    if "\0" in text:
        raise ValueError("a string contains a NUL character")


def _too_deep(max_depth: int) -> ValueError:
    return ValueError(f"nested deeper than {max_depth} levels")
