# SPDX-License-Identifier: Apache-2.0

"""Checks of a session's parameters, for software cores.

Messages name the parameter and the allowed values, but never the given value,
which may be a key.
"""

from __future__ import annotations

import collections.abc
import typing

from fpgapool.accelerators import base
from fpgapool.vocabulary import shapes

_HEX = shapes.matching(r"[0-9A-Fa-f]*", "a string of hexadecimal digits")
_T = typing.TypeVar("_T")

Params = collections.abc.Mapping[str, object]


def checked(
    params: Params,
    required: collections.abc.Collection[str] = (),
    defaults: Params | None = None,
    optional: collections.abc.Collection[str] = (),
) -> dict[str, object]:
    """Check the names of parameters and fill in the defaults.

    :raises InvalidParams: if a parameter is missing or unknown.
    """
    defaults = defaults or {}
    base.refuse_unknown_params(params, [*required, *defaults, *optional])
    for name in required:
        if name not in params:
            raise base.InvalidParams(f"'{name}' is missing")
    return {**defaults, **params}


def shaped(shape: shapes.Shape[_T], value: object, name: str) -> _T:
    """Check the value of a parameter.

    :raises InvalidParams: if the value does not match the shape.
    """
    try:
        return shape(value, "")
    except shapes.Invalid as error:
        place = f" {error.where}" if error.where else ""
        raise base.InvalidParams(f"'{name}'{place} {error.reason}") from None


def integer(params: Params, name: str, lowest: int, highest: int) -> int:
    """Read an integer or raise InvalidParams."""
    return shaped(shapes.integer(lowest, highest), params.get(name), name)


def choice(
    params: Params, name: str, choices: collections.abc.Sequence[str]
) -> str:
    """Read one of several words or raise InvalidParams."""
    return shaped(shapes.one_of(choices), params.get(name), name)


def flag(params: Params, name: str) -> bool:
    """Read a Boolean or raise InvalidParams."""
    return shaped(shapes.flag, params.get(name), name)


def hex_bytes(
    params: Params, name: str, lengths_bytes: collections.abc.Sequence[int]
) -> bytes:
    """Read hexadecimal bytes of one of the lengths, or raise InvalidParams."""
    value = shaped(_HEX, params.get(name), name)
    if len(value) not in [2 * length_bytes for length_bytes in lengths_bytes]:
        lengths = " or ".join(str(length) for length in lengths_bytes)
        raise base.InvalidParams(f"'{name}' must be {lengths} bytes")
    return bytes.fromhex(value)


def fragments(value: object, k: int, m: int) -> list[int]:
    """Read the missing fragments of an erasure code.

    :param m: the number of fragments that can be reconstructed.
    :raises InvalidParams: if it is not a list of fragment indexes.
    """
    index = shapes.integer(0, k + m - 1)
    shape = shapes.list_of(index, most=m, distinct=True)
    return shaped(shape, value, "missing")
