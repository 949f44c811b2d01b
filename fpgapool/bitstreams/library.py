# SPDX-License-Identifier: Apache-2.0

"""The library's accelerators, derived from the rows of its bitstreams."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

from packaging import version as versions

from fpgapool import objects
from fpgapool.db import api as db_api
from fpgapool.vocabulary import names
from fpgapool.vocabulary import platforms
from fpgapool.vocabulary import shapes

#: States; only approved bitstreams are loaded into slots.
UPLOADING = "uploading"
UNAPPROVED = "unapproved"
APPROVED = "approved"
REJECTED = "rejected"
STATES = (UPLOADING, UNAPPROVED, APPROVED, REJECTED)

#: Visibilities. A shared bitstream is private, but certain other projects may
#: use it.
PRIVATE = "private"
SHARED = "shared"
PUBLIC = "public"
VISIBILITIES = (PRIVATE, SHARED, PUBLIC)

#: Members of a profile, with their defaults.
PROFILE_DEFAULTS: Mapping[str, Any] = {
    "description": "",
    "peak_bytes_per_s": None,
    "return_ratio": 1.0,
    "stateless": False,
    "checkpoint": False,
    "params_schema": {},
    "core": "",
    "chunk_multiple_bytes": 1,
    "platforms": {},
}


def key_of(record: db_api.BitstreamRecord) -> str:
    """Return the key of the accelerator that a bitstream implements."""
    return names.key_of(
        record.accelerator, None if record.public else record.project_id
    )


def visibility_of(record: db_api.BitstreamRecord) -> str:
    if record.public:
        return PUBLIC
    return SHARED if record.projects else PRIVATE


def is_visible(record: db_api.BitstreamRecord, project_id: str | None) -> bool:
    """Whether a project sees a bitstream; only owners see unapproved ones."""
    if record.project_id == project_id:
        return True
    shared = record.public or project_id in record.projects
    return shared and record.state == APPROVED


def fits(record: db_api.BitstreamRecord, shapes: Iterable[str]) -> bool:
    """Whether a bitstream fits a slot of one of these shapes."""
    return not set(record.shapes).isdisjoint(shapes)


def rank(record: db_api.BitstreamRecord) -> tuple[versions.Version, float]:
    """Return a key that is greater for newer bitstreams."""
    return versions.parse(record.version), record.created_at


def check_profile(profile: Mapping[str, Any]) -> None:
    """Raise ValueError, naming the member, if a profile is invalid."""
    _PROFILE(profile, "profile")


_MAX_NUMBER = 1e18
_PROFILE = shapes.Members(
    {},
    {
        "description": shapes.text(),
        "peak_bytes_per_s": shapes.number(1, _MAX_NUMBER),
        "return_ratio": shapes.number(0, _MAX_NUMBER),
        "stateless": shapes.flag,
        "checkpoint": shapes.flag,
        "params_schema": shapes.mapping_of(shapes.anything),
        "core": shapes.text(),
        "chunk_multiple_bytes": shapes.integer(1, 2**22),
        "platforms": platforms.SHAPE,
    },
)

#: Accelerators that slots can run without a file. For each, the parameters of
#: which only some values are supported, and those values.
Builtins: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]

#: Shapes of an accelerator that no slot of the pool can run.
NO_SHAPES = ("-",)


def read_builtins(reported: Mapping[str, Any] | None) -> Builtins | None:
    """Read a device's builtins from a report, ignoring malformed parts."""
    if reported is None:
        return None
    return {
        name: {
            param: frozenset(value for value in values if type(value) is str)
            for param, values in params.items()
            if isinstance(values, list)
        }
        for name, params in reported.items()
        if isinstance(params, dict)
    }


def common(first: Builtins | None, second: Builtins | None) -> Builtins | None:
    """Return what both can run; None is unknown and restricts nothing."""
    if first is None or second is None or first == second:
        return second if first is None else first
    return {
        name: {
            param: first[name].get(param, values)
            & second[name].get(param, values)
            for one in (first, second)
            for param, values in one[name].items()
        }
        for name in first.keys() & second.keys()
    }


def _choices(schema: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the allowed values of each parameter that has a list of them."""
    properties = schema.get("properties")
    return {
        name: frozenset(one["enum"])
        for name, one in (
            properties.items() if isinstance(properties, dict) else ()
        )
        if isinstance(one, dict)
        and isinstance(one.get("enum"), list)
        and one["enum"]
        and all(type(value) is str for value in one["enum"])
    }


def _narrowed(
    schema: dict[str, Any], taken: Mapping[str, frozenset[str]]
) -> dict[str, Any]:
    """Return a schema that allows fewer values of some parameters."""
    properties, required = dict(schema.get("properties", {})), []
    for name, values in taken.items():
        one = dict(properties[name])
        one["enum"] = [value for value in one["enum"] if value in values]
        if "default" in one and one["default"] not in one["enum"]:
            del one["default"]
            required.append(name)
        properties[name] = one
    narrowed = {**schema, "properties": properties}
    if required:
        narrowed["required"] = [*schema.get("required", ()), *required]
    return narrowed


class Library:
    """The accelerators that sessions can use.

    :ivar profiles: profiles of all accelerators, by key; their shapes are
        those of the slots that can run them.
    :ivar builtins: what slots run without a file, by shape; None: unknown.

    :param builtins: see the attribute; empty if the pool's slots are unknown.
    """

    def __init__(
        self,
        accelerators: Iterable[db_api.AcceleratorRecord],
        bitstreams: Iterable[db_api.BitstreamRecord] = (),
        builtins: Mapping[str, Builtins | None] | None = None,
    ) -> None:
        self.builtins = builtins or {}
        self._by_key: dict[str, list[db_api.BitstreamRecord]] = {}
        for record in bitstreams:
            if record.state == APPROVED:
                self._by_key.setdefault(key_of(record), []).append(record)
        for found in self._by_key.values():
            found.sort(key=rank, reverse=True)
        self.profiles = {
            record.name: _with_shapes(builtin_profile(record), found)
            for record in accelerators
            for found in (self._by_key.get(record.name, ()),)
        }
        for key, found in self._by_key.items():
            if key not in self.profiles:
                self.profiles[key] = _own_profile(key, found)
        for key, profile in self.profiles.items():
            self.profiles[key] = self._runnable(key, profile)

    def _runnable(
        self, key: str, profile: objects.AcceleratorProfile
    ) -> objects.AcceleratorProfile:
        """Return a profile limited to what the pool's slots can run.

        The conductor does not know sessions' parameters. If slots of different
        shapes support different values, only the shapes that support the most
        values are kept.
        """
        choices = _choices(profile.params_schema)
        taken = {
            shape: self._taken(key, shape, choices)
            for shape in sorted(profile.shapes or self.builtins)
        }
        if all(each == choices for each in taken.values()):
            return profile
        most = max(
            (each for each in taken.values() if each is not None),
            key=lambda each: sum(map(len, each.values())),
            default=choices,
        )
        shapes = tuple(
            shape
            for shape, each in taken.items()
            if each is not None
            and all(each[name] >= values for name, values in most.items())
        )
        if len(shapes) == len(taken):
            # Empty shapes stay empty, so that slots of new shapes also fit.
            shapes = profile.shapes
        elif not shapes:
            shapes = NO_SHAPES
        return profile.changed(
            shapes=shapes,
            params_schema=_narrowed(profile.params_schema, most),
        )

    def _taken(
        self, key: str, shape: str, choices: Mapping[str, frozenset[str]]
    ) -> dict[str, frozenset[str]] | None:
        """Return the values that slots of a shape support, by parameter.

        :returns: None if these slots cannot run the accelerator.
        """
        builtins = self.builtins.get(shape)
        params: Mapping[str, frozenset[str]] | None = {}
        if builtins is not None and self.choose(key, shape) is None:
            params = builtins.get(key)
        if params is None:
            return None
        found = {
            name: values & params.get(name, values)
            for name, values in choices.items()
        }
        return found if all(found.values()) else None

    def builtins_as_json(self) -> dict[str, Any]:
        """Return ``builtins`` in the form that :func:`read_builtins` reads."""
        return {
            shape: builtins
            and {
                name: {
                    param: sorted(values) for param, values in params.items()
                }
                for name, params in builtins.items()
            }
            for shape, builtins in self.builtins.items()
        }

    def choose(
        self, accelerator_key: str, shape: str
    ) -> objects.BitstreamRef | None:
        """Return the file to load into a slot; None: the driver's own."""
        for record in self._by_key.get(accelerator_key, ()):
            if shape in record.shapes:
                return reference(record)
        return None

    def may_use(self, accelerator_key: str, project_id: str) -> bool:
        profile = self.profiles.get(accelerator_key)
        return profile is not None and profile.is_for(project_id)

    @classmethod
    def load(
        cls,
        database: db_api.Database,
        builtins: Mapping[str, Builtins | None] | None = None,
    ) -> Library:
        """Read the library from a database."""
        return cls(database.accelerators(), database.bitstreams(), builtins)

    def resolve(self, name: str, project_id: str) -> str | None:
        """Return the key of the accelerator that a project means by a name."""
        return names.resolve(
            name, project_id, lambda key: self.may_use(key, project_id)
        )

    def visible(
        self, project_id: str | None
    ) -> dict[str, objects.AcceleratorProfile]:
        """Return the profiles that a project may use, by key."""
        return {
            key: profile
            for key, profile in self.profiles.items()
            if profile.is_for(project_id)
        }


def reference(record: db_api.BitstreamRecord) -> objects.BitstreamRef:
    """Return the reference with which an agent fetches a bitstream."""
    return objects.BitstreamRef(
        bitstream_id=record.bitstream_id,
        checksum_sha256=record.checksum_sha256,
        size_bytes=record.size_bytes,
        format=record.format,
        signature=record.signature,
    )


def builtin_profile(
    record: db_api.AcceleratorRecord,
) -> objects.AcceleratorProfile:
    """Return the profile of an accelerator without a file."""
    known = {**PROFILE_DEFAULTS, "peak_bytes_per_s": 0.0, **record.profile}
    members = {name: known[name] for name in PROFILE_DEFAULTS}
    return objects.AcceleratorProfile(
        name=record.name, shapes=tuple(known.get("shapes", ())), **members
    )


def _with_shapes(
    profile: objects.AcceleratorProfile,
    found: Sequence[db_api.BitstreamRecord],
) -> objects.AcceleratorProfile:
    """Return the profile with the bitstreams' shapes added."""
    # A profile without shapes fits all shapes already.
    if not profile.shapes or not found:
        return profile
    return profile.changed(shapes=_union(found, profile.shapes))


def _own_profile(
    key: str, found: Sequence[db_api.BitstreamRecord]
) -> objects.AcceleratorProfile:
    """Return the profile of an accelerator that only bitstreams implement."""
    members = {**PROFILE_DEFAULTS, **found[0].profile}
    members["return_ratio"] = float(members["return_ratio"])
    members["peak_bytes_per_s"] = float(members["peak_bytes_per_s"])
    owner = names.owner_of(key)
    projects = {project for one in found for project in one.projects}
    return objects.AcceleratorProfile(
        name=key,
        shapes=_union(found),
        projects=() if owner is None else (owner, *sorted(projects)),
        **members,
    )


def _union(
    found: Sequence[db_api.BitstreamRecord], shapes: Iterable[str] = ()
) -> tuple[str, ...]:
    return tuple(sorted({*shapes, *(s for one in found for s in one.shapes)}))
