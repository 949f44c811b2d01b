# SPDX-License-Identifier: Apache-2.0

"""Checks of untrusted documents: files, messages and parameters.

A *shape* is a function of a value and of its place in the document, such as
``boards[2].slots``. It returns the checked value or raises :class:`Invalid`
with the place, the problem and the limit. The error never contains the value,
which may be a secret. Shapes are combined to declare a document::

    BOARD = Members(
        required={"name": matching(NAME, "a name of 1 to 64 characters")},
        optional={"slots": integer(1, 64)},
    )
    boards = list_of(BOARD, most=8)(document, "boards")

This module uses only the standard library, because clients and workers import
it. Booleans do not count as integers, and numbers must be finite.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from typing import TypeGuard
from typing import TypeVar

_T = TypeVar("_T")
Shape = Callable[[object, str], _T]
Object = dict[str, Any]


class Invalid(ValueError):
    """A value does not have the required shape.

    :ivar where: the value's place in the document; empty: the document itself.
    :ivar reason: what is wrong; in messages it follows the place.
    """

    def __init__(self, where: str, reason: str) -> None:
        if not where.isprintable():
            # The names in it come from an untrusted document.
            where = where.encode("unicode_escape").decode()
        super().__init__(f"{where}: {reason}" if where else reason)
        self.where = where
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.reason), self.__dict__


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, and not true or false."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number, and not true or false."""
    if isinstance(value, float):
        return math.isfinite(value)
    return is_integer(value)


def integer(least: int | None = None, most: int | None = None) -> Shape[int]:
    bounds = _bounds(least, most)

    def check(value: object, where: str) -> int:
        # Inline, because is_integer() is slower and every session's messages
        # pass through here.
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or (least is not None and value < least)
            or (most is not None and value > most)
        ):
            raise Invalid(where, f"must be an integer{bounds}")
        return value

    return check


def number(
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Shape[float]:
    """Return the shape of numbers from least to most.

    :param above: exclusive lower limit.
    :param below: exclusive upper limit.
    """
    bounds = _bounds(least, most, above, below)

    def check(value: object, where: str) -> float:
        if (
            not is_number(value)
            or (least is not None and value < least)
            or (most is not None and value > most)
            or (above is not None and value <= above)
            or (below is not None and value >= below)
        ):
            raise Invalid(where, f"must be a number{bounds}")
        try:
            return float(value)
        except OverflowError:
            raise Invalid(
                where, "is too large for a floating-point number"
            ) from None

    return check


def _bounds(
    least: float | None,
    most: float | None,
    above: float | None = None,
    below: float | None = None,
) -> str:
    def text(value: float) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    if least is not None and most is not None:
        return f" from {text(least)} to {text(most)}"
    limits = {
        "of at least": least,
        "of at most": most,
        "above": above,
        "below": below,
    }
    words = [
        f"{word} {text(limit)}"
        for word, limit in limits.items()
        if limit is not None
    ]
    return f" {' and '.join(words)}" if words else ""


def flag(value: object, where: str) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise Invalid(where, "must be true or false")
    return value


def text(
    most: int | None = None,
    *,
    least: int = 0,
    printable: bool = False,
    storable: bool = False,
) -> Shape[str]:
    """Return the shape of strings.

    :param most: maximum number of characters.
    :param printable: whether it must be one printable line.
    :param storable: whether databases and the operating system must accept it.
    """

    def check(value: object, where: str) -> str:
        if not isinstance(value, str):
            raise Invalid(where, "must be a string")
        if most is not None and len(value) > most:
            raise Invalid(where, f"must be at most {most} characters")
        if least and not value:
            raise Invalid(where, "must not be empty")
        if len(value) < least:
            raise Invalid(where, f"must be at least {least} characters")
        if printable and not value.isprintable():
            raise Invalid(where, "must be one printable line")
        if storable and ("\0" in value or not _is_unicode(value)):
            raise Invalid(where, "must be Unicode without NUL characters")
        return value

    return check


def _is_unicode(value: str) -> bool:
    """Whether a string has no lone surrogates, which JSON can contain."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def legible(most: int) -> Shape[str]:
    """Return the shape of strings that logs and databases shall take.

    It accepts any string, and returns its beginning as a printable line.
    """

    def check(value: object, where: str) -> str:
        found = text()(value, where)[:most]
        if found.isprintable():
            return found
        return found.encode("unicode_escape").decode()[:most]

    return check


def matching(pattern: str | re.Pattern[str], words: str) -> Shape[str]:
    """Return the shape of strings that a regular expression matches entirely.

    :param words: description of such a string, for the error message.
    """
    expression = re.compile(pattern)

    def check(value: object, where: str) -> str:
        if not isinstance(value, str) or not expression.fullmatch(value):
            raise Invalid(where, f"must be {words}")
        return value

    return check


def one_of(choices: Collection[str]) -> Shape[str]:
    """Return the shape of strings that are one of the choices."""

    def check(value: object, where: str) -> str:
        if not isinstance(value, str) or value not in choices:
            raise Invalid(where, f"must be one of: {', '.join(choices)}")
        return value

    return check


def exactly(wanted: int) -> Shape[int]:
    """Return the shape of one particular integer, such as a version."""

    def check(value: object, where: str) -> int:
        if not is_integer(value) or value != wanted:
            raise Invalid(where, f"must be {wanted}")
        return value

    return check


def anything(value: object, where: str) -> Any:
    """Accept any value."""
    return value


def nullable(shape: Shape[_T]) -> Shape[_T | None]:
    """Return a shape that also accepts null."""
    return lambda value, where: None if value is None else shape(value, where)


def list_of(
    shape: Shape[_T],
    least: int = 0,
    most: int | None = None,
    *,
    distinct: bool = False,
) -> Shape[list[_T]]:
    """Return the shape of lists.

    :param distinct: whether the members must differ; they must be hashable.
    """

    def check(value: object, where: str) -> list[_T]:
        if not isinstance(value, list):
            raise Invalid(where, "must be a list")
        if most is not None and len(value) > most:
            raise Invalid(where, f"must have at most {most} values")
        if len(value) < least:
            raise Invalid(where, f"must have at least {least} values")
        found = [
            shape(member, f"{where}[{index}]")
            for index, member in enumerate(value)
        ]
        if distinct and len(set(found)) < len(found):
            raise Invalid(where, "must not have duplicate members")
        return found

    return check


def mapping_of(
    shape: Shape[_T], most: int | None = None, name: Shape[str] | None = None
) -> Shape[dict[str, _T]]:
    """Return the shape of objects whose members may have any names."""

    def check(value: object, where: str) -> dict[str, _T]:
        if not isinstance(value, Mapping):
            raise Invalid(where, "must be an object")
        if most is not None and len(value) > most:
            raise Invalid(where, f"must have at most {most} members")
        found = {}
        for key, member in value.items():
            here = place(where, key)
            if not isinstance(key, str):
                raise Invalid(here, "the name must be a string")
            if name is not None:
                name(key, here)
            found[key] = shape(member, here)
        return found

    return check


def members(
    value: object,
    where: str,
    required: Collection[str],
    optional: Collection[str] = (),
) -> Object:
    """Check the names of an object's members, but not their values."""
    if not isinstance(value, Mapping):
        raise Invalid(where, "must be an object")
    for name in value:
        if name not in required and name not in optional:
            raise Invalid(
                where,
                f"unknown member {name!r:.80}; known members:"
                f" {', '.join([*required, *optional]) or 'none'}",
            )
    for name in required:
        if name not in value:
            raise Invalid(place(where, name), "is missing")
    return dict(value)


class Members:
    """The shape of objects with known members.

    Calling it returns the checked members, without missing members.

    :param optional: shapes of members that may be missing.
    :param others: whether unknown members are ignored.
    :param nulls: names of members that are treated as missing if null.
    """

    def __init__(
        self,
        required: Mapping[str, Shape[Any]],
        optional: Mapping[str, Shape[Any]] | None = None,
        *,
        others: bool = False,
        nulls: Collection[str] = (),
    ) -> None:
        self._required = required
        self._optional = optional or {}
        self._shapes = {**required, **self._optional}
        self._others = others
        self._nulls = frozenset(nulls)

    def __call__(self, value: object, where: str) -> Object:
        """Check an object."""
        if not self._others:
            value = members(value, where, self._required, self._optional)
        elif not isinstance(value, Mapping):
            raise Invalid(where, "must be an object")
        start = f"{where}." if where else ""
        found = {}
        for name, shape in self._shapes.items():
            if name not in value:
                if name in self._required:
                    raise Invalid(start + name, "is missing")
            elif value[name] is not None or name not in self._nulls:
                found[name] = shape(value[name], start + name)
        return found


def place(where: str, member: object) -> str:
    return f"{where}.{member!s:.80}" if where else f"{member!s:.80}"
