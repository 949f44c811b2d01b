# SPDX-License-Identifier: Apache-2.0

"""Parameters of tests, of which the gate takes some."""

from __future__ import annotations

import typing
from collections.abc import Callable
from collections.abc import Iterable

import pytest

_T = typing.TypeVar("_T")


def some(
    values: Iterable[_T], in_gate: Callable[[_T], object]
) -> list[typing.Any]:
    """Return the same parameters; the others are for ``make test-all``.

    :param values: of one parameter, or tuples of those of several.
    :param in_gate: tells of which of them the gate shall show it, too.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if in_gate(value) else pytest.mark.long,
        )
        for value in values
    ]


def first(*values: _T) -> list[typing.Any]:
    """Return parameters of which the gate takes only the first one."""
    return some(values, lambda value: value is values[0])
