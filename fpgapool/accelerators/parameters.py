# SPDX-License-Identifier: Apache-2.0

"""Checks of a session's parameters, for software cores.

The messages name the parameter and the allowed values, never the given value:
it may be a key.
"""

from __future__ import annotations

import collections.abc
import re

from fpgapool.accelerators import base

_HEX = re.compile(r"[0-9A-Fa-f]*")

Params = collections.abc.Mapping[str, object]


def checked(
    params: Params,
    required: collections.abc.Collection[str] = (),
    defaults: Params | None = None,
    optional: collections.abc.Collection[str] = (),
) -> dict[str, object]:
    """Check the names of parameters, and fill in the defaults.

    :param required: names that must be present.
    :param defaults: values of names that may be missing.
    :param optional: names that may be missing and have no default.
    :returns: the parameters with the defaults.
    :raises InvalidParams: if one is missing or unknown.
    """
    defaults = defaults or {}
    base.refuse_unknown_params(params, [*required, *defaults, *optional])
    for name in required:
        if name not in params:
            raise base.InvalidParams(f"'{name}' is missing")
    return {**defaults, **params}


def integer(params: Params, name: str, lowest: int, highest: int) -> int:
    """Read a whole number.

    :returns: its value.
    :raises InvalidParams: if it is not such a number.
    """
    value = params.get(name)
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not lowest <= value <= highest
    ):
        raise base.InvalidParams(
            f"'{name}' must be a whole number from {lowest} to {highest}"
        )
    return value


def choice(
    params: Params, name: str, choices: collections.abc.Sequence[str]
) -> str:
    """Read one of several words.

    :returns: its value.
    :raises InvalidParams: if it is not one of them.
    """
    value = params.get(name)
    if not isinstance(value, str) or value not in choices:
        raise base.InvalidParams(
            f"'{name}' must be one of: {', '.join(choices)}"
        )
    return value


def flag(params: Params, name: str) -> bool:
    """Read a truth value.

    :returns: its value.
    :raises InvalidParams: if it is not one.
    """
    value = params.get(name)
    if not isinstance(value, bool):
        raise base.InvalidParams(f"'{name}' must be true or false")
    return value


def hex_bytes(
    params: Params, name: str, lengths_bytes: collections.abc.Sequence[int]
) -> bytes:
    """Read bytes in hexadecimal.

    :returns: the bytes.
    :raises InvalidParams: if it is not such a text.
    """
    value = params.get(name)
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise base.InvalidParams(
            f"'{name}' must be a string of hexadecimal digits"
        )
    if len(value) not in [2 * length_bytes for length_bytes in lengths_bytes]:
        lengths = " or ".join(str(length) for length in lengths_bytes)
        raise base.InvalidParams(f"'{name}' must have {lengths} bytes")
    return bytes.fromhex(value)
