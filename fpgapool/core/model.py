# SPDX-License-Identifier: Apache-2.0

"""Values of the scheduling core: accelerators, hosts, slots and jobs.

:class:`fpgapool.core.state.PoolState` holds the state that changes.
"""

import collections.abc
import dataclasses
import enum
import math
import typing

from fpgapool.vocabulary import states

HostId: typing.TypeAlias = int
DeviceId: typing.TypeAlias = int
SlotId: typing.TypeAlias = int
JobId: typing.TypeAlias = int
GroupId: typing.TypeAlias = int

_T = typing.TypeVar("_T")

#: The slot shapes for which an accelerator has bitstreams; empty: any shape.
Shapes: typing.TypeAlias = frozenset[str]


@typing.dataclass_transform(frozen_default=True)
def value(cls: type[_T]) -> type[_T]:
    """Make a class a dataclass that is frozen for the type checker only.

    Creating an object of a frozen dataclass takes four times as long, and each
    decision creates several events and instructions.
    """
    return dataclasses.dataclass(slots=True, unsafe_hash=True)(cls)


@dataclasses.dataclass(frozen=True, slots=True)
class Accelerator:
    """A function in the library.

    :param stateless: whether a session can continue in another slot.
    :param peaks_bytes_per_s: highest input rates by slot shape, for shapes
        where they differ.
    """

    name: str
    peak_bytes_per_s: float
    return_ratio: float = 0.0
    stateless: bool = False
    shapes: Shapes = frozenset()
    peaks_bytes_per_s: collections.abc.Mapping[str, float] = dataclasses.field(
        default_factory=dict, hash=False
    )

    def fits(self, shape: str) -> bool:
        """Return whether a slot of this shape can be programmed with it."""
        return not self.shapes or shape in self.shapes

    def peak_in(self, shape: str) -> float:
        """Return the highest input rate in a slot of this shape."""
        return self.peaks_bytes_per_s.get(shape, self.peak_bytes_per_s)


@dataclasses.dataclass(frozen=True, slots=True)
class SlotSpec:
    """One reconfigurable region.

    :param number: position among all slots of its host; slots are ordered by
        (host id, number).
    """

    id: SlotId
    device_id: DeviceId
    host_id: HostId
    number: int
    shape: str
    programmed: str | None = None
    programming_time_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceSpec:
    """One board."""

    id: DeviceId
    host_id: HostId
    name: str
    dma_bytes_per_s: float
    slots: tuple[SlotSpec, ...]
    healthy: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class HostSpec:
    """A compute node and its boards.

    :raises ValueError: if a device or slot names another host or device, or if
        a slot number or an id occurs twice.
    """

    id: HostId
    name: str
    nic_bytes_per_s: float
    devices: tuple[DeviceSpec, ...] = ()

    def __post_init__(self) -> None:
        for device in self.devices:
            _require(
                device.host_id == self.id,
                "a device belongs to another host",
                self,
            )
            for slot in device.slots:
                _require(
                    slot.host_id == self.id and slot.device_id == device.id,
                    f"slot {slot.id} belongs to another host or device",
                    self,
                )
        slots = self.slots()
        _require(
            len({slot.id for slot in slots}) == len(slots)
            and len({slot.number for slot in slots}) == len(slots)
            and len({device.id for device in self.devices})
            == len(self.devices),
            "duplicate id or slot number",
            self,
        )

    def slots(self) -> list[SlotSpec]:
        return [slot for device in self.devices for slot in device.slots]


def _require(condition: bool, what: str, host: HostSpec) -> None:
    if not condition:
        raise ValueError(f"host {host.id} ({host.name}): {what}")


class HolderKind(enum.Enum):
    """The kind of the holder of a slot."""

    SESSION = states.HELD_BY_SESSION
    SELF_TEST = states.HELD_BY_SELF_TEST
    GROUP = states.HELD_BY_GROUP


class Holder(typing.NamedTuple):
    """The holder of a slot.

    :param id: id of the group or of the session's job; for a self-test, the
        generation of its assignment.
    """

    kind: HolderKind
    id: int


class Together(typing.NamedTuple):
    """The set of a job.

    :param set_id: its name, unique within the project.
    :param size: the number of its jobs.
    :param placement: one of :data:`fpgapool.vocabulary.states.PLACEMENTS`;
        None: any slots.
    """

    set_id: str
    size: int
    placement: str | None = None


@value
class Job:
    """A waiting session, or a slot that a group waits for.

    Field names reserved for later: ``minimum_bytes_per_s``, ``preemptible``,
    ``input_block_ids``.

    :param host_id: the host that its data comes from; None: outside the pool.
    :param claimed_bytes: the size by which it is scheduled, including
        ``correction``.
    :param arrival_s: its first arrival; a requeued job keeps it, and thereby
        its place.
    :param wait_timeout_s: the time after its arrival at which it is rejected;
        None: never.
    :param instance_id: the instance that it belongs to, which may have
        reserved slots; None: no instance.
    :param group_id: the group that gets the slot; None: a session gets it.
    :param done_bytes: the part of the claim that has already been computed.
    :param deadline_s: when it should be finished; None: no deadline.
    :param deadline_action: one of
        :data:`fpgapool.vocabulary.states.DEADLINE_ACTIONS`.
    :param affinity_key: the application that it belongs to, unique within its
        project; None: it is an application of its own.
    :param correction: how many times larger ``claimed_bytes`` is than the
        job's own claim, because of similar jobs that exceeded theirs.
    :param together: the set whose jobs get their slots at the same time; None:
        it gets its own at any time.
    """

    id: JobId
    host_id: HostId | None
    accelerator: str
    claimed_bytes: float
    arrival_s: float
    priority: int = 0
    project: str = ""
    skips: int = 0
    wait_timeout_s: float | None = None
    instance_id: str | None = None
    group_id: GroupId | None = None
    done_bytes: float = 0.0
    deadline_s: float | None = None
    deadline_action: str = states.CONTINUE
    affinity_key: str | None = None
    correction: float = 1.0
    together: Together | None = None

    @property
    def own_claim_bytes(self) -> float:
        """What the job itself claims."""
        return self.claimed_bytes / self.correction

    @property
    def holder(self) -> Holder:
        """The holder of the slot that it gets."""
        if self.group_id is not None:
            return Holder(HolderKind.GROUP, self.group_id)
        return Holder(HolderKind.SESSION, self.id)

    def is_local_to(self, host_id: HostId | None) -> bool:
        """Return whether its data stays on this host.

        A group's clients may be anywhere, so its jobs are local everywhere.
        """
        return self.group_id is not None or (
            host_id is not None and self.host_id == host_id
        )

    def has_valid_size(self) -> bool:
        """Return whether the claim is a positive, finite number of bytes."""
        return 0 < self.claimed_bytes < math.inf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of slots with one accelerator, as its owner requested it.

    :param size: the initial number of slots. The sizes of all groups of a
        scaling set add up to the number of slots that the set may have.
    :param project: the owner; the group's slots count towards its shares and
        limits.
    :param min_size: number of slots that sessions may not take from it.
    :param all_or_none: whether its first ``min_size`` slots come all at once;
        until all of them are ready, it has no member.
    :param placement: where these must be, as in :class:`Together`.
    :param wait_timeout_s: it is rejected if it has not got these so many
        seconds after its creation; None: never.
    """

    id: GroupId
    accelerator: str
    size: int
    min_size: int
    max_size: int
    project: str = ""
    priority: int = 0
    elastic: bool = False
    all_or_none: bool = False
    placement: str | None = None
    wait_timeout_s: float | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Its minimum, its size and its maximum."""
        return self.min_size, self.size, self.max_size

    @property
    def together(self) -> Together:
        """The set of its first slots; no session can name it."""
        return Together(f"group {self.id}", self.min_size, self.placement)

    def check_sizes(self) -> None:
        """:raises ValueError: if the sizes contradict each other."""
        if self.size < 1:
            raise ValueError(f"size must be at least 1, not {self.size}")
        if not 0 <= self.min_size <= self.size <= self.max_size:
            raise ValueError(
                "sizes must satisfy 0 <= min_size <= size <= max_size; got "
                f"min_size={self.min_size}, size={self.size}, "
                f"max_size={self.max_size}"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class PowerCaps:
    """The power that held slots may draw.

    :param slots_w: power of a slot in use, by shape; other shapes count as 0.
    :raises ValueError: if a power is negative, or not a number.
    """

    pool_w: float | None = None
    hosts_w: tuple[tuple[HostId, float], ...] = ()
    slots_w: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        values = [value for _, value in (*self.hosts_w, *self.slots_w)]
        for value in (*values, self.pool_w or 0.0):
            if not 0 <= value < math.inf:
                raise ValueError(
                    f"power must be finite and not negative, not {value} W"
                )

    @property
    def is_set(self) -> bool:
        """Whether there is any cap."""
        return self.pool_w is not None or bool(self.hosts_w)


class AdminState(enum.Enum):
    """The administrative state of a device or host.

    ``DRAINING`` becomes ``DISABLED`` when the last session has ended.
    """

    ENABLED = states.ENABLED
    DRAINING = states.DRAINING
    DISABLED = states.DISABLED


class Phase(enum.Enum):
    """The phase of an assignment."""

    # Enum's own hash calls Python code to hash the name at each look-up.
    __hash__ = object.__hash__

    PREPARING = states.PREPARING
    READY = states.READY
    ACTIVE = states.ACTIVE
    DETACHED = states.DETACHED


class Turn(enum.Enum):
    """When a project may get slots."""

    NORMAL = "normal"
    #: It gets the slots that no other project takes, and gives them back at a
    #: chunk border if another one waits.
    LAST = "last"
    #: It keeps the slots of its sessions, and gets no others.
    NEVER = "never"


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """A slot and its holder.

    :param local: whether the data stays on the holder's own host.
    :param revoked: whether the core is taking the slot back; it stays assigned
        until its release.
    """

    slot_id: SlotId
    holder: Holder
    accelerator: str
    generation: int
    phase: Phase
    local: bool
    started_s: float
    revoked: bool = False


class Verdict(enum.Enum):
    """Whether a job has a slot, may get one later, or never will."""

    OK = "OK"
    NOT_NOW = "NOT_NOW"
    NEVER = "NEVER"


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """Whether a job has a slot, and if not, why.

    :param reasons: codes of :mod:`fpgapool.vocabulary.codes`; empty if the
        verdict is OK.
    """

    verdict: Verdict
    reasons: tuple[str, ...] = ()
