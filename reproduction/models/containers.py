# SPDX-License-Identifier: Apache-2.0

"""Runs applications in containers, on hosts that share their slots.

A job is a container of an application. It needs one of the places of a host,
and keeps it to its end. Its tasks come one after another: each takes the
processor, then a slot of the host. A free slot takes the oldest task of its
host, and is programmed for it if needed. Links are no bottleneck.

A host with places offers one of them at each of its heartbeats, and a policy
chooses the application that takes it. The heartbeats of the hosts are spread
evenly over the period. At one instant slots end tasks, then processors, then
jobs arrive, then hosts offer places.

The rules are those of the paper on Blaze: a host is a node with its node
accelerator manager, and ``gam`` is the global accelerator manager.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
import itertools
import math
import typing
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import schedules
from fpgapool.strategies.placements import offers

#: By name, who takes a place. ``static``: hosts are divided evenly between
#: the accelerators. ``naive``: the first application. ``gam``: the first one
#: that fits well enough. ``lpt``: as ``gam``, with the largest container.
POLICIES = ("static", "naive", "gam", "lpt")
WITH_AFFINITY = ("gam", "lpt")
#: How many offers an application passes over until it takes any.
MISSES = 40
#: Slots of this shape are processors: programs change there in no time.
PROCESSOR = "cpu"

# What happens, in the order of one instant.
_TASK_ENDS, _TASK_IS_READY, _ARRIVAL = range(3)


def run(
    scenario: scenarios.Scenario,
    name: str,
    _seed: int = 0,
    source: str = "scenario",
    _on_end: Callable[[], None] | None = None,
) -> list[schedules.JobOutcome]:
    """Simulate a policy on hosts with heartbeats.

    :raises errors.InputError: see :func:`policy_of`.
    """
    simulation = _Simulation(scenario, *policy_of(scenario, name, source))
    simulation.run()
    return [simulation.outcomes[job.id] for job in scenario.jobs]


def measure(
    scenario: scenarios.Scenario,
    outcomes: Sequence[schedules.JobOutcome],
    makespan_s: float,
) -> metrics.Packing:
    """Measure how well containers were spread over hosts."""
    return metrics.Packing(
        reprogrammings=sum(
            outcome.container.reprogrammings
            for outcome in outcomes
            if outcome.container is not None
        ),
        distance_to_bound=1 - bound_s(scenario) / makespan_s,
    )


def bound_s(scenario: scenarios.Scenario) -> float:
    """Return a time before which no schedule ends.

    It is the longest of three: all slots work all the time, from the first
    task on, after they were programmed once; all places are taken all the
    time; and each job ends as if it was alone.
    """
    cluster = scenario.cluster
    shapes = _shapes(cluster)
    slots = sum(map(cluster.slot_count, cluster.fpga_hosts))
    places = len(cluster.fpga_hosts) * cluster.containers_per_device
    programming_s = 0.0 if PROCESSOR in shapes else cluster.reconfiguration_s
    slots_s = containers_s = latest_s = 0.0
    first_s = math.inf
    for job in scenario.jobs:
        task_s = _fastest_task_s(cluster, job, shapes)
        container_s = _tasks_of(job) * (task_s + job.cpu_s_per_task)
        slots_s += _tasks_of(job) * task_s
        containers_s += container_s
        first_s = min(first_s, job.arrival_s + job.cpu_s_per_task)
        latest_s = max(latest_s, job.arrival_s + container_s)
    return max(
        first_s + (slots_s + slots * programming_s) / slots,
        containers_s / places,
        latest_s,
    )


def _tasks_of(job: scenarios.JobSpec) -> int:
    assert job.tasks is not None
    return job.tasks


def _task_s(
    cluster: scenarios.Cluster, job: scenarios.JobSpec, shape: str
) -> float:
    """Return the time of a task in a slot."""
    peak_bytes_per_s = cluster.accelerators[job.accelerator].peak_in(shape)
    return job.size_bytes / _tasks_of(job) / peak_bytes_per_s


def _fastest_task_s(
    cluster: scenarios.Cluster, job: scenarios.JobSpec, shapes: set[str]
) -> float:
    return min(_task_s(cluster, job, shape) for shape in shapes)


def _shapes(cluster: scenarios.Cluster) -> set[str]:
    return set(map(cluster.shape_of, cluster.fpga_hosts))


@dataclasses.dataclass(slots=True, eq=False)
class _Container:
    """A job.

    :ivar alone_s: the time that it takes without others.
    :ivar tasks: those that have not ended.
    :ivar start_s: when it got its place.
    :ivar task_s: time of a task in a slot of its host.
    :ivar slot_s: time of slots so far, programming included.
    """

    spec: scenarios.JobSpec
    alone_s: float
    tasks: int
    start_s: float = 0.0
    task_s: float = 0.0
    slot_s: float = 0.0
    reprogrammings: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class _Application:
    """Containers that have arrived together or one by one.

    :ivar order: arrival and id of the first container.
    :ivar unplaced: containers without a place, the largest at the end.
    :ivar misses: offers passed over since it took the last one.
    """

    order: tuple[float, int]
    accelerator: str
    unplaced: list[_Container] = dataclasses.field(default_factory=list)
    misses: int = 0

    def add(self, container: _Container) -> None:
        """Add a container that has arrived."""
        bisect.insort(
            self.unplaced,
            container,
            key=lambda each: (each.alone_s, -each.spec.id),
        )


@dataclasses.dataclass(slots=True, eq=False)
class _Host:
    """A host with a device.

    :ivar owner: under ``static``, the accelerator that it is for.
    :ivar queue: tasks that are ready, oldest first.
    """

    number: int
    shape: str
    owner: str
    places: int
    idle: list[int]
    programmed: list[str | None]
    running: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    queue: collections.deque[_Container] = dataclasses.field(
        default_factory=collections.deque
    )


class _Event(typing.NamedTuple):
    """Something that will happen.

    :ivar number: in the order in which events are planned.
    :ivar slot: of a task that ends.
    """

    time_s: float
    kind: int
    number: int
    container: _Container
    host: _Host | None = None
    slot: int = 0


class _Simulation:
    """One run.

    :param misses: how many offers applications pass over.
    """

    def __init__(
        self, scenario: scenarios.Scenario, policy: str, misses: int
    ) -> None:
        self.outcomes: dict[int, schedules.JobOutcome] = {}
        self._cluster = cluster = scenario.cluster
        self._policy = policy
        self._misses = misses
        assert cluster.heartbeat_s is not None
        self._heartbeat_s = cluster.heartbeat_s
        owners = _owners(cluster)
        self._hosts = [
            _Host(
                number,
                cluster.shape_of(number),
                owners[number],
                cluster.containers_per_device,
                list(range(cluster.slot_count(number))),
                [None] * cluster.slot_count(number),
            )
            for number in sorted(cluster.fpga_hosts)
        ]
        self._free_places = len(self._hosts) * cluster.containers_per_device
        # By id of the only job, or by tenant and name.
        self._applications: dict[int | tuple[str, str], _Application] = {}
        # Those with containers that have no place, in their order.
        self._waiting: list[_Application] = []
        # The next heartbeat of all hosts; they take turns.
        self._beat = 0
        self._numbers = itertools.count()
        self._events: list[_Event] = []
        self._left = len(scenario.jobs)
        shapes = _shapes(cluster)
        for job in sorted(
            scenario.jobs, key=lambda each: (each.arrival_s, each.id)
        ):
            task_s = _fastest_task_s(cluster, job, shapes)
            alone_s = _tasks_of(job) * (task_s + job.cpu_s_per_task)
            container = _Container(job, alone_s, _tasks_of(job))
            self._plan(job.arrival_s, _ARRIVAL, container)

    def run(self) -> None:
        """Run to the end of the last job."""
        now = 0.0
        while self._left:
            beat_s = self._next_beat_s(now)
            if self._events and self._events[0].time_s <= beat_s:
                event = heapq.heappop(self._events)
                now = event.time_s
                self._handle(event)
            else:
                now = beat_s
                host = self._hosts[self._beat % len(self._hosts)]
                self._beat += 1
                if host.places:
                    self._offer(host, now)

    def _next_beat_s(self, now: float) -> float:
        """Return the time of the next heartbeat; infinite: none matters."""
        if not self._waiting or not self._free_places:
            return math.inf
        beat_s = self._beat_s()
        if beat_s < now:
            # Nothing could happen at those before.
            hosts = len(self._hosts)
            self._beat = int(now / self._heartbeat_s * hosts)
            while (beat_s := self._beat_s()) < now:
                self._beat += 1
        return beat_s

    def _beat_s(self) -> float:
        period, host = divmod(self._beat, len(self._hosts))
        return _rounded_s(
            (period + host / len(self._hosts)) * self._heartbeat_s
        )

    def _plan(
        self,
        time_s: float,
        kind: int,
        container: _Container,
        host: _Host | None = None,
        slot: int = 0,
    ) -> None:
        number = next(self._numbers)
        event = _Event(_rounded_s(time_s), kind, number, container, host, slot)
        heapq.heappush(self._events, event)

    def _handle(self, event: _Event) -> None:
        container, host = event.container, event.host
        if host is None:
            self._arrive(container)
            return
        if event.kind == _TASK_ENDS:
            host.idle.append(event.slot)
            container.tasks -= 1
            if container.tasks:
                self._prepare(container, host, event.time_s)
            else:
                self._end(container, host, event.time_s)
        else:
            host.queue.append(container)
        self._serve(host, event.time_s)

    def _arrive(self, container: _Container) -> None:
        spec = container.spec
        name = spec.id if spec.app is None else (spec.tenant, spec.app)
        application = self._applications.get(name)
        if application is None:
            application = self._applications[name] = _Application(
                (spec.arrival_s, spec.id), spec.accelerator
            )
        if not application.unplaced:
            bisect.insort(
                self._waiting, application, key=lambda each: each.order
            )
        application.add(container)

    # -- hosts -------------------------------------------------------------

    def _prepare(self, container: _Container, host: _Host, now: float) -> None:
        """Let the processor work for the next task."""
        ready_s = now + container.spec.cpu_s_per_task
        self._plan(ready_s, _TASK_IS_READY, container, host)

    def _serve(self, host: _Host, now: float) -> None:
        """Give the oldest tasks to idle slots."""
        while host.idle and host.queue:
            container = host.queue.popleft()
            wanted = container.spec.accelerator
            slot = min(
                host.idle,
                key=lambda each: (host.programmed[each] != wanted, each),
            )
            host.idle.remove(slot)
            taken_s = container.task_s
            if host.programmed[slot] != wanted and host.shape != PROCESSOR:
                host.programmed[slot] = wanted
                container.reprogrammings += 1
                taken_s += self._cluster.reconfiguration_s
            container.slot_s += taken_s
            self._plan(now + taken_s, _TASK_ENDS, container, host, slot)

    def _end(self, container: _Container, host: _Host, now: float) -> None:
        spec = container.spec
        host.running[spec.accelerator] -= 1
        host.places += 1
        self._free_places += 1
        self._left -= 1
        self.outcomes[spec.id] = schedules.JobOutcome(
            id=spec.id,
            start_s=container.start_s,
            finish_s=now,
            host=host.number,
            slot=None,
            local=False,
            container=schedules.InContainer(
                container.slot_s, container.reprogrammings
            ),
        )

    # -- policies ----------------------------------------------------------

    def _offer(self, host: _Host, now: float) -> None:
        """Give one of a host's places to an application."""
        waiting = self._waiting
        if self._policy == "lpt":
            waiting = sorted(
                waiting, key=lambda each: -each.unplaced[-1].alone_s
            )
        for application in waiting:
            if self._takes(application, host):
                self._place(application, host, now)
                return

    def _takes(self, application: _Application, host: _Host) -> bool:
        if self._policy == "static":
            return host.owner == application.accelerator
        if self._policy == "naive":
            return True
        fitness = offers.fitness(
            host.running[application.accelerator], host.running.total()
        )
        if fitness < offers.threshold_by_misses(
            application.misses, self._misses
        ):
            application.misses += 1
            return False
        application.misses = 0
        return True

    def _place(
        self, application: _Application, host: _Host, now: float
    ) -> None:
        container = application.unplaced.pop()
        if not application.unplaced:
            self._waiting.remove(application)
        host.running[application.accelerator] += 1
        host.places -= 1
        self._free_places -= 1
        container.start_s = now
        container.task_s = _task_s(self._cluster, container.spec, host.shape)
        self._prepare(container, host, now)


def _rounded_s(time_s: float) -> float:
    """Round to nanoseconds, so that sums of the same times are equal."""
    return round(time_s, 9)


def _owners(cluster: scenarios.Cluster) -> dict[int, str]:
    """Divide hosts with a device between the cluster's accelerators.

    :returns: an accelerator for each host, in the order of the file.
    """
    names, hosts = list(cluster.accelerators), sorted(cluster.fpga_hosts)
    return {
        host: names[at * len(names) // len(hosts)]
        for at, host in enumerate(hosts)
    }


# -- checks ----------------------------------------------------------------


def check_strategy(
    scenario: scenarios.Scenario, name: str, _seed: int, source: str
) -> None:
    """Check that a policy is there, and has only its options.

    :raises errors.InputError: see :func:`policy_of`.
    """
    policy_of(scenario, name, source)


def policy_of(
    scenario: scenarios.Scenario, name: str, source: str
) -> tuple[str, int]:
    """Return a policy, and how many offers its applications pass over.

    :param name: of one of its strategies, or of a policy, which then has its
        default options.
    :param source: the scenario's file, for messages.
    :raises errors.InputError: if there is no such policy, if it has other
        options, or if there are too few hosts to divide.
    """
    options = scenario.strategies.get(name, scenarios.StrategyOptions())
    policy = options.strategy or name
    place = f"strategies.{name}"
    if policy not in POLICIES:
        raise errors.InputError(
            source,
            place,
            f"containers do not support strategy {policy!r}; known: "
            f"{', '.join(POLICIES)}",
        )
    allowed = {"strategy"}
    if policy in WITH_AFFINITY:
        allowed.add("affinity_misses")
    default = scenarios.StrategyOptions()
    for option in scenarios.StrategyOptions.__struct_fields__:
        if option not in allowed and (
            getattr(options, option) != getattr(default, option)
        ):
            raise errors.InputError(
                source, f"{place}.{option}", f"is not an option of {policy!r}"
            )
    cluster = scenario.cluster
    if policy == "static" and len(cluster.fpga_hosts) < len(
        cluster.accelerators
    ):
        raise errors.InputError(
            source,
            place,
            f"{len(cluster.fpga_hosts)} hosts with a board cannot be split "
            f"between {len(cluster.accelerators)} accelerators",
        )
    misses = options.affinity_misses
    return policy, MISSES if misses is None else misses


def check(scenario: scenarios.Scenario, source: str) -> None:
    """Check that a scenario has all that containers need.

    :raises errors.InputError: if it does not.
    """
    _check_cluster(scenario, source)
    accelerators: dict[tuple[str, str], str] = {}
    for at, job in enumerate(scenario.jobs):
        place = f"jobs[{at}]"
        _check_container(job, place, source)
        if job.app is None:
            continue
        known = accelerators.setdefault((job.tenant, job.app), job.accelerator)
        if job.accelerator != known:
            raise errors.InputError(
                source,
                f"{place}.accelerator",
                f"the application {job.app!r} uses {known!r}",
            )


def _check_cluster(scenario: scenarios.Scenario, source: str) -> None:
    cluster, power = scenario.cluster, scenario.cluster.power
    assert cluster.heartbeat_s is not None
    for place, value in (
        ("cluster.cores_per_host", cluster.cores_per_host),
        ("cluster.power.cap_w", power and power.cap_w),
        ("cluster.power.host_cap_w", power and power.host_cap_w),
        ("groups", scenario.groups),
        ("max_priorities", scenario.max_priorities),
        ("budgets", scenario.budgets),
    ):
        if value not in (None, (), {}):
            raise errors.InputError(
                source, place, "cannot be combined with containers"
            )


def _check_container(job: scenarios.JobSpec, place: str, source: str) -> None:
    if job.host is not None:
        raise errors.InputError(
            source,
            f"{place}.host",
            "must be null; the strategy chooses the hosts of containers",
        )
    for member in ("deadline_s", "priority"):
        if getattr(job, member):
            raise errors.InputError(
                source,
                f"{place}.{member}",
                "cannot be combined with containers",
            )
    if job.tasks is None:
        raise errors.InputError(
            source, f"{place}.tasks", "is missing; containers need it"
        )
