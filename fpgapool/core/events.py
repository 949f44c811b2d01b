# SPDX-License-Identifier: Apache-2.0

"""What can happen to the pool.

Events about an assignment carry its generation; one that is not the slot's
current generation is stale and changes nothing.

Reserved names, not used yet: ``GoalChanged``, ``QueueDepth``, ``TaskStats``,
``CacheReport``, ``PowerReport``.
"""

import typing

from fpgapool.core import model
from fpgapool.core import values


class _Event:
    """What all events have.

    :cvar batch_order: events of one instant count in this order.
    """

    __slots__ = ()

    batch_order: typing.ClassVar[int] = 0


@values.value
class AcceleratorsChanged(_Event):
    """The whole library as it is now."""

    accelerators: tuple[model.Accelerator, ...]


@values.value
class HostUp(_Event):
    """A host with all its devices and slots, new or changed.

    Idempotent; brings its slots up, except those that are faulty.
    """

    host: model.HostSpec


@values.value
class HostLost(_Event):
    """Nothing is heard of a host any more."""

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
    """A board may be used, as all may until something else is said."""

    device_id: model.DeviceId


@values.value
class DeviceDisabled(_Event):
    """No slot of a board is given to anybody until :class:`DeviceEnabled`.

    Who has one keeps it. As the next one, it outlives news of the host.
    """

    device_id: model.DeviceId


@values.value
class DrainRequested(_Event):
    """As :class:`DeviceDisabled`; and word is wanted when nobody is left.

    :param deadline_s: when who is left loses the slot: a job that has not
        begun goes back to its place; None: never.
    """

    device_id: model.DeviceId
    deadline_s: float | None = None


@values.value
class ReservableSlotsChanged(_Event):
    """How many slots of a board instances can reserve, from now on.

    As many as are not reserved yet are given to no job that could not be
    moved out of the way later.
    """

    device_id: model.DeviceId
    count: int


@values.value
class ReservationsChanged(_Event):
    """Which instances have slots reserved: all that there are.

    A reserved slot is for jobs of its instance alone.

    :param by_device: of each device, instances and how many slots each has.
    :param former_slots: those that had been reserved before a restart, and
        for whom.
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
class AcceleratorFaulty(_Event):
    """An accelerator fails on a host: its jobs avoid the host's slots.

    As long as there are others that they could have.
    """

    host_id: model.HostId
    accelerator: str


@values.value
class AcceleratorRestored(_Event):
    """An accelerator need not be kept off a host any more."""

    host_id: model.HostId
    accelerator: str


@values.value
class SessionLimitsChanged(_Event):
    """How many slots a project may have at a time, from now on.

    It counts only if the strategy has projects share the pool. Nobody loses
    a slot by it.

    :param default: of the projects that are not named; None: any number.
    :param of_projects: name and limit of those that have another one.
    """

    default: int | None = None
    of_projects: tuple[tuple[str, int | None], ...] = ()


@values.value
class JobSubmitted(_Event):
    """A job came; one whose id is known already changes nothing.

    :param paid_bytes: what is left of a claim that was charged for an earlier
        job of the same session; None: there was none.
    :param yields: whether it waits only when those that waited before it have
        been looked at: it has had a slot and made room for them.
    """

    batch_order = 1

    job: model.Job
    paid_bytes: float | None = None
    yields: bool = False


@values.value
class JobCancelled(_Event):
    """A job is wanted no more, whether it waits or has a slot.

    It may be submitted and cancelled in one instant.
    """

    batch_order = 2

    job_id: model.JobId
    reason: str


@values.value
class AssignmentRestored(_Event):
    """An assignment that was made before a restart.

    The slot's host counts as down until its :class:`HostUp`.

    :param host_id: the slot's host, so that its :class:`HostLost` can be
        understood before the host was ever up; None: not known.
    :param device_id: the slot's device, so that a drain is not done before
        that; None: not known.
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


#: How an assignment goes on. That its slot is ready, or that its client came,
#: may be told late or never.
PHASE_MOVES: typing.Final[dict[tuple[model.Phase, type], model.Phase]] = {
    (model.Phase.PREPARING, SlotReady): model.Phase.READY,
    (model.Phase.PREPARING, HolderAttached): model.Phase.ACTIVE,
    (model.Phase.READY, HolderAttached): model.Phase.ACTIVE,
    (model.Phase.DETACHED, HolderAttached): model.Phase.ACTIVE,
    (model.Phase.PREPARING, HolderDetached): model.Phase.DETACHED,
    (model.Phase.READY, HolderDetached): model.Phase.DETACHED,
    (model.Phase.ACTIVE, HolderDetached): model.Phase.DETACHED,
}


@values.value
class Progress(_Event):
    """How far a holder is; never causes a scheduling pass."""

    slot_id: model.SlotId
    generation: int
    bytes: int
    bytes_per_s: float


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
    """The slot could not be made ready; its job goes back to its place."""

    slot_id: model.SlotId
    generation: int
    reason: str


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
    | AcceleratorFaulty
    | AcceleratorRestored
    | SessionLimitsChanged
    | JobSubmitted
    | JobCancelled
    | AssignmentRestored
    | SlotReady
    | HolderAttached
    | HolderDetached
    | Progress
    | ClaimExceeded
    | SlotReleased
    | PrepareFailed
    | Wake
)
