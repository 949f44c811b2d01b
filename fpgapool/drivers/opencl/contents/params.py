# SPDX-License-Identifier: Apache-2.0

"""Parameters of a manifest: their types, and values that sessions give."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import struct
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.accelerators import parameters
from fpgapool.objects import untrusted

MAX_BYTES = 4096
MAX_ITEMS = 256
MAX_CHOICES = 32

_UINT_MAX = 2**32 - 1
_MAX_INTEGERS = {"uint": _UINT_MAX, "ulong": 2**63 - 1, "uints": _UINT_MAX}
#: Members of a parameter besides its type, and its default.
MEMBERS: dict[str, tuple[str, ...]] = {
    "uint": ("minimum", "maximum"),
    "ulong": ("minimum", "maximum"),
    "uints": ("minimum", "maximum", "max_items"),
    "float": ("minimum", "maximum"),
    "flag": (),
    "choice": ("choices",),
    "bytes": ("lengths_bytes",),
}
#: Behind the name of a parameter, to name its length in expressions.
_LENGTHS = {"bytes": "_bytes", "uints": "_count"}


@dataclasses.dataclass(frozen=True, slots=True)
class Param:
    """A parameter of sessions.

    :ivar kind: ``uint``, ``ulong``, ``float``, ``flag``, ``choice``,
        ``bytes`` (in hexadecimal) or ``uints`` (a list).
    :ivar minimum: smallest number.
    :ivar maximum: largest number.
    :ivar max_items: longest list.
    :ivar choices: the words of a choice.
    :ivar lengths_bytes: possible lengths of bytes.
    :ivar default: as a session would give it; None if it must be given.
    """

    kind: str
    minimum: float = 0
    maximum: float = 0
    max_items: int = 0
    choices: tuple[str, ...] = ()
    lengths_bytes: tuple[int, ...] = ()
    default: object = None

    @property
    def is_buffer(self) -> bool:
        """Whether kernels get it in memory of the device."""
        return self.kind in _LENGTHS

    def variable(self, name: str) -> str | None:
        """Return the name that its number has in expressions, or None.

        :param name: of the parameter.
        """
        if self.kind == "float":
            return None
        return name + _LENGTHS.get(self.kind, "")

    def number(self, value: typing.Any) -> int:
        """Return its number in expressions.

        :param value: from :meth:`read`.
        """
        if self.kind == "choice":
            return self.choices.index(value)
        return len(value) if self.is_buffer else int(value)

    def contents(self, value: typing.Any) -> bytes:
        """Return what is in memory of the device.

        :param value: from :meth:`read`, of a parameter that is a buffer.
        """
        if self.kind == "uints":
            return struct.pack(f"<{len(value)}I", *value)
        return bytes(value)

    def schema(self) -> dict[str, typing.Any]:
        """Return a JSON schema that all values of sessions fit."""
        limits = {"minimum": self.minimum, "maximum": self.maximum}
        schema: dict[str, typing.Any]
        match self.kind:
            case "flag":
                schema = {"type": "boolean"}
            case "choice":
                schema = {"type": "string", "enum": [*self.choices]}
            case "bytes":
                # In hexadecimal.
                schema = {
                    "type": "string",
                    "minLength": 2 * min(self.lengths_bytes),
                    "maxLength": 2 * max(self.lengths_bytes),
                }
            case "float":
                schema = {"type": "number", **limits}
            case "uints":
                schema = {
                    "type": "array",
                    "maxItems": self.max_items,
                    "items": {"type": "integer", **limits},
                }
            case _:
                schema = {"type": "integer", **limits}
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def read(self, value: object, name: str) -> typing.Any:
        """Check a session's value.

        :param value: as the session gives it.
        :param name: of the parameter.
        :returns: int, float, bool, str, bytes or a list of int.
        :raises InvalidParams: if it is wrong.
        """
        given = {name: value}
        match self.kind:
            case "flag":
                return parameters.flag(given, name)
            case "choice":
                return parameters.choice(given, name, self.choices)
            case "bytes":
                return parameters.hex_bytes(given, name, self.lengths_bytes)
            case "float":
                return self._float(value, name)
            case "uints":
                return self._integers(value, name)
        return parameters.integer(
            given, name, int(self.minimum), int(self.maximum)
        )

    def _float(self, value: object, name: str) -> float:
        if not _is_number(value) or not (
            self.minimum <= value <= self.maximum
        ):
            raise accelerators.InvalidParams(
                f"{name!r} must be a number from {self.minimum:g} to "
                f"{self.maximum:g}"
            )
        return float(value)

    def _integers(self, value: object, name: str) -> list[int]:
        if (
            not isinstance(value, list)
            or len(value) > self.max_items
            or not all(
                untrusted.is_integer(item)
                and self.minimum <= item <= self.maximum
                for item in value
            )
        ):
            raise accelerators.InvalidParams(
                f"{name!r} must be a list of up to {self.max_items} whole "
                f"numbers from {self.minimum} to {self.maximum}"
            )
        return value


def read(
    params: collections.abc.Mapping[str, Param],
    values: collections.abc.Mapping[str, object],
) -> dict[str, typing.Any]:
    """Check the values of a session.

    :param params: of the manifest.
    :param values: the session's.
    :returns: the value of each parameter.
    :raises InvalidParams: if one is missing, unknown or wrong.
    """
    required = [name for name, each in params.items() if each.default is None]
    defaults = {
        name: each.default
        for name, each in params.items()
        if each.default is not None
    }
    checked = parameters.checked(values, required, defaults)
    return {
        name: each.read(checked[name], name) for name, each in params.items()
    }


def parse(value: object, where: str) -> Param:
    """Check a parameter of a manifest.

    :param value: decoded JSON.
    :param where: its place, for messages.
    :returns: the parameter.
    :raises ValueError: with the fault.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be an object")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in MEMBERS:
        raise ValueError(f"{where}.type: must be one of: {', '.join(MEMBERS)}")
    known = ("type", "default", *MEMBERS[kind])
    for member in value:
        if member not in known:
            raise ValueError(
                f"{where}: unknown member {member!r:.80}; "
                f"there are: {', '.join(known)}"
            )
    param = _param(kind, value, where)
    if param.default is not None:
        try:
            param.read(param.default, "default")
        except accelerators.InvalidParams as error:
            raise ValueError(f"{where}: {error.message}") from None
    return param


def _param(kind: str, value: dict[str, typing.Any], where: str) -> Param:
    minimum, maximum = _range(kind, value, where)
    return Param(
        kind,
        minimum,
        maximum,
        max_items=_max_items(value, where) if kind == "uints" else 0,
        choices=_choices(value, where) if kind == "choice" else (),
        lengths_bytes=_lengths(value, where) if kind == "bytes" else (),
        default=value.get("default"),
    )


def _range(
    kind: str, value: dict[str, typing.Any], where: str
) -> tuple[float, float]:
    lowest: float = 0
    highest: float = _MAX_INTEGERS.get(kind, 0)
    if kind == "float":
        # Of single precision.
        highest = 3e38
        lowest = -highest
    minimum = value.get("minimum", lowest)
    maximum = value.get("maximum", highest)
    for name, number in (("minimum", minimum), ("maximum", maximum)):
        is_right = _is_number if kind == "float" else untrusted.is_integer
        if not is_right(number) or not lowest <= number <= highest:
            raise ValueError(
                f"{where}.{name}: must be a number from {lowest:g} to "
                f"{highest:g}"
            )
    if minimum > maximum:
        raise ValueError(f"{where}.minimum: is above the maximum")
    return minimum, maximum


def _is_number(value: object) -> typing.TypeGuard[float]:
    if isinstance(value, float):
        return math.isfinite(value)
    return untrusted.is_integer(value)


def _max_items(value: dict[str, typing.Any], where: str) -> int:
    most = value.get("max_items", MAX_ITEMS)
    if not untrusted.is_integer(most) or not 1 <= most <= MAX_ITEMS:
        raise ValueError(
            f"{where}.max_items: must be a whole number from 1 to {MAX_ITEMS}"
        )
    return most


def _choices(value: dict[str, typing.Any], where: str) -> tuple[str, ...]:
    choices = value.get("choices")
    if (
        not isinstance(choices, list)
        or not 0 < len(choices) <= MAX_CHOICES
        or not all(isinstance(choice, str) for choice in choices)
        or len(set(choices)) < len(choices)
    ):
        raise ValueError(
            f"{where}.choices: must be 1 to {MAX_CHOICES} different texts"
        )
    return tuple(choices)


def _lengths(value: dict[str, typing.Any], where: str) -> tuple[int, ...]:
    lengths = value.get("lengths_bytes")
    if (
        not isinstance(lengths, list)
        or not 0 < len(lengths) <= MAX_CHOICES
        or not all(
            untrusted.is_integer(length) and 1 <= length <= MAX_BYTES
            for length in lengths
        )
    ):
        raise ValueError(
            f"{where}.lengths_bytes: must be 1 to {MAX_CHOICES} whole numbers "
            f"from 1 to {MAX_BYTES}"
        )
    return tuple(lengths)
