# SPDX-License-Identifier: Apache-2.0

"""Events that change the pool.

An event about an assignment carries its generation. If that is not the slot's
current generation, the event is stale and changes nothing.
"""

import typing

from fpgapool.core import model
from fpgapool.core.queues import share_tree
from fpgapool.core.sizing import goals


class Event:
    """Base of all events.

    :cvar batch_order: the core applies simultaneous events in this order.
    """

    __slots__ = ()

    batch_order: typing.ClassVar[int] = 0


@model.value
class DeviceEvent(Event):
    """Base of the events of a board."""

    device_id: model.DeviceId


@model.value
class HolderEvent(Event):
    """Base of the events of an assignment."""

    slot_id: model.SlotId
    generation: int


@model.value
class AcceleratorsChanged(Event):
    """The whole accelerator library, as it is now."""

    accelerators: tuple[model.Accelerator, ...]


@model.value
class HostUp(Event):
    """A new or changed host, with all its devices and slots.

    It brings up all slots that are not faulty, and is idempotent.
    """

    host: model.HostSpec


@model.value
class HostLost(Event):
    """A host no longer reports."""

    host_id: model.HostId


@model.value
class DeviceFailed(DeviceEvent):
    """A board is out of use until :class:`DeviceRestored`."""

    reason: str


@model.value
class DeviceRestored(DeviceEvent):
    """A board may be used again."""


@model.value
class DeviceEnabled(DeviceEvent):
    """A board may be used. This is the default."""


@model.value
class DeviceDisabled(DeviceEvent):
    """The slots of a board get no new jobs until :class:`DeviceEnabled`.

    Holders keep their slots. Like :class:`DrainRequested`, it stays in force
    when the host goes down and comes up again.
    """


@model.value
class DrainRequested(DeviceEvent):
    """Like :class:`DeviceDisabled`; the core also reports an empty board.

    :param deadline_s: when the remaining holders lose their slots; None:
        never. A job that has not begun then returns to its place in the queue.
    """

    deadline_s: float | None = None


@model.value
class ReservableSlotsChanged(DeviceEvent):
    """The number of slots of a board that instances can reserve.

    The core holds back this many slots, minus those already reserved: only
    jobs that can move to another slot later may use them.
    """

    count: int


@model.value
class ReservationsChanged(Event):
    """All reservations of all instances.

    A reserved slot goes only to jobs of its instance.
    """

    by_device: tuple[
        tuple[model.DeviceId, tuple[tuple[str, int], ...]], ...
    ] = ()
    former_slots: tuple[tuple[model.SlotId, str], ...] = ()


@model.value
class CalendarChanged(Event):
    """The slots that are reserved by calendar, now and soon.

    :param owners: the owner of each slot that is reserved now; see
        :func:`fpgapool.core.calendar.promises.owner_of`. No other job keeps
        it.
    :param until_s: the next time at which each slot is reserved: until then,
        only jobs may have it that end in time, or that can move.
    """

    owners: tuple[tuple[model.SlotId, str], ...] = ()
    until_s: tuple[tuple[model.SlotId, float], ...] = ()


@model.value
class SlotFaulty(Event):
    """A slot is out of use until :class:`SlotRestored`."""

    slot_id: model.SlotId
    reason: str


@model.value
class SlotRestored(Event):
    """A slot may be used again."""

    slot_id: model.SlotId


@model.value
class TestRequested(Event):
    """Test a slot without a holder, even if it is out of use.

    The test holds the slot until :class:`SlotReleased` or
    :class:`PrepareFailed`, or until its host is lost.
    """

    slot_id: model.SlotId
    accelerator: str


@model.value
class AcceleratorFaulty(Event):
    """An accelerator fails in slots of a shape on a host.

    Its jobs avoid these slots as long as other slots fit.
    """

    host_id: model.HostId
    accelerator: str
    shape: str = ""


@model.value
class AcceleratorRestored(Event):
    """The slots of :class:`AcceleratorFaulty` may be used again."""

    host_id: model.HostId
    accelerator: str
    shape: str = ""


@model.value
class SessionLimitsChanged(Event):
    """How many slots projects may hold at once, and their priorities.

    Limits apply only if the strategy shares the pool between projects. A lower
    limit takes no slot away.

    :param default: limit of projects that are not listed; None: no limit.
    :param default_priority: the highest priority that counts against other
        projects, for projects that are not listed; None: every priority
        counts.
    :param priorities: the same for individual projects.
    """

    default: int | None = None
    of_projects: tuple[tuple[str, int | None], ...] = ()
    default_priority: int | None = 0
    priorities: tuple[tuple[str, int | None], ...] = ()


@model.value
class TurnChanged(Event):
    """A project gets slots before, after or unlike all others.

    It applies only if the strategy shares the pool between projects.
    """

    project: str
    turn: model.Turn


@model.value
class ShareTreeChanged(Event):
    """Where projects are in the tree down which shares are divided.

    It applies only if projects have fair shares. Debts stay as they are.
    """

    places: share_tree.Places


@model.value
class PowerCapsChanged(Event):
    """The caps on the power of slots. By default there are none."""

    caps: model.PowerCaps


@model.value
class ClaimsRestored(Event):
    """The claims of the latest sessions are known.

    :param claims: the sessions' hosts and claimed bytes, in the order of
        arrival.
    :param last_id: jobs with ids up to this one are among these sessions, or
        older.
    """

    claims: tuple[tuple[model.HostId | None, float], ...]
    last_id: model.JobId


@model.value
class JobSubmitted(Event):
    """A new job. A job with a known id is ignored.

    The jobs of a set wait until all of them are known, and get their slots at
    the same time. Cancelling one before all slots are granted cancels all.

    :param paid_bytes: the unused part of an earlier claim of the same session,
        which is already paid for; None: nothing has been paid.
    :param yields: whether the job gave up its slot for others: it is queued
        only after the pass that serves them.
    :param returns: whether the job lost its slot, and is served before sets
        that are due; see :mod:`fpgapool.core.rules.returns`.
    :param is_known: whether the pool may have slots that this state does not
        know: its set is not rejected because there are too few of them.
    """

    batch_order = 1

    job: model.Job
    paid_bytes: float | None = None
    yields: bool = False
    returns: bool = False
    is_known: bool = False


@model.value
class JobCancelled(Event):
    """A job is cancelled, whether it waits or has a slot.

    It may be submitted and cancelled at the same instant.
    """

    batch_order = 2

    job_id: model.JobId
    reason: str


@model.value
class JobMoved(Event):
    """The data of a job, waiting or not, comes from another host.

    :param host_id: where it comes from now; None: outside the pool.
    """

    batch_order = 2

    job_id: model.JobId
    host_id: model.HostId | None


@model.value
class AssignmentRestored(Event):
    """An assignment that was made before a restart.

    The slot's host counts as down until its :class:`HostUp`.

    :param host_id: the slot's host, so that :class:`HostLost` finds the
        assignment even before the host is up; None: unknown.
    :param device_id: the slot's device, so that a drain waits for the
        assignment; None: unknown.
    """

    job: model.Job
    slot_id: model.SlotId
    generation: int
    phase: model.Phase
    host_id: model.HostId | None = None
    device_id: model.DeviceId | None = None


@model.value
class SlotReady(HolderEvent):
    """The slot is programmed and waits for its holder's client."""


@model.value
class HolderAttached(HolderEvent):
    """The holder's client is connected."""


@model.value
class HolderDetached(HolderEvent):
    """The holder's connection was lost; the slot is kept for the holder."""


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


@model.value
class Progress(HolderEvent):
    """The progress of a holder; it never causes a scheduling pass."""

    bytes: int
    bytes_per_s: float


@model.value
class QuantumDone(HolderEvent):
    """The holder reached a chunk border, where it may be preempted."""

    bytes: int


@model.value
class JobProgress(Event):
    """The client of a waiting job has computed part of it elsewhere."""

    job_id: model.JobId
    bytes: int


@model.value
class ClaimExceeded(HolderEvent):
    """The holder has sent more than its claim plus the slack."""


@model.value
class SlotReleased(HolderEvent):
    """The holder has given the slot back, or lost it."""


@model.value
class HolderLeaves(HolderEvent):
    """The holder will probably give its slot back within milliseconds.

    If the next pass gives the slot to a job, that job is the holder's
    *successor*: it has the slot, and waits for the holder's release.
    """


@model.value
class HolderStays(HolderEvent):
    """The holder does not leave yet: its successor waits in the queue again.

    :param generation: the successor's.
    """


@model.value
class PrepareFailed(HolderEvent):
    """The slot could not be prepared; its job is queued again.

    A failed self-test also sends this event.
    """

    reason: str


@model.value
class GroupCreated(Event):
    """A new group; it gets its slots through ordinary jobs in the queue.

    :class:`~.instructions.RejectGroup` follows if the group is refused.

    :param is_known: as of :class:`JobSubmitted`, for the first slots of a
        group that gets them all at once.
    """

    group: model.Group
    goal: goals.Goal | None = None
    is_known: bool = False


@model.value
class GroupRestored(Event):
    """A group from before a restart; this event precedes its assignments.

    :param wanted: the size that it should have until tasks are measured again.
    :param waits_since_s: since when it waits for its first slots, which come
        all at once; None: it has had them, or they come one by one.
    """

    group: model.Group
    wanted: int
    goal: goals.GoalState | None = None
    waits_since_s: float | None = None


@model.value
class GroupChanged(Event):
    """The owner of a group changed its sizes.

    :class:`~.instructions.RejectGroup` follows if the change is refused.
    """

    group: model.Group


@model.value
class GoalChanged(Event):
    """The goal of a group changed.

    :class:`~.instructions.RejectGroup` follows if the goal cannot be reached;
    the previous goal then stays.
    """

    group_id: model.GroupId
    goal: goals.Goal | None


@model.value
class GroupDeleted(Event):
    """A group ends: its members leave after their tasks."""

    group_id: model.GroupId


@model.value
class GroupClientsChanged(Event):
    """A group's clients from projects other than its owner's have changed."""

    group_id: model.GroupId
    projects: tuple[tuple[str, str], ...]


@model.value
class ClientStats:
    """The tasks of one client of a group, on one host.

    :param waiting: tasks that are waiting in the host's queues now, except
        those that the client still holds back.
    :param busy_s: slot-seconds of the tasks that have ended, and of locks.
    """

    client: str
    ended: int
    arrived: int
    waiting: int
    busy_s: float


@model.value
class TaskStats(Event):
    """What a group's desk on one host has counted since its last report.

    :param host_id: the desk's host. A desk that is gone is reported once more,
        without clients.
    :param clients: clients with tasks; a missing client has none.
    :param busy_s: slot-seconds for which members on this host were busy since
        the last report, including tasks that are still running.
    :param busy_members: members on this host that are running a task or are
        locked.
    """

    group_id: int
    host_id: model.HostId
    clients: tuple[ClientStats, ...]
    busy_s: float
    busy_members: int


@model.value
class Wake(Event):
    """The time of a :class:`~fpgapool.core.instructions.WakeAt` has come."""
