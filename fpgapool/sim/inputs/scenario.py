# SPDX-License-Identifier: Apache-2.0

"""Scenario files, ``fpgapool-scenario/1``: a cluster and its work.

The work is jobs under scheduling strategies, groups of slots with tasks under
elasticity policies, or both.

All sizes are in bytes, times in seconds, rates in bytes/s.
"""

from __future__ import annotations

import dataclasses
import typing

import msgspec

from fpgapool.core.queues import thresholds
from fpgapool.sim.outcomes import schedules
from fpgapool.vocabulary import names
from fpgapool.vocabulary import platforms
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import scheduling

FORMAT: typing.Final = "fpgapool-scenario/1"

#: The limits of a scenario. Within them, all results are finite, and the
#: cluster and its jobs fit into memory.
MAX_HOSTS: typing.Final = 100_000
MAX_SLOTS_PER_DEVICE: typing.Final = 1000
MAX_SLOTS: typing.Final = 1_000_000
MAX_JOBS: typing.Final = 2_000_000
MAX_OUTAGES: typing.Final = 1_000_000
MAX_BYTES: typing.Final = 1e18
MAX_BYTES_PER_S: typing.Final = 1e15
MIN_BYTES_PER_S: typing.Final = 1e-3
MAX_S: typing.Final = 1e9
MAX_QUEUES: typing.Final = 1000
MAX_RETURN_RATIO: typing.Final = 1000.0
_MAX_OTHER = 1e12

_Positive = typing.Annotated[float, msgspec.Meta(gt=0, le=_MAX_OTHER)]
_NotNegative = typing.Annotated[float, msgspec.Meta(ge=0, le=_MAX_OTHER)]
_Bytes = typing.Annotated[float, msgspec.Meta(gt=0, le=MAX_BYTES)]
_Rate = typing.Annotated[
    float, msgspec.Meta(ge=MIN_BYTES_PER_S, le=MAX_BYTES_PER_S)
]
_Time = typing.Annotated[float, msgspec.Meta(ge=0, le=MAX_S)]
_Span = typing.Annotated[float, msgspec.Meta(gt=0, le=MAX_S)]
# Each period of a tenant whose jobs wait is an event.
_Period = typing.Annotated[float, msgspec.Meta(ge=1, le=MAX_S)]
_Ratio = typing.Annotated[float, msgspec.Meta(ge=0, le=MAX_RETURN_RATIO)]
_Hosts = typing.Annotated[int, msgspec.Meta(ge=1, le=MAX_HOSTS)]
_Slots = typing.Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS_PER_DEVICE)]
_Queue = typing.Annotated[int, msgspec.Meta(ge=1, le=MAX_QUEUES)]
_Count = typing.Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Number = typing.Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Id = typing.Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Name = typing.Annotated[str, msgspec.Meta(min_length=1)]
# Each heartbeat is an event of the simulation.
_Heartbeat = typing.Annotated[float, msgspec.Meta(ge=0.001, le=MAX_S)]
_Priority = typing.Annotated[
    int, msgspec.Meta(ge=-rules.MAX_PRIORITY, le=rules.MAX_PRIORITY)
]


_Placement = typing.Literal["same_board", "same_host", "spread"]


class _Record(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An object in a scenario file."""


class Platform(_Record, frozen=True):
    """An accelerator in slots of one shape.

    :ivar peak_bytes_per_s: highest input rate of a slot.
    :ivar active_w: power that a slot draws while it works, in addition to the
        idle device; None: its share of the device's active power.
    """

    peak_bytes_per_s: _Rate
    active_w: _NotNegative | None = None


class AcceleratorProfile(_Record, frozen=True):
    """Loads that an accelerator's jobs put on slots and links.

    :ivar peak_bytes_per_s: highest input rate of a slot.
    :ivar platforms: by slot shape, the values that differ there.
    :ivar cpu_bytes_per_s: input rate of a core without a slot; the platform
        ``cpu`` may give it instead.
    :ivar quantum_bytes: input of a chunk; after each chunk, a slot may change
        hands.
    """

    peak_bytes_per_s: _Rate
    return_ratio: _Ratio = 0.0
    cpu_bytes_per_s: _Rate | None = None
    quantum_bytes: _Bytes | None = None
    platforms: dict[_Name, Platform] = {}

    @property
    def core_bytes_per_s(self) -> float | None:
        """Return the input rate of a core; None: unknown."""
        cpu = self.platforms.get(platforms.CPU)
        return self.cpu_bytes_per_s if cpu is None else cpu.peak_bytes_per_s

    def peak_in(self, shape: str) -> float:
        """Return the highest input rate in a slot of this shape."""
        platform = self.platforms.get(shape)
        return (
            self.peak_bytes_per_s
            if platform is None
            else (platform.peak_bytes_per_s)
        )


class HostOverride(_Record, frozen=True):
    """Values of one host; None: the cluster's value."""

    slots_per_device: _Slots | None = None
    dma_bytes_per_s: _Rate | None = None
    nic_bytes_per_s: _Rate | None = None
    shape: _Name | None = None


class Power(_Record, frozen=True):
    """Electrical power.

    :ivar device_idle_w: power of a device while its slots are idle.
    :ivar device_active_w: power of a device while all its slots have jobs;
        proportionally less while only some do.
    :ivar host_w: power of a host, with or without a device.
    :ivar core_active_w: power of a core with a job, in addition to the host.
    :ivar cap_w: maximum power that all slots with jobs draw together, in
        addition to idle hosts and devices; None: no limit.
    :ivar host_cap_w: like ``cap_w``, for the slots of each host.
    """

    device_idle_w: _NotNegative = 0.0
    device_active_w: _NotNegative = 0.0
    host_w: _NotNegative = 0.0
    core_active_w: _NotNegative = 0.0
    cap_w: _NotNegative | None = None
    host_cap_w: _NotNegative | None = None


class Cluster(_Record, frozen=True):
    """Hosts 0 … hosts − 1, some of which have a device.

    :ivar dma_bytes_per_s: rate that all slots of a device share.
    :ivar nic_bytes_per_s: rate of each host in each direction.
    :ivar reconfiguration_s: time to program another accelerator.
    :ivar tasks_per_s: maximum number of tasks that all groups together
        complete per second, because they share a link; None: no limit.
    :ivar host_overrides: by host, the values that differ there.
    :ivar power: its power; None: results have no energy.
    :ivar cores_per_host: jobs need one of these cores, and compute there until
        they get a slot of the same host; None: jobs need only a slot.
    :ivar attach_s: time to attach a slot to another job; requires cores.
    :ivar heartbeat_s: how often a host with a device offers room to jobs,
        which are then containers of applications; None: jobs need slots.
    :ivar containers_per_device: how many containers share a device.
    """

    hosts: _Hosts
    fpga_hosts: tuple[_Number, ...]
    accelerators: dict[_Name, AcceleratorProfile]
    slots_per_device: _Slots = 4
    dma_bytes_per_s: _Rate = 2.1e9
    nic_bytes_per_s: _Rate = 1.25e9
    reconfiguration_s: _Time = 0.0
    tasks_per_s: _Positive | None = None
    host_overrides: dict[_Number, HostOverride] = {}
    shape: _Name = names.DEFAULT_SHAPE
    power: Power | None = None
    cores_per_host: _Slots | None = None
    attach_s: _Time = 0.0
    heartbeat_s: _Heartbeat | None = None
    containers_per_device: _Slots = 1

    def slot_count(self, host: int) -> int:
        return self._of(host).slots_per_device or self.slots_per_device

    def dma_of(self, host: int) -> float:
        """Return the DMA rate of a host's device in bytes/s."""
        return self._of(host).dma_bytes_per_s or self.dma_bytes_per_s

    def stage_ratios(self, job: JobSpec) -> list[float]:
        """Return the bytes of each stage's input per byte of a job's input.

        The last number is that of its results.
        """
        ratios = [1.0]
        for name in job.accelerators:
            ratios.append(ratios[-1] * self.accelerators[name].return_ratio)
        return ratios

    def nic_of(self, host: int) -> float:
        """Return the NIC rate of a host in each direction, in bytes/s."""
        return self._of(host).nic_bytes_per_s or self.nic_bytes_per_s

    def shape_of(self, host: int) -> str:
        """Return the shape of the slots of a host's device."""
        return self._of(host).shape or self.shape

    def _of(self, host: int) -> HostOverride:
        return self.host_overrides.get(host, _AS_EVERYWHERE)


_AS_EVERYWHERE = HostOverride()


class Elasticity(_Record, frozen=True):
    """An elasticity policy.

    :ivar estimate: how the policy estimates the time of tasks.
    :ivar own: options that only this policy has, by name.
    """

    name: _Name = "none"
    period_s: _Span | None = None
    estimate: typing.Literal["measured", "nnls", "saturated", "as_printed"] = (
        "measured"
    )
    own: dict[_Name, bool | int | float | str] = {}


# Shared options whose numbers have narrower bounds than usual.
_BOUNDS: dict[str, typing.Any] = {
    "E_bytes": _Bytes,
    "q": _Positive,
    **dict.fromkeys(("k1", "k2", "queues"), _Queue),
}
_KINDS: dict[type, typing.Any] = {
    bool: bool,
    int: _Number,
    float: _NotNegative,
    str: _Name,
    tuple: tuple[_Bytes, ...],
}
# Defaults of options whose default is not None.
_SHARED_DEFAULTS = {"slot_choice": "index", "offer_order": "index"}


_Shared: typing.Any = msgspec.defstruct(
    "_Shared",
    [
        (
            name,
            _BOUNDS.get(name, _KINDS[scheduling.kind(name)]) | None,
            _SHARED_DEFAULTS.get(name),
        )
        for name in scheduling.FIELDS
    ],
    bases=(_Record,),
    frozen=True,
)


class StrategyOptions(_Shared):  # type: ignore[misc]
    """A strategy with options; an option that is None takes its default.

    The options that strategies share are those of
    :class:`fpgapool.vocabulary.scheduling.SharedOptions`.

    :ivar strategy: name of the installed strategy; None: the name that it has
        in the scenario.
    :ivar seed: seed of random choices; None: the run's.
    :ivar elasticity: the policy that sizes the scenario's groups; None: sizes
        do not change.
    :ivar affinity_misses: for ``affinity``, used instead of a time; for
        ``gam`` and ``lpt``, an application takes any host after it has passed
        over this many.
    :ivar preempt: ``fine``: a slot may change hands after each chunk.
    :ivar preempt_quantum_bytes: the minimum input of a chunk without cores;
        None: the conductor's default.
    :ivar preempt_gain: a challenger takes a slot only if its stress is at
        least 1 + this times the holder's.
    :ivar deadline_action: None: ``kill`` with cores, otherwise ``continue``.
    :ivar learn_overruns: whether claims are corrected, as in the conductor.
    """

    strategy: _Name | None = None
    seed: _Number | None = None
    affinity_misses: _Number | None = None
    largest_first: bool | None = None
    own: dict[_Name, bool | int | float | str] = {}
    elasticity: Elasticity | None = None
    rule: _Name | None = None
    preempt: typing.Literal["none", "fine"] = "none"
    preempt_gain: _NotNegative = 0.0
    preempt_quantum_bytes: _Count | None = None
    deadline_action: typing.Literal["continue", "kill", "early"] | None = None
    learn_overruns: bool = True

    def options(self) -> dict[str, object]:
        """Return the options by name, for the strategy's factory."""
        shared = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if name not in _NOT_OPTIONS and value is not None
        }
        return {**shared, **self.own}


_NOT_OPTIONS = (
    "strategy",
    "seed",
    "own",
    "elasticity",
    "preempt",
    "preempt_gain",
    "preempt_quantum_bytes",
    "deadline_action",
    "learn_overruns",
)


@dataclasses.dataclass(frozen=True)
class Queues:
    """Parameters of queues; see :mod:`fpgapool.core.queues.thresholds`."""

    E_bytes: float = 20e6
    q: float = 1.41
    k1: int = 5
    k2: int = 16
    queues: int = 20

    @property
    def thresholds_bytes(self) -> tuple[float, ...]:
        """Return the upper bounds of all queues except the last."""
        return thresholds.hybrid_thresholds(
            self.E_bytes, self.q, self.k1, self.k2, self.queues
        )


#: For roughly exponential sizes, and for heavy tails.
SHORT_TAIL = Queues()
LONG_TAIL = Queues(E_bytes=26e6, q=1.8, k1=10, k2=11)


class JobSpec(_Record, frozen=True, gc=False):
    """One request for an accelerator or, with heartbeats, a container.

    :ivar accelerator: empty for a chain.
    :ivar host: the host of its data; None: a machine outside the cluster. With
        cores, the host where it runs; None: the cluster chooses one.
    :ivar deadline_s: the time after its arrival by which it should end; None:
        no deadline.
    :ivar priority: among jobs of the same tenant, higher priorities come
        first.
    :ivar app: the application of its tenant that it belongs to; None: an
        application of its own.
    :ivar tasks: number of parts of a container's input, computed one after
        another.
    :ivar cpu_s_per_task: processor time before each task.
    :ivar claimed_bytes: the size that strategies see, as in the pool; None:
        its true size.
    :ivar set_id: the set of its tenant that it belongs to, whose jobs get
        their slots at the same time; None: none.
    :ivar set_placement: where the slots of the set, or of the chain, must be;
        None: anywhere.
    :ivar user: the user of its tenant that it belongs to.
    :ivar chain: the accelerators of its stages, each of which has the output
        of the one before it as input; None: it is no chain.
    :ivar name: its id in a trace, if the ids there are not numbers.
    """

    id: _Id
    host: _Number | None
    size_bytes: _Bytes
    arrival_s: _Time
    accelerator: str = ""
    tenant: str = ""
    deadline_s: _Span | None = None
    priority: _Priority = 0
    app: _Name | None = None
    tasks: _Count | None = None
    cpu_s_per_task: _NotNegative = 0.0
    claimed_bytes: _Bytes | None = None
    set_id: _Name | None = None
    set_placement: _Placement | None = None
    user: str = ""
    chain: tuple[str, ...] | None = None
    name: str = ""

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Return the accelerators of its slots, one for each."""
        return (self.accelerator,) if self.chain is None else self.chain

    @property
    def deadline_at_s(self) -> float | None:
        """Return the deadline as a time since the start of the run."""
        if self.deadline_s is None:
            return None
        return self.arrival_s + self.deadline_s


class GroupClient(_Record, frozen=True):
    """A program that sends batches of equal tasks to its group.

    Exactly one of the last two fields must be given.

    :ivar task_s: time of a task on one slot.
    :ivar window_s: maximum slot-seconds of its unfinished tasks; a batch that
        would exceed it is refused. None: no limit.
    :ivar load: pairs of a length of time in seconds and the number of slots
        that arriving tasks would keep busy during it; batches arrive at random
        (Poisson).
    """

    name: _Name
    task_s: _Span
    batch_tasks: _Count = 1
    window_s: _Positive | None = None
    load: tuple[tuple[_Span, _NotNegative], ...] | None = None
    arrivals_s: tuple[_Time, ...] | None = None


class Goal(_Record, frozen=True):
    """What a group must achieve: a deadline or a rate.

    :ivar deadline_s: the time by which ``actions`` tasks must have ended.
    :ivar actions: number of tasks after which the group ends.
    """

    deadline_s: _Span | None = None
    rate_per_s: _Positive | None = None
    actions: _Count | None = None


class Group(_Record, frozen=True):
    """Slots with one accelerator that programs use as one device.

    :ivar max_size: maximum number of slots; None: all of the cluster.
    :ivar elastic: whether a policy may change its size.
    :ivar goal: a group with a goal begins when its first batch arrives.
    """

    name: _Name
    slots: _Count
    clients: tuple[GroupClient, ...]
    min_size: _Number = 1
    max_size: _Count | None = None
    elastic: bool = True
    goal: Goal | None = None
    end_s: _Span | None = None


class Outage(_Record, frozen=True, gc=False):
    """A time without the board of a host.

    :ivar end_s: when it is back; None: never.
    """

    host: _Number
    start_s: _Time
    end_s: _Time | None = None


class Budget(_Record, frozen=True):
    """How much a tenant may use in a period; see :mod:`..budgets`.

    At least one of the limits must be given.

    :ivar slot_s: seconds for which its jobs hold slots.
    :ivar bytes: input and output of its jobs, counted when they leave slots.
    :ivar action: what happens when nothing is left: its jobs wait until the
        budget refills, or get only slots that no other tenant takes.
    :ivar carry_over: whether what is left can be used in the next period.
    """

    period_s: _Period
    slot_s: _Positive | None = None
    bytes: _Bytes | None = None
    action: typing.Literal["refuse", "idle_only"] = "refuse"
    carry_over: bool = False


class Users(_Record, frozen=True):
    """How the users of a tenant share what it gets, as quotas say in the pool.

    :ivar sessions_per_user: how many slots each may have; None: no limit.
    :ivar user_turns: whether they take turns.
    """

    sessions_per_user: _Count | None = None
    user_turns: bool = False


class Reservation(_Record, frozen=True, gc=False):
    """Slots that a tenant has for a time, as a reservation by calendar.

    :ivar project: the tenant whose jobs with the accelerator get the slots.
    :ivar hosts: the hosts that its slots may be on; empty: any.
    """

    accelerator: _Name
    slots: _Count
    start_s: _Time
    end_s: _Time
    project: str = ""
    repeat: typing.Literal["never", "day", "week"] = "never"
    times: typing.Annotated[
        int, msgspec.Meta(ge=1, le=reservation.MAX_TIMES)
    ] = 1
    hosts: tuple[_Number, ...] = ()


class Scenario(_Record, frozen=True):
    """The whole content of a scenario file.

    :ivar wakeups: whether a job triggers a scheduling pass as soon as it has
        waited long enough for its own host.
    :ivar groups: groups of slots. Without jobs, they get all slots of the
        cluster, otherwise only the first ones.
    :ivar max_priorities: by tenant, the highest priority of its jobs that
        counts against other tenants; 0 for tenants that are not listed.
    :ivar outages: those of one host do not overlap.
    :ivar budgets: by tenant.
    :ivar users: by tenant.
    :ivar reservations: they fit beside each other.
    """

    format: typing.Literal["fpgapool-scenario/1"]
    cluster: Cluster
    strategies: dict[_Name, StrategyOptions]
    jobs: typing.Annotated[list[JobSpec], msgspec.Meta(max_length=MAX_JOBS)]
    name: str = ""
    note: str = ""
    wakeups: bool = False
    expected: dict[str, schedules.Outcome] | None = None
    groups: tuple[Group, ...] = ()
    max_priorities: dict[str, _Number] = {}
    outages: typing.Annotated[
        tuple[Outage, ...], msgspec.Meta(max_length=MAX_OUTAGES)
    ] = ()
    budgets: dict[str, Budget] = {}
    users: dict[str, Users] = {}
    reservations: typing.Annotated[
        tuple[Reservation, ...],
        msgspec.Meta(max_length=reservation.MAX_SPANS),
    ] = ()

    @property
    def slot_count(self) -> int:
        cluster = self.cluster
        return sum(cluster.slot_count(host) for host in cluster.fpga_hosts)

    @property
    def job_slots(self) -> dict[int, int]:
        """Return the number of slots for jobs, by host with a board."""
        left, found = self.group_slots, {}
        for host in sorted(self.cluster.fpga_hosts):
            count = self.cluster.slot_count(host)
            found[host] = max(count - left, 0)
            left = max(left - count, 0)
        return found

    @property
    def group_slots(self) -> int:
        """Return the number of slots for groups; these are the first ones."""
        if self.groups and not self.jobs:
            return self.slot_count
        return sum(group.slots for group in self.groups)
