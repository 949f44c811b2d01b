# SPDX-License-Identifier: Apache-2.0

"""The results of ``fpgapool-sim run``, and the file that it writes.

All sizes are in bytes, times in seconds, energies in J.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
import typing
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from fpgapool.sim import files
from fpgapool.sim import models
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import group_results
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import schedules
from fpgapool.sim.outcomes import usage

#: Frames per chunk: the paper on deadlines measures work in video frames.
FRAMES_PER_CHUNK = 1500

#: The metrics in ``expected`` of a scenario.
METRICS = ("act_s", "tct95_s", "sar", "dlr", "makespan_s")
#: Those of how long jobs wait, in details and for each seed.
WAITS = ("wait_mean_s", "wait_p95_s", "wait_p99_s")


class Utilisation(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much was used from time 0 to the makespan, as shares.

    :ivar slots: share of the time of all slots; None: there are no slots.
    :ivar cores: share of the time of all cores; None: hosts have no cores.
    """

    slots: float | None
    dma: float | None
    nic_egress: float
    nic_ingress: float
    cores: float | None = None


class Energy(msgspec.Struct, frozen=True, omit_defaults=True):
    devices_j: float
    hosts_j: float
    total_j: float
    cores_j: float = 0.0


class Outages(msgspec.Struct, frozen=True):
    """What outages of hosts cost until the makespan.

    :ivar count: number of outages.
    :ivar lost_slot_s: slot-seconds without the hosts.
    :ivar interruptions: how often jobs lost the slots that worked for them.
    """

    count: int
    lost_slot_s: float
    interruptions: int


class Kind(msgspec.Struct, frozen=True):
    """How long jobs of a kind waited and took.

    A set counts once: as long as the job of it that waited longest, and as the
    one that took longest.

    :ivar took_mean_s: mean of the times with slots, without waits.
    """

    count: int
    wait_mean_s: float
    wait_p95_s: float
    took_mean_s: float
    took_p95_s: float


class HostDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """One host.

    :ivar submitted: metrics of its own jobs; None: no job came from it.
    """

    host: int
    utilisation: Utilisation
    submitted: metrics.Metrics | None = None
    energy: Energy | None = None


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """Results beyond the metrics of the scenario format.

    :ivar tenants: metrics by tenant, if any job has one; "" is for jobs
        without a tenant.
    :ivar outside: metrics of the jobs from outside the cluster.
    :ivar energy: the energy used; None: the scenario has no power values.
    :ivar tenants_j: by tenant, the energy that its jobs added to that of idle
        devices and hosts, if any job has a tenant.
    :ivar preemptions: how often jobs had to leave their slots to others.
    :ivar treatment: slowdowns, programmings and fairness; None: jobs need more
        than slots.
    :ivar warm_up_jobs: number of the first jobs that metrics leave out.
    :ivar outages: None: the scenario has none.
    :ivar kinds: of ``single`` jobs, ``sets`` and ``chains``, if there are sets
        or chains, those that there are.
    """

    p50_s: float
    p99_s: float
    wait_mean_s: float
    wait_p95_s: float
    wait_p99_s: float
    utilisation: Utilisation
    hosts: list[HostDetails]
    energy: Energy | None = None
    tenants: dict[str, metrics.Metrics] = {}
    outside: metrics.Metrics | None = None
    tenants_j: dict[str, float] = {}
    preemptions: int = 0
    treatment: metrics.Treatment | None = None
    warm_up_jobs: int = 0
    outages: Outages | None = None
    kinds: dict[str, Kind] = {}


class Result(msgspec.Struct, frozen=True):
    """The results of a scenario under one strategy.

    :ivar outcome: the results in the scenario format.
    :ivar service: how deadlines were met; None: no job has one.
    :ivar packing: how containers were spread; None: there are none.
    :ivar slowdowns: of each job; None: jobs need more than slots.
    :ivar programmings: of each job.
    """

    outcome: schedules.Outcome
    measured: metrics.Metrics
    details: Details
    programmings: metrics.Floats
    service: metrics.Service | None = None
    packing: metrics.Packing | None = None
    slowdowns: metrics.Floats | None = None


def columns(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> metrics.Columns:
    """Return the jobs of a schedule as vectors."""
    return metrics.Columns(
        arrivals_s=metrics.column(job.arrival_s for job in scenario.jobs),
        worked_s=metrics.column(job.worked_s for job in outcomes),
        finishes_s=metrics.column(job.finish_s for job in outcomes),
        sizes_bytes=metrics.column(job.size_bytes for job in scenario.jobs),
        local_bytes=metrics.column(
            outcome.local_bytes(job.host, job.size_bytes)
            for job, outcome in zip(scenario.jobs, outcomes, strict=True)
        ),
    )


def evaluate(
    scenario: scenarios.Scenario,
    outcomes: list[schedules.JobOutcome],
    warm_up_s: float = 0.0,
) -> Result:
    """Measure a run.

    :param warm_up_s: metrics leave out the jobs that arrive before this time;
        usage and energy do not.
    :raises ValueError: if no job arrives later.
    """
    every = columns(scenario, outcomes)
    kept = every.arrivals_s >= warm_up_s
    jobs = every.of(kept)
    measured = metrics.measure_columns(jobs)
    used = usage.measure(scenario, outcomes)
    model = models.of(scenario.cluster)
    slowdowns = treatment = None
    if model is None:
        slowdowns = _slowdowns(scenario, every)
        treatment = metrics.treat(
            slowdowns[kept],
            used.programmings[kept],
            [job.tenant for job in _of(scenario.jobs, kept)],
        )
    details = _details(scenario, outcomes, used, every, kept)
    details = msgspec.structs.replace(details, treatment=treatment)
    if scenario.cluster.power is not None:
        outcomes = [
            msgspec.structs.replace(outcome, energy_j=energy_j)
            for outcome, energy_j in zip(
                outcomes, used.jobs_j.tolist(), strict=True
            )
        ]
    found: dict[str, float | None] = {
        name: getattr(measured, name) for name in METRICS
    }
    service = None
    if any(job.deadline_s is not None for job in _of(scenario.jobs, kept)):
        service = _measure_service(
            msgspec.structs.replace(scenario, jobs=_of(scenario.jobs, kept)),
            _of(outcomes, kept),
            details.energy,
        )
        found |= dataclasses.asdict(service)
    packing = None
    if model is not None:
        makespan_s = float(every.finishes_s.max())
        packing = model.measure(scenario, outcomes, makespan_s)
        found |= {} if packing is None else dataclasses.asdict(packing)
    return Result(
        schedules.Outcome(outcomes, found),
        measured,
        details,
        used.programmings,
        service,
        packing,
        slowdowns,
    )


_Each = typing.TypeVar("_Each")


def _of(each: Sequence[_Each], kept: npt.NDArray[np.bool_]) -> list[_Each]:
    return list(itertools.compress(each, kept.tolist()))


def _slowdowns(
    scenario: scenarios.Scenario, jobs: metrics.Columns
) -> metrics.Floats:
    cluster = scenario.cluster
    slots = {
        (cluster.shape_of(host), cluster.dma_of(host))
        for host in cluster.fpga_hosts
    }
    best_bytes_per_s = {
        name: max(min(profile.peak_in(shape), dma) for shape, dma in slots)
        for name, profile in cluster.accelerators.items()
    }

    def best_of(job: scenarios.JobSpec) -> float:
        if job.chain is None:
            return best_bytes_per_s[job.accelerator]
        ratios = cluster.stage_ratios(job)
        return min(
            best_bytes_per_s[name] / ratio
            for name, ratio in zip(job.chain, ratios, strict=False)
        )

    rates = metrics.column(best_of(job) for job in scenario.jobs)
    alone_s = jobs.sizes_bytes / rates
    # Times of tiny jobs at late times are rounded.
    return np.maximum(1.0, (jobs.finishes_s - jobs.arrivals_s) / alone_s)


def _measure_service(
    scenario: scenarios.Scenario,
    outcomes: Sequence[schedules.JobOutcome],
    energy: Energy | None,
) -> metrics.Service:
    quanta_bytes = {
        name: profile.quantum_bytes
        for name, profile in scenario.cluster.accelerators.items()
    }
    due = kept = 0
    frames: float | None = 0.0
    wasted: float | None = 0.0
    for job, outcome in zip(scenario.jobs, outcomes, strict=True):
        if job.deadline_s is None:
            continue
        due += 1
        kept += outcome.state == "done"
        done_bytes = job.size_bytes
        if outcome.core is not None:
            done_bytes = outcome.core.done_bytes
        quantum_bytes = quanta_bytes[job.accelerators[0]]
        if quantum_bytes is None or frames is None or wasted is None:
            frames = wasted = None
        elif outcome.state == "done":
            frames += FRAMES_PER_CHUNK * done_bytes / quantum_bytes
        else:
            wasted += FRAMES_PER_CHUNK * done_bytes / quantum_bytes
    makespan_s = max(outcome.finish_s for outcome in outcomes)
    return metrics.Service(
        sla=kept / due,
        energy_j_per_sla=energy.total_j / kept if energy and kept else None,
        frames_per_s=None
        if frames is None
        else frames / makespan_s
        if makespan_s
        else 0.0,
        wasted_frames=wasted,
    )


def write(
    found: Mapping[str, Sequence[Result]],
    path: pathlib.Path,
    groups: Mapping[str, group_results.GroupsResult],
) -> None:
    """Write the results, completely or not at all.

    :param found: by strategy, the results of each seed. Jobs and details are
        those of the first one.
    :raises fpgapool.sim.errors.InputError: if it cannot be written.
    """
    document: dict[str, object] = {
        "results": {name: each[0].outcome for name, each in found.items()},
        "details": {name: each[0].details for name, each in found.items()},
    }
    if any(len(each) > 1 for each in found.values()):
        document["seeds"] = {
            name: [
                {
                    **one.outcome.metrics,
                    **{key: getattr(one.measured, key) for key in WAITS},
                    "treatment": one.details.treatment,
                }
                for one in each
            ]
            for name, each in found.items()
        }
    if groups:
        document["groups"] = groups
    text = msgspec.json.format(msgspec.json.encode(document), indent=1)
    files.write(path, text + b"\n")


# -- details ---------------------------------------------------------------


def _details(
    scenario: scenarios.Scenario,
    outcomes: Sequence[schedules.JobOutcome],
    used: usage.Usage,
    every: metrics.Columns,
    kept: npt.NDArray[np.bool_],
) -> Details:
    """Return the details.

    :param kept: for each job, whether metrics count it.
    """
    jobs, specs = every.of(kept), _of(scenario.jobs, kept)
    measured = metrics.measure_columns(jobs)
    by_host = _groups(jobs, [job.host for job in specs])
    by_tenant = _groups(jobs, [job.tenant for job in specs])
    hosts, utilisation, energy = _hosts(
        scenario, used, float(every.finishes_s.max()), by_host
    )
    has_tenants = set(by_tenant) != {""}
    tenants_j: dict[str, float] = {}
    if has_tenants and energy is not None:
        tenants_j = dict.fromkeys(
            sorted({job.tenant for job in scenario.jobs}), 0.0
        )
        for job, energy_j in zip(
            scenario.jobs, used.jobs_j.tolist(), strict=True
        ):
            tenants_j[job.tenant] += energy_j
    return Details(
        p50_s=measured.p50_s,
        p99_s=measured.p99_s,
        wait_mean_s=measured.wait_mean_s,
        wait_p95_s=measured.wait_p95_s,
        wait_p99_s=measured.wait_p99_s,
        utilisation=utilisation,
        hosts=hosts,
        energy=energy,
        tenants=dict(sorted(by_tenant.items())) if has_tenants else {},
        outside=by_host.get(None),
        tenants_j=tenants_j,
        preemptions=sum(outcome.preemptions for outcome in outcomes),
        warm_up_jobs=len(outcomes) - len(specs),
        outages=_outages(scenario, outcomes),
        kinds=_kinds(specs, jobs),
    )


def _kinds(
    specs: Sequence[scenarios.JobSpec], jobs: metrics.Columns
) -> dict[str, Kind]:
    # By kind, and by what counts once: the wait, and the time with a slot.
    found: dict[str, dict[object, tuple[float, float]]] = {
        "single": {},
        "sets": {},
        "chains": {},
    }
    waits_s = metrics.waits(jobs).tolist()
    for job, wait_s, took_s in zip(
        specs, waits_s, jobs.worked_s.tolist(), strict=True
    ):
        key: object = job.id
        kind = "single" if job.chain is None else "chains"
        if job.set_id is not None:
            kind, key = "sets", (job.tenant, job.set_id)
        longest = found[kind].get(key, (0.0, 0.0))
        found[kind][key] = max(wait_s, longest[0]), max(took_s, longest[1])
    if not (found["sets"] or found["chains"]):
        return {}
    return {
        kind: Kind(
            len(times),
            *metrics.mean_and_p95([wait_s for wait_s, _ in times.values()]),
            *metrics.mean_and_p95([took_s for _, took_s in times.values()]),
        )
        for kind, times in found.items()
        if times
    }


def _outages(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> Outages | None:
    if not scenario.outages:
        return None
    makespan_s = max(outcome.finish_s for outcome in outcomes)
    seen = [each for each in scenario.outages if each.start_s < makespan_s]
    return Outages(
        len(seen),
        math.fsum(
            scenario.cluster.slot_count(outage.host)
            * (min(outage.end_s or math.inf, makespan_s) - outage.start_s)
            for outage in seen
        ),
        sum(outcome.interruptions for outcome in outcomes),
    )


_Name = typing.TypeVar("_Name", bound=int | str | None)


def _groups(
    jobs: metrics.Columns, names: Sequence[_Name]
) -> dict[_Name, metrics.Metrics]:
    places: dict[_Name, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return {
        name: metrics.measure_columns(jobs.of(np.array(some)))
        for name, some in places.items()
    }


def _hosts(
    scenario: scenarios.Scenario,
    used: usage.Usage,
    makespan_s: float,
    by_host: Mapping[int | None, metrics.Metrics],
) -> tuple[list[HostDetails], Utilisation, Energy | None]:
    """Return the figures of each host, and those of all together."""
    cluster = scenario.cluster
    hosts = range(cluster.hosts)
    dma = metrics.column(cluster.dma_of(host) for host in hosts)
    nic = metrics.column(cluster.nic_of(host) for host in hosts)
    dma *= used.slots > 0
    cores = np.full(cluster.hosts, float(cluster.cores_per_host or 0))
    spent = usage.energy(cluster, used, makespan_s)

    def utilisation(some: slice) -> Utilisation:
        nics = nic[some] * makespan_s
        return Utilisation(
            slots=_share(used.taken_s[some], used.slots[some] * makespan_s),
            dma=_share(used.dma_bytes[some], dma[some] * makespan_s),
            nic_egress=_share(used.egress_bytes[some], nics) or 0.0,
            nic_ingress=_share(used.ingress_bytes[some], nics) or 0.0,
            cores=_share(used.core_s[some], cores[some] * makespan_s),
        )

    def energy(some: slice) -> Energy | None:
        if spent is None:
            return None
        devices_j = float(spent.devices_j[some].sum())
        cores_j = float(spent.cores_j[some].sum())
        hosts_j = float(spent.hosts_j[some].sum())
        total_j = devices_j + cores_j + hosts_j
        return Energy(devices_j, hosts_j, total_j, cores_j)

    details = [
        HostDetails(
            host,
            utilisation(slice(host, host + 1)),
            by_host.get(host),
            energy(slice(host, host + 1)),
        )
        for host in hosts
    ]
    return details, utilisation(slice(None)), energy(slice(None))


def _share(part: metrics.Floats, whole: metrics.Floats) -> float | None:
    total = float(whole.sum())
    return float(part.sum()) / total if total else None
