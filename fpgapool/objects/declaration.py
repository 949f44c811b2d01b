# SPDX-License-Identifier: Apache-2.0

"""A bitstream of the emulator: a small document instead of a netlist.

It names the software core of the host that computes, its fixed parameters,
its speed, and the resources that it takes of a board. A tenant writes it, so
nothing in it is trusted: it is plain JSON of bounded size and depth, names
cores by their registered names only, and its schema of parameters may only
have keywords that cost nothing to check.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import typing

from fpgapool.objects import accelerator
from fpgapool.objects import untrusted
from fpgapool.vocabulary import arrays

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

# Without a colon: module:Class would run code that the host's
# administrator never named.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_REQUIRED = ("format_version", "name", "core", "peak_bytes_per_s")
_OPTIONAL = (
    "description",
    "params",
    "params_schema",
    "return_ratio",
    "stateless",
    "chunk_multiple_bytes",
    "resources",
)

_SCHEMA_TYPES = frozenset(
    "array boolean integer null number object string".split()
)
#: Other keywords lead to other documents, or can take for ever to check.
_SCHEMA_KEYWORDS = frozenset(
    "additionalProperties const default description enum examples"
    " exclusiveMaximum exclusiveMinimum items maxItems maxLength"
    " maxProperties maximum minItems minLength minProperties minimum"
    " properties required title type uniqueItems".split()
)

Capacities: typing.TypeAlias = collections.abc.Mapping[
    str, collections.abc.Mapping[str, int]
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """A checked document.

    :ivar name: of the accelerator that it implements, without a project.
    :ivar core: registered name of the software core.
    :ivar params: parameters that every session of it has.
    :ivar params_schema: JSON schema of the parameters that are left to a
        session.
    :ivar peak_bytes_per_s: the highest input rate of one slot.
    :ivar return_ratio: output bytes per input byte, about.
    :ivar stateless: whether a session can continue in another slot.
    :ivar chunk_multiple_bytes: every chunk but the last is a multiple of it.
    :ivar resources: how many of each of :data:`RESOURCES` it takes.
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

        :param shapes: the slots that it fits; none means any.
        """
        return accelerator.AcceleratorProfile(
            name=self.name,
            description=self.description,
            peak_bytes_per_s=self.peak_bytes_per_s,
            return_ratio=self.return_ratio,
            stateless=self.stateless,
            shapes=tuple(shapes),
            params_schema=self.params_schema,
            core=self.core,
            chunk_multiple_bytes=self.chunk_multiple_bytes,
            platforms={},
        )

    def fits(self, capacity: collections.abc.Mapping[str, int]) -> bool:
        """Whether a slot has room for it.

        :param capacity: of the slot; a resource that is not named is
            unlimited.
        """
        return all(
            needed <= capacity.get(resource, _MAX_RESOURCE)
            for resource, needed in self.resources.items()
        )

    def shapes(self, capacities: Capacities) -> tuple[str, ...]:
        """Return the shapes that it fits, smallest first.

        :param capacities: of the slots of each shape.
        """

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
        """Return the core's parameters: a session's and the fixed ones.

        :param params: the session's.
        :raises ValueError: if one of them is fixed; the message leaves out
            its value, which may be a key.
        """
        for name in params:
            if name in self.params:
                raise ValueError(f"{name!r:.80} is fixed by the bitstream")
        return {**params, **self.params}


def fitting(
    resources: collections.abc.Mapping[str, typing.Any],
    capacities: Capacities,
) -> tuple[str, ...]:
    """Return the shapes that have certain resources, smallest first.

    :param resources: as a declaration has them.
    :param capacities: of the slots of each shape.
    :raises ValueError: if the resources are invalid.
    """
    needed = _resources({"resources": dict(resources)})
    bare = Declaration(
        name="", core="", peak_bytes_per_s=1.0, resources=needed
    )
    return bare.shapes(capacities)


def parse(data: bytes) -> Declaration:
    """Read and check a document.

    :param data: JSON, UTF-8, of :data:`MAX_SIZE_BYTES` at most.
    :returns: the declaration.
    :raises ValueError: with the member and the fault.
    """
    document = untrusted.decode(data, "declaration", MAX_SIZE_BYTES, MAX_DEPTH)
    if not isinstance(document, dict):
        raise ValueError("declaration: must be an object")
    _check_members(document)
    version = document["format_version"]
    if not untrusted.is_integer(version) or version != FORMAT_VERSION:
        raise ValueError(f"format_version: must be {FORMAT_VERSION}")
    declaration = Declaration(
        name=_name(document, "name"),
        core=_name(document, "core"),
        description=_description(document),
        params=_object(document, "params"),
        params_schema=_params_schema(document),
        peak_bytes_per_s=_peak_bytes_per_s(document),
        return_ratio=_number(
            document, "return_ratio", 1.0, 0.0, _MAX_RETURN_RATIO
        ),
        stateless=_flag(document, "stateless"),
        chunk_multiple_bytes=_integer(
            document, "chunk_multiple_bytes", 1, 1, _MAX_CHUNK_MULTIPLE_BYTES
        ),
        resources=_resources(document),
    )
    for name in declaration.params_schema.get("properties", {}):
        if name in declaration.params:
            raise ValueError(
                f"params_schema: {name!r:.80} is fixed in params already"
            )
    return declaration


def _check_members(document: dict[str, typing.Any]) -> None:
    known = (*_REQUIRED, *_OPTIONAL)
    for member in document:
        if member not in known:
            raise ValueError(
                f"declaration: unknown member {member!r:.80}; "
                f"there are: {', '.join(known)}"
            )
    for member in _REQUIRED:
        if member not in document:
            raise ValueError(f"{member}: is missing")


def _name(document: dict[str, typing.Any], member: str) -> str:
    value = document[member]
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            f"{member}: must be a name of up to 64 letters, digits and any "
            "of _.-"
        )
    return value


def _description(document: dict[str, typing.Any]) -> str:
    value = document.get("description", "")
    if not isinstance(value, str) or len(value) > _MAX_DESCRIPTION_CHARS:
        raise ValueError(
            "description: must be a text of up to "
            f"{_MAX_DESCRIPTION_CHARS} characters"
        )
    if not value.isprintable():
        raise ValueError("description: must be one printable line")
    return value


def _object(
    document: dict[str, typing.Any], member: str
) -> dict[str, typing.Any]:
    value = document.get(member, {})
    if not isinstance(value, dict):
        raise ValueError(f"{member}: must be an object")
    return value


def _integer(
    document: dict[str, typing.Any],
    member: str,
    default: int,
    lowest: int,
    highest: int,
) -> int:
    value = document.get(member, default)
    if not untrusted.is_integer(value) or not lowest <= value <= highest:
        raise ValueError(
            f"{member}: must be a whole number from {lowest} to {highest}"
        )
    return value


def _number(
    document: dict[str, typing.Any],
    member: str,
    default: float,
    lowest: float,
    highest: float,
) -> float:
    value = document.get(member, default)
    if not (
        (untrusted.is_integer(value) or isinstance(value, float))
        and lowest <= value <= highest
    ):
        raise ValueError(
            f"{member}: must be a number from {lowest:g} to {highest:g}"
        )
    return float(value)


def _peak_bytes_per_s(document: dict[str, typing.Any]) -> float:
    return _number(
        document, "peak_bytes_per_s", 1.0, 1.0, _MAX_PEAK_BYTES_PER_S
    )


def _flag(document: dict[str, typing.Any], member: str) -> bool:
    value = document.get(member, False)
    if not isinstance(value, bool):
        raise ValueError(f"{member}: must be true or false")
    return value


def _resources(document: dict[str, typing.Any]) -> dict[str, int]:
    resources = _object(document, "resources")
    for name in resources:
        if name not in RESOURCES:
            raise ValueError(
                f"resources: unknown member {name!r:.80}; "
                f"there are: {', '.join(RESOURCES)}"
            )
        try:
            _integer(resources, name, 0, 0, _MAX_RESOURCE)
        except ValueError as error:
            raise ValueError(f"resources.{error}") from None
    return resources


def check_params_schema(schema: object) -> None:
    """Check a JSON schema of parameters from an untrusted author.

    :raises ValueError: with the place of the fault.
    """
    untrusted.check_values(schema, "declaration", MAX_DEPTH)
    _check_root(schema)


def _params_schema(document: dict[str, typing.Any]) -> dict[str, typing.Any]:
    schema = _object(document, "params_schema")
    if schema and schema.get("type") != "object":
        raise ValueError("params_schema.type: must be 'object'")
    _check_root(schema)
    return schema


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
        raise ValueError(f"{where}: must be an object, true or false")
    for keyword, value in schema.items():
        here = f"{where}.{keyword:.80}"
        if keyword not in _SCHEMA_KEYWORDS:
            raise ValueError(
                f"{here}: not a keyword that a declaration may have; "
                f"there are: {', '.join(sorted(_SCHEMA_KEYWORDS))}"
            )
        _check_keyword(keyword, value, here)


def _check_keyword(keyword: str, value: object, here: str) -> None:
    match keyword:
        case "properties":
            if not isinstance(value, dict):
                raise ValueError(f"{here}: must be an object")
            for name, schema in value.items():
                _check_schema(schema, f"{here}.{name:.80}")
        case "items" | "additionalProperties":
            _check_schema(value, here)
        case "type":
            _require(_is_type(value), here, "must name a type of JSON")
        case "enum" | "examples":
            _require(
                isinstance(value, list) and bool(value),
                here,
                "must be a list of values",
            )
        case "required":
            _require(
                isinstance(value, list)
                and all(isinstance(name, str) for name in value)
                and len(set(value)) == len(value),
                here,
                "must be a list of different names",
            )
        case "title" | "description":
            _require(isinstance(value, str), here, "must be a text")
        case "uniqueItems":
            _require(isinstance(value, bool), here, "must be true or false")
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            _require(
                untrusted.is_integer(value) or isinstance(value, float),
                here,
                "must be a number",
            )
        case _ if keyword.startswith(("min", "max")):
            _require(
                untrusted.is_integer(value) and value >= 0,
                here,
                "must be a whole number from 0",
            )


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(
        isinstance(name, str) and name in _SCHEMA_TYPES for name in names
    )


def _require(holds: bool, here: str, what: str) -> None:
    if not holds:
        raise ValueError(f"{here}: {what}")
