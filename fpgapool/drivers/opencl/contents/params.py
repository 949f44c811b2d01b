# SPDX-License-Identifier: Apache-2.0

"""Parameters in a manifest: their types, and the values from sessions."""

from __future__ import annotations

import collections.abc
import dataclasses
import struct
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.accelerators import parameters
from fpgapool.vocabulary import shapes

_T = typing.TypeVar("_T")
MAX_BYTES = 4096
MAX_ITEMS = 256
MAX_CHOICES = 32

_UINT_MAX = 2**32 - 1
_MAX_INTEGERS = {"uint": _UINT_MAX, "ulong": 2**63 - 1, "uints": _UINT_MAX}
_SINGLE = 3e38
_CHOICES = shapes.list_of(shapes.text(), 1, MAX_CHOICES, distinct=True)
_LENGTHS_BYTES = shapes.list_of(shapes.integer(1, MAX_BYTES), 1, MAX_CHOICES)
_MAX_ITEMS = shapes.integer(1, MAX_ITEMS)
#: Members of each type of parameter, in addition to type and default.
MEMBERS: dict[str, tuple[str, ...]] = {
    "uint": ("minimum", "maximum"),
    "ulong": ("minimum", "maximum"),
    "uints": ("minimum", "maximum", "max_items"),
    "float": ("minimum", "maximum"),
    "flag": (),
    "choice": ("choices",),
    "bytes": ("lengths_bytes",),
}
#: In expressions, a parameter's length has its name with this suffix.
_LENGTHS = {"bytes": "_bytes", "uints": "_count"}


@dataclasses.dataclass(frozen=True, slots=True)
class Param:
    """A session parameter.

    :ivar kind: ``uint``, ``ulong``, ``float``, ``flag``, ``choice``,
        ``bytes`` (in hexadecimal) or ``uints`` (a list).
    :ivar choices: allowed values of a ``choice``.
    :ivar lengths_bytes: allowed lengths of ``bytes``.
    :ivar default: value if the session sets none; None: it must set one.
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
        """Whether kernels receive it in device memory."""
        return self.kind in _LENGTHS

    def variable(self, name: str) -> str | None:
        """Return its name in expressions; None: they cannot use it."""
        if self.kind == "float":
            return None
        return name + _LENGTHS.get(self.kind, "")

    def number(self, value: typing.Any) -> int:
        """Return its value in expressions."""
        if self.kind == "choice":
            return self.choices.index(value)
        return len(value) if self.is_buffer else int(value)

    def contents(self, value: typing.Any) -> bytes:
        """Return its contents in device memory, from a value of read()."""
        if self.kind == "uints":
            return struct.pack(f"<{len(value)}I", *value)
        return bytes(value)

    def schema(self) -> dict[str, typing.Any]:
        """Return a JSON schema that accepts all valid values."""
        limits = {"minimum": self.minimum, "maximum": self.maximum}
        schema: dict[str, typing.Any]
        match self.kind:
            case "flag":
                schema = {"type": "boolean"}
            case "choice":
                schema = {"type": "string", "enum": [*self.choices]}
            case "bytes":
                # Two hexadecimal digits per byte.
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
        """Check a session's value, or raise InvalidParams."""
        given = {name: value}
        match self.kind:
            case "flag":
                return parameters.flag(given, name)
            case "choice":
                return parameters.choice(given, name, self.choices)
            case "bytes":
                return parameters.hex_bytes(given, name, self.lengths_bytes)
            case "float":
                return parameters.shaped(
                    shapes.number(self.minimum, self.maximum), value, name
                )
            case "uints":
                each = shapes.integer(int(self.minimum), int(self.maximum))
                return parameters.shaped(
                    shapes.list_of(each, 0, self.max_items), value, name
                )
        return parameters.integer(
            given, name, int(self.minimum), int(self.maximum)
        )


def read(
    params: collections.abc.Mapping[str, Param],
    values: collections.abc.Mapping[str, object],
) -> dict[str, typing.Any]:
    """Check a session's values, or raise InvalidParams."""
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
    """Check a parameter in a manifest, or raise ValueError."""
    document = shapes.mapping_of(shapes.anything)(value, where)
    kind = shapes.one_of(MEMBERS)(document.get("type"), f"{where}.type")
    shapes.members(document, where, ("type",), ("default", *MEMBERS[kind]))
    param = _param(kind, document, where)
    if param.default is not None:
        try:
            param.read(param.default, "default")
        except accelerators.InvalidParams as error:
            raise ValueError(f"{where}: {error.message}") from None
    return param


def _param(kind: str, value: shapes.Object, where: str) -> Param:
    def read(name: str, shape: shapes.Shape[_T], default: object) -> _T:
        return shape(value.get(name, default), f"{where}.{name}")

    lowest: float = -_SINGLE if kind == "float" else 0
    highest = _SINGLE if kind == "float" else _MAX_INTEGERS.get(kind, 0)
    bound = (shapes.number if kind == "float" else shapes.integer)(
        lowest,  # type: ignore[arg-type]
        highest,  # type: ignore[arg-type]
    )
    minimum: float = read("minimum", bound, lowest)
    maximum: float = read("maximum", bound, highest)
    if minimum > maximum:
        raise ValueError(f"{where}.minimum: must not exceed the maximum")
    choices: list[str] = []
    lengths_bytes: list[int] = []
    if kind == "choice":
        choices = read("choices", _CHOICES, None)
    if kind == "bytes":
        lengths_bytes = read("lengths_bytes", _LENGTHS_BYTES, None)
    return Param(
        kind,
        minimum,
        maximum,
        max_items=read("max_items", _MAX_ITEMS, MAX_ITEMS)
        if kind == "uints"
        else 0,
        choices=tuple(choices),
        lengths_bytes=tuple(lengths_bytes),
        default=value.get("default"),
    )
