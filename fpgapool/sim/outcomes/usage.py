# SPDX-License-Identifier: Apache-2.0

"""Computes a schedule's use of slots, DMA pipes, NICs and energy.

The results of the jobs suffice to compute it, so a run need not be observed.
Shares and energy cover the time from 0 to the makespan.
"""

from __future__ import annotations

import bisect
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpgapool.sim.engines import base
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import schedules
from fpgapool.vocabulary import platforms

_Places: typing.TypeAlias = npt.NDArray[np.int64]


class _Visits(typing.NamedTuple):
    """The stays in slots of jobs and stages, as vectors in the same order.

    :ivar jobs: positions of the jobs in the scenario.
    :ivar hosts: numbers of the hosts; −1: the job had no slot.
    :ivar sources: the hosts that sent the input; −1: one outside the cluster.
    :ivar results: bytes of results that were sent back to the job's host;
        what a stage sends to the next one is the next one's input.
    :ivar programmed: whether the slot had another accelerator before.
    """

    jobs: _Places
    hosts: _Places
    sources: _Places
    accelerators: list[str]
    taken_s: metrics.Floats
    sizes: metrics.Floats
    results: metrics.Floats
    programmed: npt.NDArray[np.bool_]


class Usage(typing.NamedTuple):
    """Use of each host: vectors over the hosts, the last two over the jobs.

    :ivar slots: number of its slots for jobs.
    :ivar cores_j: energy of its cores with jobs, in addition to the host's; 0
        without power values.
    :ivar taken_s: slot-seconds with jobs, including programming.
    :ivar slots_j: energy of its slots with jobs, in addition to the idle
        device's; 0 without power values.
    :ivar dma_bytes: bytes that went to its device.
    :ivar jobs_j: vector over the jobs: energy of each job's slots and core, in
        addition to idle devices and hosts; 0 without power values.
    :ivar programmings: vector over the jobs: how often a slot was programmed
        for each, including the first time; not for jobs in containers.
    """

    slots: metrics.Floats
    core_s: metrics.Floats
    cores_j: metrics.Floats
    taken_s: metrics.Floats
    slots_j: metrics.Floats
    dma_bytes: metrics.Floats
    egress_bytes: metrics.Floats
    ingress_bytes: metrics.Floats
    jobs_j: metrics.Floats
    programmings: metrics.Floats


class Energy(typing.NamedTuple):
    """Energy in J of each host; each field is a vector over the hosts."""

    devices_j: metrics.Floats
    cores_j: metrics.Floats
    hosts_j: metrics.Floats


def measure(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> Usage:
    """Add up what all jobs of a schedule used."""
    cluster = scenario.cluster
    slots = np.zeros(cluster.hosts)
    for slot in base.slots_of(cluster)[scenario.group_slots :]:
        slots[slot.host] += 1
    visits = _visits(scenario, outcomes)
    at, sizes, source = visits.hosts, visits.sizes, visits.sources
    origin = _places(job.host for job in scenario.jobs)[visits.jobs]
    sent = sizes * (at != source)
    back = visits.results * (at != origin)

    def added(hosts: _Places, values: metrics.Floats) -> metrics.Floats:
        sums = np.bincount(hosts + 1, values, cluster.hosts + 1)
        return sums[1:].astype(np.float64)

    cores = [outcome.core for outcome in outcomes]
    core_hosts = _places(None if core is None else core.host for core in cores)
    core_s = metrics.column(job.finish_s - job.start_s for job in outcomes)
    core_s *= core_hosts >= 0
    slots_j = visits.taken_s * _added_w(scenario, visits, slots)
    cores_j = core_s * metrics.column(
        _core_w(cluster, job.accelerators[0]) for job in scenario.jobs
    )
    return Usage(
        slots=slots,
        core_s=added(core_hosts, core_s),
        cores_j=added(core_hosts, cores_j),
        taken_s=added(at, visits.taken_s),
        slots_j=added(at, slots_j),
        dma_bytes=added(at, sizes),
        egress_bytes=added(source, sent) + added(at, back),
        ingress_bytes=added(at, sent) + added(origin, back),
        jobs_j=cores_j + np.bincount(visits.jobs, slots_j, len(outcomes)),
        programmings=np.bincount(
            visits.jobs, visits.programmed, len(outcomes)
        ).astype(np.float64),
    )


def _core_w(cluster: scenarios.Cluster, accelerator: str) -> float:
    """Return the power of a core with a job, in addition to the host.

    This is the accelerator's power on the platform ``cpu`` or, if that is
    unknown, the power that all cores have in common.
    """
    if cluster.power is None:
        return 0.0
    cpu = cluster.accelerators[accelerator].platforms.get(platforms.CPU)
    if cpu is None or cpu.active_w is None:
        return cluster.power.core_active_w
    return cpu.active_w


def _places(hosts: Iterable[int | None]) -> _Places:
    """Return numbers of hosts; −1: outside the cluster, or none."""
    return np.array([-1 if host is None else host for host in hosts])


def _added_w(
    scenario: scenarios.Scenario, visits: _Visits, slots: metrics.Floats
) -> metrics.Floats:
    """Return the power of each visit, in addition to the idle device's.

    This is the accelerator's power on the platform or, if that is unknown, the
    slot's share of the difference between active and idle power.
    """
    cluster, power = scenario.cluster, scenario.cluster.power
    if power is None:
        return np.zeros(visits.jobs.size)
    extra_w = power.device_active_w - power.device_idle_w

    def of(accelerator: str, host: int) -> float:
        if host < 0:
            return 0.0
        profile = cluster.accelerators[accelerator]
        platform = profile.platforms.get(cluster.shape_of(host))
        if platform is None or platform.active_w is None:
            return extra_w / float(slots[host])
        return platform.active_w

    return metrics.column(
        of(accelerator, host)
        for accelerator, host in zip(
            visits.accelerators, visits.hosts.tolist(), strict=True
        )
    )


class _Visit(typing.NamedTuple):
    job: int
    accelerator: str
    source: int | None
    host: int
    slot: int | None
    start_s: float
    taken_s: float
    size: float
    return_ratio: float


def _all_visits(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> Iterator[_Visit]:
    """Yield the visits; only those of containers include programming."""
    profiles = scenario.cluster.accelerators
    for job, outcome in enumerate(outcomes):
        spec = scenario.jobs[job]
        if outcome.stages:
            yield from _visits_of_chain(scenario.cluster, job, spec, outcome)
            continue
        ratio = profiles[spec.accelerator].return_ratio
        left = spec.size_bytes
        for stay in outcome.stays:
            yield _Visit(
                job,
                spec.accelerator,
                spec.host,
                stay.host,
                stay.slot,
                stay.start_s,
                stay.finish_s - stay.start_s,
                stay.done_bytes,
                ratio,
            )
            left -= stay.done_bytes
        core, container = outcome.core, outcome.container
        taken_s = outcome.finish_s - outcome.start_s
        if core is not None:
            taken_s = core.slot_s
        elif container is not None:
            taken_s = container.slot_s
        yield _Visit(
            job,
            spec.accelerator,
            spec.host,
            -1 if outcome.host is None else outcome.host,
            outcome.slot,
            outcome.start_s,
            taken_s,
            # With cores and in containers, jobs use no pipes.
            left if core is None and container is None else 0.0,
            ratio,
        )


def _visits_of_chain(
    cluster: scenarios.Cluster,
    job: int,
    spec: scenarios.JobSpec,
    outcome: schedules.JobOutcome,
) -> Iterator[_Visit]:
    ratios = cluster.stage_ratios(spec)
    sources = [spec.host] * (len(outcome.stays) + 1)
    for number, stage in enumerate(outcome.stages):
        is_last = number == len(outcome.stages) - 1
        left = spec.size_bytes * ratios[number]
        stays = [
            *stage.stays,
            schedules.Stay(
                stage.host, stage.slot, stage.start_s, outcome.finish_s, 0
            ),
        ]
        for at, stay in enumerate(stays):
            size = stay.done_bytes if at < len(stage.stays) else left
            left -= size
            yield _Visit(
                job,
                stage.accelerator,
                sources[at],
                stay.host,
                stay.slot,
                stay.start_s,
                stay.finish_s - stay.start_s,
                size,
                ratios[-1] / ratios[number] if is_last else 0.0,
            )
        sources = [stay.host for stay in stays]


def _visits(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> _Visits:
    visits = list(_all_visits(scenario, outcomes))
    taken_s = metrics.column(visit.taken_s for visit in visits)
    sizes = metrics.column(visit.size for visit in visits)
    ratios = metrics.column(visit.return_ratio for visit in visits)
    programmed = np.zeros(len(visits), dtype=np.bool_)
    if scenario.cluster.heartbeat_s is None:
        programmed = _programmed(scenario, visits)
        taken_s += programmed * scenario.cluster.reconfiguration_s
    return _Visits(
        np.array([visit.job for visit in visits]),
        np.array([visit.host for visit in visits]),
        _places(visit.source for visit in visits),
        [visit.accelerator for visit in visits],
        taken_s,
        sizes,
        sizes * ratios,
        programmed,
    )


def _programmed(
    scenario: scenarios.Scenario, visits: Sequence[_Visit]
) -> npt.NDArray[np.bool_]:
    numbers = {
        name: at for at, name in enumerate(scenario.cluster.accelerators)
    }
    kinds = np.array([numbers[visit.accelerator] for visit in visits])
    hosts = np.array([visit.host for visit in visits])
    slots = _places(visit.slot for visit in visits)
    starts_s = metrics.column(visit.start_s for visit in visits)
    # The visits of a slot stand together, in the order of time.
    order = np.lexsort((starts_s, slots, hosts))
    before, after = order[:-1], order[1:]
    programmed = np.ones(len(visits), dtype=np.bool_)
    outages = _outages_before(scenario, visits)
    programmed[after] = (
        (hosts[before] != hosts[after])
        | (slots[before] != slots[after])
        | (kinds[before] != kinds[after])
        | (outages[before] != outages[after])
    )
    return programmed


def _outages_before(
    scenario: scenarios.Scenario, visits: Sequence[_Visit]
) -> _Places:
    """Return how many outages of its host had begun before each visit."""
    begun_s: dict[int, list[float]] = {}
    for outage in scenario.outages:
        begun_s.setdefault(outage.host, []).append(outage.start_s)
    for starts_s in begun_s.values():
        starts_s.sort()
    return np.array(
        [
            bisect.bisect_left(begun_s.get(visit.host, ()), visit.start_s)
            for visit in visits
        ]
    )


def energy(
    cluster: scenarios.Cluster, used: Usage, makespan_s: float
) -> Energy | None:
    """Compute the energy of a schedule.

    A device always draws its idle power. For each slot with a job, it also
    draws the accelerator's power on this platform or, if that is unknown, the
    slot's share of the difference between active and idle power. Each core
    with a job draws its power, too.

    :returns: the energy; None: the scenario has no power values.
    """
    power = cluster.power
    if power is None:
        return None
    return Energy(
        devices_j=(used.slots > 0) * power.device_idle_w * makespan_s
        + used.slots_j,
        cores_j=used.cores_j,
        hosts_j=np.full(cluster.hosts, power.host_w * makespan_s),
    )
