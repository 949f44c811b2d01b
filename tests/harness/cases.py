#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
