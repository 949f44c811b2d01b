# SPDX-License-Identifier: Apache-2.0

"""Checks and applies changes to the library."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping

from packaging import version as versions

from fpgapool import objects
from fpgapool.bitstreams import library
from fpgapool.conductor.decisions.requests import admission
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.objects import declaration
from fpgapool.objects import untrusted
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import names
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

_MAX_DEPTH = 32
# As long as the database columns.
_KEY = shapes.text(255)
_VALUES = shapes.Members(
    {
        "bitstream_id": shapes.matching(
            r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", "a UUID"
        ),
        "version": shapes.text(64),
        "format": shapes.one_of(formats.FORMATS),
        "checksum_sha256": shapes.matching(
            r"([0-9a-f]{64})?", "64 hexadecimal digits"
        ),
        "accelerator": shapes.matching(
            r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
            "a name of up to 64 letters, digits and any of _.-",
        ),
    },
    others=True,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LibraryContext:
    """The pool's state, on which a change may depend.

    :ivar max_count: maximum number of a project's bitstreams; None: no limit.
    :ivar max_bytes: maximum total size of these bitstreams; None: no limit.
    """

    now: float
    max_count: int | None = 200
    max_bytes: int | None = None
    capacities: declaration.Capacities = dataclasses.field(
        default_factory=dict
    )
    running: Collection[str] = ()


class Catalogue:
    """All accelerators and bitstreams; checks and applies changes to them."""

    def __init__(
        self,
        accelerators: Iterable[db_api.AcceleratorRecord],
        bitstreams: Iterable[db_api.BitstreamRecord] = (),
        last_id: int = 0,
    ) -> None:
        self._accelerators = tuple(accelerators)
        self._by_id = {one.bitstream_id: one for one in bitstreams}
        self._last_id = last_id
        self.library = library.Library(self._accelerators, self.bitstreams)

    @property
    def bitstreams(self) -> Collection[db_api.BitstreamRecord]:
        """All bitstreams, of any state."""
        return self._by_id.values()

    @property
    def profiles(self) -> Mapping[str, objects.AcceleratorProfile]:
        return self.library.profiles

    def is_stateless(self, accelerator: str) -> bool:
        """Whether an accelerator keeps no state, according to its profile."""
        profile = self.profiles.get(accelerator)
        return profile is not None and profile.stateless

    def set_builtins(
        self, builtins: Mapping[str, library.Builtins | None]
    ) -> bool:
        """Update built-in accelerators; return whether a profile changed."""
        before = self.library
        if builtins != before.builtins:
            self.library = library.Library(
                self._accelerators, self.bitstreams, builtins
            )
        return self.library.profiles != before.profiles

    def set_accelerators(
        self, accelerators: Iterable[db_api.AcceleratorRecord]
    ) -> None:
        """Replace the accelerators that do not need a file."""
        self._accelerators = tuple(accelerators)
        self._build()

    def reference(
        self, bitstream_id: str | None
    ) -> objects.BitstreamRef | None:
        """Return a reference for agents; None if the bitstream is unknown."""
        record = self._by_id.get(bitstream_id or "")
        return None if record is None else library.reference(record)

    def is_outdated(
        self, programmed: str | None, bitstream_id: str | None, shape: str
    ) -> bool:
        """Whether the library has a newer bitstream than the one in a slot."""
        if programmed is None:
            return False
        chosen = self.library.choose(programmed, shape)
        return bitstream_id != (chosen.bitstream_id if chosen else None)

    def resolve(
        self, name: str, project_id: str
    ) -> tuple[Mapping[str, objects.AcceleratorProfile], str]:
        """Find the accelerator that a project refers to by name.

        :returns: all profiles, and the accelerator's key in them; if the name
            is unknown, the profiles that the project may use, and the name.
        """
        key = self.library.resolve(name, project_id)
        if key is None:
            return self.library.visible(project_id), name
        return self.library.profiles, key

    def project_of(self, change: bitstream.BitstreamChange) -> str:
        """Return the project that owns the bitstream of a change."""
        if isinstance(change, objects.CreateBitstream):
            return change.project_id
        return self._find(change.bitstream_id).project_id

    def apply(
        self, change: bitstream.BitstreamChange, context: LibraryContext
    ) -> db_api.BitstreamRecord | None:
        """Change the library.

        :returns: the row to write; None if nothing changes.
        :raises Rejected: if the change is not allowed.
        """
        if isinstance(change, objects.CreateBitstream):
            return self._create(change, context)
        old = self._find(change.bitstream_id)
        new = self._changed(old, change, context)
        if new == old:
            return None
        new = dataclasses.replace(new, updated_at=context.now)
        if new.state != db_api.DELETED:
            _check_row(new)
        self._put(new)
        return new

    def _changed(
        self,
        old: db_api.BitstreamRecord,
        change: bitstream.BitstreamChange,
        context: LibraryContext,
    ) -> db_api.BitstreamRecord:
        match change:
            case objects.UploadBitstream():
                return self._uploaded(old, change, context)
            case objects.UpdateBitstream():
                return self._updated(old, change, context)
            case objects.DecideBitstream(approve=True):
                return self._approved(old, change, context)
            case objects.DecideBitstream():
                return _rejected(old, change, context)
            case objects.ShareBitstream():
                return _shared(old, change)
            case objects.DeleteBitstream():
                self._check_unused(old, context)
                return dataclasses.replace(old, state=db_api.DELETED)
        raise TypeError(f"unknown change: {change}")

    def _create(
        self, change: objects.CreateBitstream, context: LibraryContext
    ) -> db_api.BitstreamRecord | None:
        if change.bitstream_id in self._by_id:
            return None
        own = self._of_project(change.project_id)
        admission.check_quota(
            change.project_id, "bitstreams", context.max_count, len(own), 1
        )
        self._last_id += 1
        record = db_api.BitstreamRecord(
            id=self._last_id,
            state=library.UPLOADING,
            created_at=context.now,
            updated_at=context.now,
            projects=[],
            **{
                field.name: getattr(change, field.name)
                for field in dataclasses.fields(change)
            }
            | {"shapes": list(change.shapes)},
        )
        _check_row(record)
        _check_word(change.shapes, context.capacities)
        if change.format == formats.BINARY:
            self._check_profile(record)
        self._put(record)
        return record

    def _uploaded(
        self,
        old: db_api.BitstreamRecord,
        change: objects.UploadBitstream,
        context: LibraryContext,
    ) -> db_api.BitstreamRecord:
        if old.state != library.UPLOADING:
            raise admission.Rejected(
                codes.BITSTREAM_HAS_FILE, "the bitstream already has a file"
            )
        used = sum(one.size_bytes for one in self._of_project(old.project_id))
        admission.check_quota(
            old.project_id,
            "bytes of bitstreams",
            context.max_bytes,
            used,
            change.size_bytes,
        )
        new = dataclasses.replace(
            old,
            state=library.UNAPPROVED,
            checksum_sha256=change.checksum_sha256,
            size_bytes=change.size_bytes,
            location=change.location,
            signed_by=change.signed_by,
            shapes=_fitting(change, context.capacities),
            profile=change.profile,
            uploaded_at=context.now,
        )
        self._check_profile(new)
        return new

    def _updated(
        self,
        old: db_api.BitstreamRecord,
        change: objects.UpdateBitstream,
        context: LibraryContext,
    ) -> db_api.BitstreamRecord:
        wanted = {
            name: value
            for name in ("name", "description", "public")
            if (value := getattr(change, name)) is not None
        }
        new = dataclasses.replace(old, **wanted)
        if change.public is False:
            # A private bitstream is not shared with other projects.
            new = dataclasses.replace(new, projects=[])
        if new.public != old.public:
            # Private and public accelerators with one name are different.
            self._check_unused(old, context)
            if new.state != library.UPLOADING or new.profile:
                self._check_profile(new)
        return new

    def _approved(
        self,
        old: db_api.BitstreamRecord,
        change: objects.DecideBitstream,
        context: LibraryContext,
    ) -> db_api.BitstreamRecord:
        if old.state == library.UPLOADING:
            raise admission.Rejected(
                codes.BITSTREAM_HAS_NO_FILE,
                "the bitstream has no file yet; upload it before approving",
            )
        if not change.force and not library.fits(old, context.capacities):
            raise admission.Rejected(
                codes.NO_COMPATIBLE_SLOT,
                "no slot of this pool has a shape that the bitstream fits:"
                f" {', '.join(old.shapes)}; {_shapes_of(context.capacities)}",
            )
        # The accelerator that completes its profile may have been removed.
        self._check_profile(old)
        if old.state == library.APPROVED:
            return old
        return dataclasses.replace(
            old,
            state=library.APPROVED,
            signed_by=change.signed_by,
            reason=change.reason,
            decided_by=change.user_id,
            decided_at=context.now,
        )

    # -- checks ------------------------------------------------------------

    def _check_profile(self, record: db_api.BitstreamRecord) -> None:
        """Check that a new accelerator's bitstream has a full profile."""
        if record.public and any(
            one.name == record.accelerator for one in self._accelerators
        ):
            return
        if record.profile.get("peak_bytes_per_s") is None:
            raise admission.Rejected(
                codes.INVALID_REQUEST,
                f"accelerator {record.accelerator} is new, so the bitstream's"
                " profile must include peak_bytes_per_s",
            )

    def _check_unused(
        self, record: db_api.BitstreamRecord, context: LibraryContext
    ) -> None:
        if record.bitstream_id in context.running:
            raise admission.Rejected(
                codes.BITSTREAM_IN_USE,
                "a session or group is using the bitstream",
            )

    def _find(self, bitstream_id: str) -> db_api.BitstreamRecord:
        record = self._by_id.get(bitstream_id)
        if record is None:
            raise admission.Rejected(
                codes.BITSTREAM_NOT_FOUND,
                f"bitstream {bitstream_id!r:.80} not found",
            )
        return record

    def _of_project(self, project_id: str) -> list[db_api.BitstreamRecord]:
        return [one for one in self.bitstreams if one.project_id == project_id]

    def _put(self, record: db_api.BitstreamRecord) -> None:
        old = self._by_id.get(record.bitstream_id)
        if record.state == db_api.DELETED:
            del self._by_id[record.bitstream_id]
        else:
            self._by_id[record.bitstream_id] = record
        # Do not rebuild the library for unapproved bitstreams: it does not
        # contain them, and projects change them often.
        states = {record.state, old.state if old else ""}
        if library.APPROVED in states:
            self._build()

    def _build(self) -> None:
        self.library = library.Library(
            self._accelerators, self.bitstreams, self.library.builtins
        )


def _check_word(
    wanted: Collection[str], capacities: declaration.Capacities
) -> None:
    """Refuse ``any`` where no slot is called so: it does not mean all shapes.

    Other unknown shapes may be those of boards that are yet to come.
    """
    shape = names.DEFAULT_SHAPE
    if shape in wanted and capacities and shape not in capacities:
        raise admission.Rejected(
            codes.NO_COMPATIBLE_SLOT,
            f"the shape {shape!r} does not mean all shapes;"
            f" {_shapes_of(capacities)}",
        )


def _shapes_of(capacities: declaration.Capacities) -> str:
    return f"the pool's shapes are {', '.join(sorted(capacities)) or 'none'}"


def _fitting(
    change: objects.UploadBitstream, capacities: declaration.Capacities
) -> list[str]:
    """Return the slot shapes that a file fits.

    :raises Rejected: if there are none, or if a slot of a shape that the owner
        named has too few resources.
    """
    if change.resources:
        try:
            room = declaration.fitting(change.resources, capacities)
        except ValueError as error:
            raise admission.Rejected(
                codes.INVALID_DECLARATION, str(error)
            ) from error
        for shape in change.shapes:
            if shape in capacities and shape not in room:
                raise admission.Rejected(
                    codes.INVALID_DECLARATION,
                    "the bitstream needs more resources than a slot of"
                    f" shape {shape} has",
                )
        if not change.shapes and room:
            return list(room)
    if not change.shapes:
        raise admission.Rejected(
            codes.INVALID_REQUEST,
            "specify at least one slot shape that the bitstream fits",
        )
    return list(change.shapes)


def _rejected(
    old: db_api.BitstreamRecord,
    change: objects.DecideBitstream,
    context: LibraryContext,
) -> db_api.BitstreamRecord:
    if old.state == library.UPLOADING:
        raise admission.Rejected(
            codes.BITSTREAM_HAS_NO_FILE,
            "the bitstream has no file yet, so it cannot be rejected; delete"
            " it instead",
        )
    return dataclasses.replace(
        old,
        state=library.REJECTED,
        reason=change.reason,
        decided_by=change.user_id,
        decided_at=context.now,
    )


def _shared(
    old: db_api.BitstreamRecord, change: objects.ShareBitstream
) -> db_api.BitstreamRecord:
    projects = {*old.projects} - {change.project_id}
    if change.shared and change.project_id != old.project_id:
        projects.add(change.project_id)
    if len(projects) > rules.MAX_PROJECTS:
        raise admission.Rejected(
            codes.QUOTA_EXCEEDED,
            "a bitstream can be shared with at most"
            f" {rules.MAX_PROJECTS} projects",
        )
    return dataclasses.replace(old, projects=sorted(projects))


def _check_row(record: db_api.BitstreamRecord) -> None:
    """Reject values that the library or the database would not accept; such a
    row would block all later rows.
    """
    values = dataclasses.asdict(record)
    try:
        untrusted.check_values(values, "bitstream", _MAX_DEPTH)
        _VALUES(values, "")
        versions.parse(record.version)
        _KEY(library.key_of(record), "accelerator and project_id")
        library.check_profile(record.profile)
    except ValueError as error:
        raise admission.Rejected(codes.INVALID_REQUEST, str(error)) from error
