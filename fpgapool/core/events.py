# SPDX-License-Identifier: Apache-2.0

"""Events that change the pool.

An event about an assignment carries its generation. If that is not the slot's
current generation, the event is stale and changes nothing.

Reserved names, not used yet: ``QueueDepth``,
``CacheReport``, ``PowerReport``.
"""

import typing

from fpgapool.core import model
from fpgapool.core import values
from fpgapool.core.sizing import goals
from fpgapool.core.topology import power


class _Event:
    """Base of all events.

    :cvar batch_order: the core applies events of one instant in this order.
    """

    __slots__ = ()

    batch_order: typing.ClassVar[int] = 0


@values.value
class AcceleratorsChanged(_Event):
    """The whole accelerator library, as it is now."""

    accelerators: tuple[model.Accelerator, ...]


@values.value
class HostUp(_Event):
    """A new or changed host, with all its devices and slots.

    It brings all slots up that are not faulty. Idempotent.
    """

    host: model.HostSpec


@values.value
class HostLost(_Event):
    """A host no longer reports."""

    host_id: model.HostId


@values.value
class DeviceFailed(_Event):
    """A board is out of use until :class:`DeviceRestored`."""

    device_id: model.DeviceId
    reason: str


@values.value
class DeviceRestored(_Event):
    """A board may be used again."""

    device_id: model.DeviceId


@values.value
class DeviceEnabled(_Event):
    """A board may be used. This is the default."""

    device_id: model.DeviceId


@values.value
class DeviceDisabled(_Event):
    """The slots of a board get no new jobs until :class:`DeviceEnabled`.

    Holders keep their slots. Like :class:`DrainRequested`, it stays in force
    when the host goes down and comes up again.
    """

    device_id: model.DeviceId


@values.value
class DrainRequested(_Event):
    """Like :class:`DeviceDisabled`; the core reports when it is empty.

    :param deadline_s: when the remaining holders lose their slots; a job that
        has not begun goes back to its place in the queue; None: never.
    """

    device_id: model.DeviceId
    deadline_s: float | None = None


@values.value
class ReservableSlotsChanged(_Event):
    """The number of slots of a board that instances can reserve.

    The core keeps the slots of this number that are not reserved yet: they go
    only to jobs that can move to another slot later.
    """

    device_id: model.DeviceId
    count: int


@values.value
class ReservationsChanged(_Event):
    """All reservations of all instances.

    Only jobs of its instance get a reserved slot.

    :param by_device: for each device, the instances and the number of slots of
        each.
    :param former_slots: the slots that were reserved before a restart, with
        their instances.
    """

    by_device: tuple[
        tuple[model.DeviceId, tuple[tuple[str, int], ...]], ...
    ] = ()
    former_slots: tuple[tuple[model.SlotId, str], ...] = ()


@values.value
class SlotFaulty(_Event):
    """A slot is out of use until :class:`SlotRestored`."""

    slot_id: model.SlotId
    reason: str


@values.value
class SlotRestored(_Event):
    """A slot may be used again."""

    slot_id: model.SlotId


@values.value
class TestRequested(_Event):
    """A slot without a holder is to be tested, in use or not.

    The test has the slot until :class:`SlotReleased` or
    :class:`PrepareFailed`, or until its host is lost.
    """

    slot_id: model.SlotId
    accelerator: str


@values.value
class AcceleratorFaulty(_Event):
    """An accelerator fails in slots of a shape on a host.

    Its jobs avoid these slots while other slots fit them.

    :param shape: empty: any shape.
    """

    host_id: model.HostId
    accelerator: str
    shape: str = ""


@values.value
class AcceleratorRestored(_Event):
    """The same slots may be used for the accelerator again."""

    host_id: model.HostId
    accelerator: str
    shape: str = ""


@values.value
class SessionLimitsChanged(_Event):
    """The slots that a project may have at a time, and its priorities.

    Limits apply only if the strategy shares the pool between projects. A lower
    limit takes no slot away.

    :param default: for projects that are not listed; None: any number.
    :param of_projects: the projects with a limit of their own, and this limit.
    :param default_priority: the highest priority that counts against other
        projects, for projects that are not listed; None: any priority.
    :param priorities: the same of projects with a limit of their own.
    """

    default: int | None = None
    of_projects: tuple[tuple[str, int | None], ...] = ()
    default_priority: int | None = 0
    priorities: tuple[tuple[str, int | None], ...] = ()


@values.value
class PowerCapsChanged(_Event):
    """The caps on the power of slots. By default there are none."""

    caps: power.Caps


@values.value
class JobSubmitted(_Event):
    """A job came; the core ignores an id that it knows already.

    :param paid_bytes: the unused rest of a claim that was charged for an
        earlier job of the same session; None: there was no such claim.
    :param yields: whether it yielded its slot to others: it is queued after
        the pass that serves them.
    """

    batch_order = 1

    job: model.Job
    paid_bytes: float | None = None
    yields: bool = False


@values.value
class JobCancelled(_Event):
    """A job is cancelled, whether it waits or has a slot.

    It may be submitted and cancelled in one instant.
    """

    batch_order = 2

    job_id: model.JobId
    reason: str


@values.value
class AssignmentRestored(_Event):
    """An assignment that was made before a restart.

    The slot's host counts as down until its :class:`HostUp`.

    :param host_id: the slot's host, so that :class:`HostLost` finds the
        assignment before the host was up; None: not known.
    :param device_id: the slot's device, so that a drain waits for the
        assignment; None: not known.
    """

    job: model.Job
    slot_id: model.SlotId
    generation: int
    phase: model.Phase
    host_id: model.HostId | None = None
    device_id: model.DeviceId | None = None


@values.value
class SlotReady(_Event):
    """The slot is programmed and waits for its holder."""

    slot_id: model.SlotId
    generation: int


@values.value
class HolderAttached(_Event):
    """The holder's client is connected."""

    slot_id: model.SlotId
    generation: int


@values.value
class HolderDetached(_Event):
    """The holder's connection is lost; the slot is kept for it."""

    slot_id: model.SlotId
    generation: int


#: The next phase of an assignment. SlotReady and HolderAttached may come late
#: or never.
PHASE_MOVES: typing.Final[dict[type, dict[model.Phase, model.Phase]]] = {
    SlotReady: {model.Phase.PREPARING: model.Phase.READY},
    HolderAttached: {
        model.Phase.PREPARING: model.Phase.ACTIVE,
        model.Phase.READY: model.Phase.ACTIVE,
        model.Phase.DETACHED: model.Phase.ACTIVE,
    },
    HolderDetached: {
        model.Phase.PREPARING: model.Phase.DETACHED,
        model.Phase.READY: model.Phase.DETACHED,
        model.Phase.ACTIVE: model.Phase.DETACHED,
    },
}


@values.value
class Progress(_Event):
    """The progress of a holder; it never causes a scheduling pass."""

    slot_id: model.SlotId
    generation: int
    bytes: int
    bytes_per_s: float


@values.value
class QuantumDone(_Event):
    """The holder has come to a chunk border, where others may get its slot.

    :param bytes: the part of its claim that is computed.
    """

    slot_id: model.SlotId
    generation: int
    bytes: int


@values.value
class JobProgress(_Event):
    """The client of a waiting job has computed a part of it elsewhere.

    :param bytes: the part of its claim that is computed.
    """

    job_id: model.JobId
    bytes: int


@values.value
class ClaimExceeded(_Event):
    """The holder has sent more than it claimed, slack included."""

    slot_id: model.SlotId
    generation: int


@values.value
class SlotReleased(_Event):
    """The holder has given the slot back, or lost it."""

    slot_id: model.SlotId
    generation: int


@values.value
class PrepareFailed(_Event):
    """The slot was not prepared; its job goes back to its place.

    A self-test has failed.
    """

    slot_id: model.SlotId
    generation: int
    reason: str


@values.value
class GroupCreated(_Event):
    """A new group; it gets its slots by ordinary jobs in the queue.

    :class:`~.instructions.RejectGroup` follows if it cannot be.

    :param goal: None: it has none.
    """

    group: model.Group
    goal: goals.Goal | None = None


@values.value
class GroupRestored(_Event):
    """A group from before a restart; it comes before its assignments.

    :param wanted: its size; it stays until tasks are measured again.
    :param goal: how its goal stood; None: it had none.
    """

    group: model.Group
    wanted: int
    goal: goals.State | None = None


@values.value
class GroupChanged(_Event):
    """The owner of a group wants other sizes.

    :class:`~.instructions.RejectGroup` follows if it cannot be.
    """

    group: model.Group


@values.value
class GoalChanged(_Event):
    """A group gets another goal.

    :class:`~.instructions.RejectGroup` follows if it cannot be reached; the
    former goal stays then.

    :param goal: None: it has none any more.
    """

    group_id: model.GroupId
    goal: goals.Goal | None


@values.value
class GroupDeleted(_Event):
    """A group ends: its members leave after their tasks."""

    group_id: model.GroupId


@values.value
class GroupClientsChanged(_Event):
    """The clients of other projects than the owner's.

    :param projects: their projects by their ids, as in :class:`ClientStats`.
    """

    group_id: model.GroupId
    projects: tuple[tuple[str, str], ...]


@values.value
class ClientStats:
    """The tasks of one client of a group, on one host.

    :param client: identifies the client within the group.
    :param ended: tasks that have ended since the last report.
    :param arrived: tasks that have come since the last report.
    :param waiting: tasks that wait in the host's queues now. It counts
        neither running ones nor those that the client still holds back.
    :param busy_s: slot-seconds of the tasks that have ended, and of locks.
    """

    client: str
    ended: int
    arrived: int
    waiting: int
    busy_s: float


@values.value
class TaskStats(_Event):
    """What a group's desk on one host has counted since its last report.

    :param host_id: the desk's host. A desk that has gone is reported once
        more, without clients.
    :param clients: those with tasks; a client that is not there has none.
    :param busy_s: slot-seconds in which members on this host were busy since
        the last report, also with tasks that run still.
    :param busy_members: members on this host that run a task now, or are
        locked.
    """

    group_id: int
    host_id: model.HostId
    clients: tuple[ClientStats, ...]
    busy_s: float
    busy_members: int


@values.value
class Wake(_Event):
    """The time of a :class:`~fpgapool.core.instructions.WakeAt` has come."""


Event: typing.TypeAlias = (
    AcceleratorsChanged
    | HostUp
    | HostLost
    | DeviceFailed
    | DeviceRestored
    | DeviceEnabled
    | DeviceDisabled
    | DrainRequested
    | ReservableSlotsChanged
    | ReservationsChanged
    | SlotFaulty
    | SlotRestored
    | TestRequested
    | AcceleratorFaulty
    | AcceleratorRestored
    | SessionLimitsChanged
    | PowerCapsChanged
    | JobSubmitted
    | JobCancelled
    | AssignmentRestored
    | SlotReady
    | HolderAttached
    | HolderDetached
    | Progress
    | QuantumDone
    | JobProgress
    | ClaimExceeded
    | SlotReleased
    | PrepareFailed
    | GroupCreated
    | GroupRestored
    | GroupChanged
    | GoalChanged
    | GroupDeleted
    | GroupClientsChanged
    | TaskStats
    | Wake
)
