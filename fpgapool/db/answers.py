# SPDX-License-Identifier: Apache-2.0

"""Results of queries that combine several tables, and filters for queries."""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.db import calendar
from fpgapool.db import records


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolder:
    """The holder of a slot, with data that the holder's project may see.

    :param phase: see :class:`.records.AssignmentRecord`.
    :param session_id: id of the session; None if a group has the slot.
    :param user_id: user of the session; empty for a group.
    """

    slot_id: int
    accelerator: str
    phase: str
    session_id: str | None
    project_id: str
    user_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionCount:
    """The number of live sessions that have all these values in common."""

    state: str
    project_id: str
    accelerator: str
    host_id: int | None
    sessions: int
    claimed_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProjectUse:
    """What a project uses.

    :param slots: number of slots that its sessions hold, including sessions
        that have ended.
    """

    slots: int
    sessions: list[SessionCount]
    bitstreams: list[records.BitstreamRecord]
    groups: list[records.GroupRecord]
    group_clients: list[records.GroupClientRecord]
    quotas: list[records.QuotaRecord]
    reservations: list[calendar.Reservation] = dataclasses.field(
        default_factory=list
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A live session."""

    id: int
    session_id: str
    state: str
    slot_id: int | None
    generation: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The sessions and groups that wait for slots or hold them.

    Rows are ordered by id.

    :param gone_instances: Nova's ids of some instances that it has deleted.
    """

    lease: records.Lease | None
    sessions: list[SessionState]
    assignments: list[records.AssignmentRecord]
    gone_instances: frozenset[str] = frozenset()
    groups: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UsageGap:
    """What a project's usage of an accelerator lacks of its sessions."""

    project_id: str
    accelerator: str
    sessions: int
    input_bytes: int
    output_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All hardware and its holders. Rows are ordered by id.

    :param projects: the projects of the instances that have reserved slots, if
        known.
    """

    hosts: list[records.HostRecord]
    devices: list[records.DeviceRecord]
    slots: list[records.SlotRecord]
    holders: list[SlotHolder]
    reservations: list[records.ReservationRecord] = dataclasses.field(
        default_factory=list
    )
    faults: list[records.FaultRecord] = dataclasses.field(default_factory=list)
    projects: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to list; None and empty mean any."""

    project_id: str | None = None
    request_id: str | None = None
    user_id: str | None = None
    accelerator: str | None = None
    host_id: int | None = None
    states: Sequence[str] = ()
    #: Only sessions that were changed at this time or later.
    changed_since: float | None = None
