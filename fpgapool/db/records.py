# SPDX-License-Identifier: Apache-2.0

"""Rows as plain values, whose members have the names of their columns."""

import collections
import dataclasses
import datetime
import enum
import itertools
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Annotated
from typing import Any
from typing import Self
from typing import TypeVar

from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import library
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

# Texts and numbers with the lengths of their columns, in characters and bits.
# Identifiers: 255 characters of up to 4 bytes fit into an InnoDB index.
_Name = Annotated[str, 255]
_Code = Annotated[str, 64]
_Uuid = Annotated[str, 36]
_Word = Annotated[str, 16]
_Small = Annotated[int, 32]


class ComputeState(enum.StrEnum):
    """State of a host's compute node in Nova."""

    #: Nova never had a compute node with that UUID.
    NONE = "none"
    KNOWN = "known"
    #: Nova had such a compute node.
    DELETED = "deleted"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(inventory.HOST.columns)
class HostRecord:
    """A compute node. Times are wall-clock times.

    :param compute_state: the host's state in Nova; a value of a
        :class:`ComputeState`.
    """

    id: int
    last_report_at: float | None = None
    compute_state: _Word = ComputeState.NONE.value


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(inventory.DEVICE.columns)
class DeviceRecord:
    """A board; ``healthy`` is what its driver reports."""

    id: int
    host_id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(inventory.SLOT.columns)
class SlotRecord:
    id: int
    device_id: int
    programming_time_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRecord:
    """The reserved slots of a device."""

    device_id: int
    instances: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FaultRecord:
    """Why a unit is out of service, and how it was tested.

    Times are wall-clock times.

    :param target_id: id of the device or slot; of the host, for an
        accelerator.
    :param accelerator: empty for devices and slots.
    :param shape: shape of the accelerator's slots; empty for any shape, and
        for devices and slots.
    :param active: whether the unit is still out of service.
    :param tries: number of tests since the unit last worked.
    :param next_test_at: time of the next test; in the past while a test runs.
    """

    id: int
    level: _Word
    target_id: int
    accelerator: _Name = ""
    shape: _Name = ""
    active: bool = True
    reason: _Code
    failures: _Small = 0
    since: float
    tests: _Small = 0
    tries: _Small = 0
    last_test: str = ""
    last_test_at: float | None = None
    next_test_at: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorRecord:
    name: _Name
    profile: Mapping[str, Any]


#: The value that marks the row of a bitstream, host or desk for deletion.
DELETED = "deleted"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(library.BITSTREAM.columns)
class BitstreamRecord:
    """A file of the library. Times are wall-clock times.

    :param signature: signature of the checksum in base64; empty if unsigned.
    :param location: the file's location, in the store's own format; empty
        without a file.
    """

    id: int
    user_id: _Name
    public: bool = False
    profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    checksum_sha256: _Code = ""
    size_bytes: int = 0
    signature: str = ""
    signed_by: _Name = ""
    location: _Name = ""
    decided_by: _Name = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(description.FIELDS.columns)
class SessionRecord:
    """A session. ``id`` is the job's id and increases in order of arrival."""

    id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionHead:
    """What decides who may see a session and whether it has changed.

    A whole row has four times as many columns, and takes several times as long
    to read.
    """

    id: int
    session_id: str
    project_id: str
    user_id: str
    state: str
    revision: int
    generation: int
    reason: str
    message: str
    updated_at: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(group.GROUP.columns)
class GroupRecord:
    id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(group.CLIENT.columns)
class GroupClientRecord:
    id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeskRecord:
    """The part of a group desk's counts that has been charged.

    :param boot_id: boot id of the desk's process; :data:`DELETED` if the row
        is to be deleted.
    :param counts: the process's counts by client.
    :param charged_at: time until which the members on the host have been
        charged.
    :param unpaid_s: members' seconds until then that have not been charged;
        negative if tasks have been charged for more.
    """

    id: int
    group_id: _Uuid
    host_id: int
    boot_id: _Name
    counts: Mapping[str, Mapping[str, Any]]
    charged_at: float
    unpaid_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRecord:
    """The assignment of a slot.

    :param holder_kind: the value of a :class:`fpgapool.core.model.HolderKind`.
    :param phase: the value of a :class:`fpgapool.core.model.Phase`.
    :param bitstream_id: id of the bitstream in the slot; None for the driver's
        own implementation.
    """

    slot_id: int
    holder_kind: _Word
    holder_id: int
    accelerator: _Name
    generation: int
    phase: _Word
    local: bool
    assigned_at: float
    bitstream_id: _Uuid | None = None

    @property
    def of_session(self) -> bool:
        return self.holder_kind == states.HELD_BY_SESSION


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(accounting.USAGE.columns)
class UsageRecord:
    """A project's usage of an accelerator on one day.

    A session's slot time and bytes count on the day (UTC) when it releases the
    slot.
    """

    id: int
    project_id: _Name
    accelerator: _Name
    day: datetime.date


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(accounting.USAGE.columns)
class UsageSum:
    """The sum of several rows of usage.

    Day, project and accelerator are None if the rows differ, or may differ,
    in them.
    """

    day: datetime.date | None = None

    @property
    def energy_j_per_sla(self) -> float | None:
        """The energy per deadline met; None if unknown, or if none was met."""
        if self.energy_j is None or not self.sessions_met:
            return None
        return self.energy_j / self.sessions_met


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRecord:
    """How much of a resource a project may use.

    :param hard_limit: -1 means no limit; None means that the default applies.
    """

    id: int
    project_id: _Name
    resource: _Code
    hard_limit: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
@fields.with_members(inventory.INSTANCE.columns)
class InstanceRecord:
    """An instance that has, or had, its own token.

    :param token_nonce: value from which the token is derived, together with a
        secret.
    :param deleted_at: wall-clock time at which Nova reported its deletion.
    """

    id: int
    token_nonce: _Code
    token_hash: _Code
    token_revoked: bool = False
    deleted_at: float | None = None

    @property
    def usable(self) -> bool:
        """Whether its token is valid."""
        return self.deleted_at is None and not self.token_revoked


Record = (
    HostRecord
    | DeviceRecord
    | SlotRecord
    | ReservationRecord
    | FaultRecord
    | AcceleratorRecord
    | BitstreamRecord
    | SessionRecord
    | GroupRecord
    | GroupClientRecord
    | GroupDeskRecord
    | AssignmentRecord
    | UsageRecord
    | QuotaRecord
    | InstanceRecord
)

_R = TypeVar("_R", bound=Record)

#: The primary keys of tables, where they are not ``id``.
KEYS: Mapping[type, str] = {
    AcceleratorRecord: "name",
    AssignmentRecord: "slot_id",
    ReservationRecord: "device_id",
}

#: The members that mark a row for deletion, and the values that do so.
_DELETED_BY: Mapping[type, tuple[str, frozenset[str]]] = {
    BitstreamRecord: ("state", frozenset({DELETED})),
    HostRecord: ("admin_state", frozenset({DELETED})),
    GroupRecord: ("state", frozenset({states.GROUP_DELETED})),
    GroupClientRecord: (
        "state",
        frozenset({states.CLIENT_REVOKED, states.CLIENT_ENDED}),
    ),
    GroupDeskRecord: ("boot_id", frozenset({DELETED})),
}


def is_deleted(record: Record) -> bool:
    """Whether the row of a record is to be deleted."""
    name, values = _DELETED_BY.get(type(record), ("", frozenset()))
    return bool(name) and getattr(record, name) in values


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """Rows to write in one transaction, with the newest value of each row.

    Rows hold absolute values, so that writing them twice changes nothing. Use
    :meth:`of` and :meth:`merged` to create changes.
    """

    _rows: dict[type, dict[int | str, Record]] = dataclasses.field(
        default_factory=dict
    )
    _released: dict[int, None] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls, records: Iterable[Record], released_slots: Iterable[int] = ()
    ) -> Self:
        """Return changes that write these rows.

        :param records: records of any kinds; of several records of one row,
            the last applies.
        :param released_slots: slots whose assignment is deleted before the
            records are written.
        """
        changes = cls()
        changes._add(records, released_slots)
        return changes

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """Return changes with the effect of writing the parts in order."""
        changes = cls()
        for part in parts:
            rows = [r for kind in part._rows.values() for r in kind.values()]
            changes._add(rows, part._released)
        return changes

    def _add(
        self, records: Iterable[Record], released_slots: Iterable[int]
    ) -> None:
        for slot_id in released_slots:
            self._rows.get(AssignmentRecord, {}).pop(slot_id, None)
            self._released[slot_id] = None
        for record in records:
            kind = type(record)
            key = getattr(record, KEYS.get(kind, "id"))
            self._rows.setdefault(kind, {})[key] = record

    def without_sessions(self, ids: Collection[int]) -> Self:
        """Return the changes without these sessions and their assignments."""
        if not ids:
            return self
        rows = [
            record
            for kind in self._rows.values()
            for record in kind.values()
            if not _belongs_to(record, ids)
        ]
        return type(self).of(rows, self._released)

    @property
    def kinds(self) -> Collection[type]:
        """The classes of the records present."""
        return self._rows.keys()

    def rows(self, record_class: type[_R]) -> list[_R]:
        """Return the rows of one kind that are to be written."""
        # _add() files every record under its own class.
        rows: Any = self._rows.get(record_class, {})
        if record_class not in _DELETED_BY:
            return list(rows.values())
        return [row for row in rows.values() if not is_deleted(row)]

    def deleted(self, record_class: type[_R]) -> list[_R]:
        """Return the records of one kind whose rows are to be deleted.

        No other rows refer to them.
        """
        rows: Any = self._rows.get(record_class, {})
        return [row for row in rows.values() if is_deleted(row)]

    @property
    def released_slots(self) -> list[int]:
        """Slots whose assignment is deleted and not written again."""
        given = self._rows.get(AssignmentRecord, {})
        return [slot_id for slot_id in self._released if slot_id not in given]

    @property
    def row_count(self) -> int:
        """The number of rows to write and to delete."""
        return len(self._released) + sum(map(len, self._rows.values()))

    def __bool__(self) -> bool:
        return bool(self._released or any(self._rows.values()))


def _belongs_to(record: Record, ids: Collection[int]) -> bool:
    if isinstance(record, AssignmentRecord):
        return record.of_session and record.holder_id in ids
    return isinstance(record, SessionRecord) and record.id in ids


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The leader's lease.

    :param holder: name of the leading conductor; empty after it has released
        the lease.
    :param epoch: increases whenever a conductor takes the lease.
    :param renewals: increases whenever the holder renews the lease; another
        conductor may take the lease if it is not renewed for its duration.
    :param pool_time_s: last recorded *pool time*, by which the waiting times
        of sessions are measured: seconds counted by the monotonic clocks of
        conductors. None if not recorded yet.
    """

    holder: _Name
    epoch: int
    renewals: int
    pool_time_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state that a conductor needs to take over. Rows are ordered by id.

    :param max_ids: the highest ids in use, by kind of record.
    :param ending_sessions: ended sessions that may still have a slot.
    :param failed_sessions: sessions that ended a short time ago, not by their
        clients: some may continue in other slots, and some front doors do not
        know of the end.
    :param recent_claims: the hosts and claimed bytes of the latest sessions,
        ended or not, in the order of arrival.
    :param usage: rows of the newest day only.
    :param faults: current and past faults.
    :param instances: instances that are not deleted.
    """

    max_ids: collections.Counter[type] = dataclasses.field(
        default_factory=collections.Counter
    )
    hosts: list[HostRecord] = dataclasses.field(default_factory=list)
    devices: list[DeviceRecord] = dataclasses.field(default_factory=list)
    slots: list[SlotRecord] = dataclasses.field(default_factory=list)
    accelerators: list[AcceleratorRecord] = dataclasses.field(
        default_factory=list
    )
    live_sessions: list[SessionRecord] = dataclasses.field(
        default_factory=list
    )
    assignments: list[AssignmentRecord] = dataclasses.field(
        default_factory=list
    )
    ending_sessions: list[SessionRecord] = dataclasses.field(
        default_factory=list
    )
    failed_sessions: list[SessionRecord] = dataclasses.field(
        default_factory=list
    )
    unknown_sessions: list[SessionRecord] = dataclasses.field(
        default_factory=list
    )
    recent_claims: list[tuple[int | None, float]] = dataclasses.field(
        default_factory=list
    )
    usage: list[UsageRecord] = dataclasses.field(default_factory=list)
    quotas: list[QuotaRecord] = dataclasses.field(default_factory=list)
    bitstreams: list[BitstreamRecord] = dataclasses.field(default_factory=list)
    instances: list[InstanceRecord] = dataclasses.field(default_factory=list)
    reservations: list[ReservationRecord] = dataclasses.field(
        default_factory=list
    )
    faults: list[FaultRecord] = dataclasses.field(default_factory=list)
    groups: list[GroupRecord] = dataclasses.field(default_factory=list)
    group_clients: list[GroupClientRecord] = dataclasses.field(
        default_factory=list
    )
    group_desks: list[GroupDeskRecord] = dataclasses.field(
        default_factory=list
    )

    @property
    def latest_at(self) -> float:
        """The newest time in live rows, seconds since the epoch.

        The next leader's clock must not be earlier; 0.0 if there are none.
        """
        arrivals = (session.queued_at for session in self.live_sessions)
        starts = (one.assigned_at for one in self.assignments)
        return max(itertools.chain(arrivals, starts), default=0.0)

    @property
    def latest_arrival_s(self) -> float:
        """The newest arrival of a waiting or served session, in pool time.

        It may be newer than the time that the leader last recorded; 0.0 if
        there is none.
        """
        arrivals = (session.arrival_s for session in self.live_sessions)
        return max((one for one in arrivals if one is not None), default=0.0)

    def moved(self, by_s: float) -> Self:
        """Return the snapshot with its times moved to a new leader's clock.

        :param by_s: the value that :meth:`Database.begin_term` returned.
        """
        deadline = "drain_deadline_at"
        return dataclasses.replace(
            self,
            assignments=_moved(self.assignments, "assigned_at", by_s),
            hosts=_moved(self.hosts, deadline, by_s),
            devices=_moved(self.devices, deadline, by_s),
            faults=_moved(self.faults, "next_test_at", by_s),
            group_desks=_moved(self.group_desks, "charged_at", by_s),
        )


def _moved(rows: Iterable[_R], name: str, by_s: float) -> list[_R]:
    return [
        row
        if (at := getattr(row, name)) is None
        else dataclasses.replace(row, **{name: at + by_s})
        for row in rows
    ]
