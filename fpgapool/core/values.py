# SPDX-License-Identifier: Apache-2.0

"""Values that are made by the thousand in a second."""

import dataclasses
import typing

_T = typing.TypeVar("_T")


@typing.dataclass_transform(frozen_default=True)
def value(cls: type[_T]) -> type[_T]:
    """Make a class a dataclass whose members nobody changes.

    That they stay is checked by the type checker alone: a dataclass that
    checks it itself takes four times as long to make, and events and
    instructions are made several times for each decision.
    """
    return dataclasses.dataclass(slots=True, unsafe_hash=True)(cls)
