# SPDX-License-Identifier: Apache-2.0

"""A bitstream of the emulator: a small document instead of a netlist.

It names the software core that computes on the host, its fixed parameters, its
speed, and the board resources that it takes. Its author is an untrusted
tenant, so it must be plain JSON of bounded size and depth, may only name
registered cores, and its parameter schema may only use keywords that are cheap
to check.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing

from fpgapool.objects import accelerator
from fpgapool.objects import untrusted
from fpgapool.vocabulary import arrays
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import shapes

FORMAT_VERSION = 1
MAX_SIZE_BYTES = 64 * 1024
MAX_DEPTH = 12
#: Resources that a board offers and a bitstream needs.
RESOURCES = ("lut", "ff", "bram", "dsp")

_MAX_RESOURCE = 10**9
_MAX_PEAK_BYTES_PER_S = 1e15
_MAX_RETURN_RATIO = 1000.0
_MAX_CHUNK_MULTIPLE_BYTES = 1 << 20
_MAX_DESCRIPTION_CHARS = 1000

# No colon is allowed: module:Class would run code that the host's
# administrator never registered.
_NAME = shapes.matching(
    r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
    "a name of up to 64 letters, digits and any of _.-",
)
_RESOURCES = shapes.Members(
    {}, dict.fromkeys(RESOURCES, shapes.integer(0, _MAX_RESOURCE))
)


def _params_schema(value: object, where: str) -> shapes.Object:
    schema = shapes.mapping_of(shapes.anything)(value, where)
    if schema and schema.get("type") != "object":
        raise shapes.Invalid(f"{where}.type", "must be 'object'")
    _check_root(schema)
    return schema


_DOCUMENT = shapes.Members(
    {
        "format_version": shapes.exactly(FORMAT_VERSION),
        "name": _NAME,
        "core": _NAME,
        "peak_bytes_per_s": shapes.number(1.0, _MAX_PEAK_BYTES_PER_S),
    },
    {
        "description": shapes.text(_MAX_DESCRIPTION_CHARS, printable=True),
        "params": shapes.mapping_of(shapes.anything),
        "params_schema": _params_schema,
        "return_ratio": shapes.number(0.0, _MAX_RETURN_RATIO),
        "stateless": shapes.flag,
        "chunk_multiple_bytes": shapes.integer(1, _MAX_CHUNK_MULTIPLE_BYTES),
        "resources": _RESOURCES,
    },
)

_SCHEMA_TYPES = frozenset(
    "array boolean integer null number object string".split()
)
_LENGTH = shapes.integer(0)
#: The keywords allowed in a parameter schema. Other keywords refer to other
#: documents, or may take forever to check.
_SCHEMA_KEYWORDS: dict[str, shapes.Shape[typing.Any]] = {}

Capacities: typing.TypeAlias = collections.abc.Mapping[
    str, collections.abc.Mapping[str, int]
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """A checked document.

    :ivar name: name of the accelerator that it implements, without a project.
    :ivar params_schema: JSON schema of the parameters that a session sets.
    :ivar resources: the amount of each of :data:`RESOURCES` that it takes.
    """

    name: str
    core: str
    peak_bytes_per_s: float
    description: str = ""
    params: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
    params_schema: dict[str, typing.Any] = dataclasses.field(
        default_factory=dict
    )
    return_ratio: float = 1.0
    stateless: bool = False
    chunk_multiple_bytes: int = 1
    resources: dict[str, int] = dataclasses.field(default_factory=dict)

    def profile(
        self, shapes: collections.abc.Iterable[str] = ()
    ) -> accelerator.AcceleratorProfile:
        """Return the profile of its accelerator.

        :param shapes: shapes of the slots that it fits; none means any.
        """
        return accelerator.AcceleratorProfile(
            **_profile(self), shapes=tuple(shapes), platforms={}
        )

    def fits(self, capacity: collections.abc.Mapping[str, int]) -> bool:
        """Whether a slot has room for it.

        :param capacity: the slot's resources; a resource that is not named is
            unlimited.
        """
        return all(
            needed <= capacity.get(resource, _MAX_RESOURCE)
            for resource, needed in self.resources.items()
        )

    def shapes(self, capacities: Capacities) -> tuple[str, ...]:
        """Return the shapes that it fits, smallest first."""

        def size(shape: str) -> tuple[list[int], str]:
            capacity = capacities[shape]
            return [
                capacity.get(resource, _MAX_RESOURCE) for resource in RESOURCES
            ], shape

        return tuple(
            sorted(
                (
                    shape
                    for shape, capacity in capacities.items()
                    if self.fits(capacity)
                ),
                key=size,
            )
        )

    def merged(
        self, params: collections.abc.Mapping[str, typing.Any]
    ) -> dict[str, typing.Any]:
        """Return the core's parameters: those of a session and the fixed ones.

        :raises ValueError: if a session's parameter is fixed; the message does
            not include its value, which may be a key.
        """
        for name in params:
            if name in self.params:
                raise ValueError(f"{name!r:.80} is fixed by the bitstream")
        return {**params, **self.params}


_profile = fields.copier(
    one.name
    for one in dataclasses.fields(Declaration)
    if one.name not in ("params", "resources")
)


def fitting(
    resources: collections.abc.Mapping[str, typing.Any],
    capacities: Capacities,
) -> tuple[str, ...]:
    """Return the shapes that have certain resources, smallest first."""
    needed = _RESOURCES(resources, "resources")
    bare = Declaration(
        name="", core="", peak_bytes_per_s=1.0, resources=needed
    )
    return bare.shapes(capacities)


def parse(data: bytes) -> Declaration:
    """Read and check a document.

    :param data: JSON in UTF-8, at most :data:`MAX_SIZE_BYTES` long.
    :raises ValueError: with the member and the problem.
    """
    document = untrusted.decode(data, "declaration", MAX_SIZE_BYTES, MAX_DEPTH)
    members = _DOCUMENT(document, "")
    del members["format_version"]
    declaration = Declaration(**members)
    for name in declaration.params_schema.get("properties", {}):
        if name in declaration.params:
            raise ValueError(
                f"params_schema: {name!r:.80} is already fixed in params"
            )
    return declaration


def check_params_schema(schema: object) -> None:
    """Check a JSON schema of parameters from an untrusted author.

    :raises ValueError: with the location of the problem.
    """
    untrusted.check_values(schema, "declaration", MAX_DEPTH)
    _check_root(schema)


def _check_root(schema: object) -> None:
    if isinstance(schema, dict) and arrays.KEYWORD in schema:
        try:
            arrays.Form(schema)
        except ValueError as error:
            raise ValueError(f"params_schema.{error}") from None
        schema = {**schema}
        del schema[arrays.KEYWORD]
    _check_schema(schema, "params_schema")


def _check_schema(schema: object, where: str) -> None:
    """Check that a value is a schema with safe keywords only."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise shapes.Invalid(where, "must be an object, true or false")
    for keyword, value in schema.items():
        here = shapes.place(where, keyword)
        if keyword not in _SCHEMA_KEYWORDS:
            raise shapes.Invalid(
                here,
                "keyword not allowed in a declaration; allowed keywords:"
                f" {', '.join(sorted(_SCHEMA_KEYWORDS))}",
            )
        _SCHEMA_KEYWORDS[keyword](value, here)


def _check_type(value: object, where: str) -> None:
    names = value if isinstance(value, list) else [value]
    if not names or not all(
        isinstance(name, str) and name in _SCHEMA_TYPES for name in names
    ):
        raise shapes.Invalid(where, "must be a JSON type or a list of them")


_VALUES = shapes.list_of(shapes.anything, 1)
_SCHEMA_KEYWORDS |= {
    "additionalProperties": _check_schema,
    "const": shapes.anything,
    "default": shapes.anything,
    "description": shapes.text(),
    "enum": _VALUES,
    "examples": _VALUES,
    "items": _check_schema,
    "properties": shapes.mapping_of(_check_schema),
    "required": shapes.list_of(shapes.text(), distinct=True),
    "title": shapes.text(),
    "type": _check_type,
    "uniqueItems": shapes.flag,
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        shapes.number(),
    ),
    **dict.fromkeys(
        (
            *("minItems", "maxItems", "minLength", "maxLength"),
            *("minProperties", "maxProperties"),
        ),
        _LENGTH,
    ),
}
