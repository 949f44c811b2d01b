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

"""Rows as plain values; a member is named like its column."""

import dataclasses
import datetime
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import Self
from typing import TypeVar


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """A compute node. Times are wall clock."""

    id: int
    uuid: str
    name: str
    nic_bytes_per_s: float
    up: bool = False
    last_report_at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """A board.

    :param healthy: what the driver says.
    :param enabled: what the operator says.
    """

    id: int
    host_id: int
    name: str
    model: str
    dma_bytes_per_s: float
    healthy: bool = True
    enabled: bool = True
    fault_reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """A slot of a board."""

    id: int
    device_id: int
    number: int
    shape: str
    programmed: str | None = None
    programming_time_s: float = 0.0
    faulty: bool = False
    fault_reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorRecord:
    """An accelerator of the library.

    :param profile: the members of its profile, as JSON can carry them.
    """

    name: str
    profile: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session. ``id`` is the job's id and grows in order of arrival."""

    id: int
    session_id: str
    request_id: str
    project_id: str
    user_id: str
    host_id: int | None
    accelerator: str
    claimed_bytes: int
    priority: int = 0
    skips: int = 0
    state: str
    reason: str = ""
    message: str = ""
    generation: int = 0
    revision: int = 0
    slot_id: int | None = None
    local: bool | None = None
    wait_timeout_s: float | None = None
    connect_timeout_s: float
    resume_grace_s: float
    queued_at: float
    ready_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    input_bytes: int = 0
    output_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRecord:
    """Who has a slot.

    :param job_id: the ``id`` of the session's record.
    :param phase: the value of a :class:`fpgapool.core.model.Phase`.
    """

    slot_id: int
    job_id: int
    accelerator: str
    generation: int
    phase: str
    local: bool
    assigned_at: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """What a project has used of an accelerator in a day.

    :param day: in UTC. A session's slot and bytes count on the day when it
        gives the slot back.
    :param sessions: that have ended, of those that had a slot.
    :param slot_s: how long its sessions had slots, all together.
    """

    id: int
    project_id: str
    accelerator: str
    day: datetime.date
    sessions: int = 0
    slot_s: float = 0.0
    input_bytes: int = 0
    output_bytes: int = 0


Record = (
    HostRecord
    | DeviceRecord
    | SlotRecord
    | AcceleratorRecord
    | SessionRecord
    | AssignmentRecord
    | UsageRecord
)

_R = TypeVar("_R", bound=Record)


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """Rows to write in one transaction; the newest value of each row.

    Rows hold absolute values, so that writing them twice changes nothing.
    Make them with :meth:`of` and :meth:`merged`.
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

        :param records: of any kinds; of several for one row, the last one
            counts.
        :param released_slots: slots whose assignment is deleted, before the
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
            key = record_key(record)
            self._rows.setdefault(type(record), {})[key] = record

    def without_sessions(self, ids: Collection[int]) -> Self:
        """Return the same changes without these sessions' rows.

        :param ids: of sessions; their assignments are left out, too.
        """
        if not ids:
            return self
        rows = [
            record
            for kind in self._rows.values()
            for record in kind.values()
            if not _belongs_to(record, ids)
        ]
        return type(self).of(rows, self._released)

    def rows(self, record_class: type[_R]) -> list[_R]:
        """Return the rows of one kind that are to be written."""
        # _add() files every record under its own class.
        rows: Any = self._rows.get(record_class, {})
        return list(rows.values())

    @property
    def released_slots(self) -> list[int]:
        """Slots whose assignment is deleted and not written anew."""
        given = self._rows.get(AssignmentRecord, {})
        return [slot_id for slot_id in self._released if slot_id not in given]

    @property
    def row_count(self) -> int:
        """How many rows there are to write and to delete."""
        return len(self._released) + sum(map(len, self._rows.values()))

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._released or any(self._rows.values()))


def _belongs_to(record: Record, ids: Collection[int]) -> bool:
    if isinstance(record, AssignmentRecord):
        return record.job_id in ids
    return isinstance(record, SessionRecord) and record.id in ids


def record_key(record: Record) -> int | str:
    """Return the primary key of a record's row."""
    if isinstance(record, AcceleratorRecord):
        return record.name
    if isinstance(record, AssignmentRecord):
        return record.slot_id
    return record.id


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who leads.

    :param holder: name of the leading conductor; empty if it gave the lease
        back.
    :param epoch: grows whenever the lease is taken.
    :param renewals: grows whenever the lease is renewed; a holder under whom
        it does not grow for the time of the lease is gone.
    """

    holder: str
    epoch: int
    renewals: int


class MaxIds(NamedTuple):
    """The highest ids in use, 0 where there are none."""

    host: int
    device: int
    slot: int
    session: int
    usage: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a conductor needs to take over. Rows are ordered by id.

    :param usage: of the newest day only.
    """

    hosts: list[HostRecord]
    devices: list[DeviceRecord]
    slots: list[SlotRecord]
    accelerators: list[AcceleratorRecord]
    live_sessions: list[SessionRecord]
    assignments: list[AssignmentRecord]
    max_ids: MaxIds
    usage: list[UsageRecord] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolder:
    """Who has a slot, in words that its owner knows.

    :param phase: as that of an :class:`AssignmentRecord`.
    """

    slot_id: int
    accelerator: str
    phase: str
    session_id: str
    project_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All hardware and who has which of it. Rows are ordered by id."""

    hosts: list[HostRecord]
    devices: list[DeviceRecord]
    slots: list[SlotRecord]
    holders: list[SlotHolder]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to list; None and empty mean any."""

    project_id: str | None = None
    request_id: str | None = None
    user_id: str | None = None
    accelerator: str | None = None
    host_id: int | None = None
    states: Sequence[str] = ()
