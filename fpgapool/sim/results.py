# SPDX-License-Identifier: Apache-2.0

"""What ``fpgapool-sim run`` finds out, and the file that it writes.

All sizes are in bytes, times in seconds, energies in J.
"""

from __future__ import annotations

import pathlib
import typing
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec
import numpy as np

from fpgapool.sim import files
from fpgapool.sim import metrics
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import usage

#: Those of :class:`fpgapool.sim.metrics.Metrics` that ``expected`` has.
METRICS = ("act_s", "tct95_s", "sar", "dlr", "makespan_s")


class Group(msgspec.Struct, frozen=True):
    """Metrics of some of the jobs."""

    jobs: int
    act_s: float
    tct95_s: float
    p50_s: float
    p99_s: float
    sar: float
    dlr: float
    makespan_s: float


class Utilisation(msgspec.Struct, frozen=True):
    """Shares of what there was from time 0 to the makespan.

    :ivar slots: of the time of all slots; None: there are none.
    :ivar dma: of the bytes that DMA pipes can carry; None: there are none.
    :ivar nic_egress: of the bytes that NICs can send.
    :ivar nic_ingress: of the bytes that NICs can receive.
    """

    slots: float | None
    dma: float | None
    nic_egress: float
    nic_ingress: float


class Energy(msgspec.Struct, frozen=True):
    """Energy from time 0 to the makespan."""

    devices_j: float
    hosts_j: float
    total_j: float


class HostDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """One host.

    :ivar submitted: of the jobs that came from it; None: none did.
    """

    host: int
    utilisation: Utilisation
    submitted: Group | None = None
    energy: Energy | None = None


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """What there is to know beyond the metrics of the scenario format.

    :ivar p50_s: median completion time.
    :ivar p99_s: 99th percentile of the completion time.
    :ivar tenants: by name, if any job has one; "" has none.
    :ivar outside: of the jobs that came from no host of the cluster.
    :ivar energy: None: the scenario says nothing about power.
    """

    p50_s: float
    p99_s: float
    utilisation: Utilisation
    hosts: list[HostDetails]
    energy: Energy | None = None
    tenants: dict[str, Group] = {}
    outside: Group | None = None


class Result(msgspec.Struct, frozen=True):
    """What a policy did with a scenario.

    :ivar outcome: as the scenario format writes it.
    :ivar measured: all metrics of all jobs.
    """

    outcome: scenarios.Outcome
    measured: metrics.Metrics
    details: Details


def columns(
    scenario: scenarios.Scenario, outcomes: Sequence[scenarios.JobOutcome]
) -> metrics.Columns:
    """The jobs of a schedule as vectors.

    :param outcomes: of the scenario's jobs, in its order.
    """
    return metrics.Columns(
        arrivals_s=metrics.column(job.arrival_s for job in scenario.jobs),
        starts_s=metrics.column(job.start_s for job in outcomes),
        finishes_s=metrics.column(job.finish_s for job in outcomes),
        sizes_bytes=metrics.column(job.size_bytes for job in scenario.jobs),
        is_local=np.array([job.local for job in outcomes], dtype=np.bool_),
    )


def evaluate(
    scenario: scenarios.Scenario, outcomes: list[scenarios.JobOutcome]
) -> Result:
    """Measure what a policy did.

    :param outcomes: of the scenario's jobs, in its order.
    """
    jobs = columns(scenario, outcomes)
    measured = metrics.measure_columns(jobs)
    return Result(
        scenarios.Outcome(
            outcomes, {name: getattr(measured, name) for name in METRICS}
        ),
        measured,
        _details(scenario, outcomes, jobs, measured),
    )


def write(found: Mapping[str, Result], path: pathlib.Path) -> None:
    """Write what policies did, as a whole or not at all.

    :param found: by policy.
    :raises fpgapool.sim.errors.InputError: if it cannot be written.
    """
    document = {
        "results": {name: each.outcome for name, each in found.items()},
        "details": {name: each.details for name, each in found.items()},
    }
    text = msgspec.json.format(msgspec.json.encode(document), indent=1)
    files.write(path, text + b"\n")


# -- details ---------------------------------------------------------------


def _details(
    scenario: scenarios.Scenario,
    outcomes: Sequence[scenarios.JobOutcome],
    jobs: metrics.Columns,
    measured: metrics.Metrics,
) -> Details:
    by_host = _groups(jobs, [job.host for job in scenario.jobs])
    by_tenant = _groups(jobs, [job.tenant for job in scenario.jobs])
    hosts, utilisation, energy = _hosts(
        scenario, outcomes, measured.makespan_s, by_host
    )
    return Details(
        p50_s=measured.p50_s,
        p99_s=measured.p99_s,
        utilisation=utilisation,
        hosts=hosts,
        energy=energy,
        tenants={}
        if set(by_tenant) == {""}
        else dict(sorted(by_tenant.items())),
        outside=by_host.get(None),
    )


_Name = typing.TypeVar("_Name", bound=int | str | None)


def _groups(
    jobs: metrics.Columns, names: Sequence[_Name]
) -> dict[_Name, Group]:
    places: dict[_Name, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return {
        name: _group(jobs.of(np.array(some))) for name, some in places.items()
    }


def _group(jobs: metrics.Columns) -> Group:
    measured = metrics.measure_columns(jobs)
    return Group(
        **{name: getattr(measured, name) for name in Group.__struct_fields__}
    )


def _hosts(
    scenario: scenarios.Scenario,
    outcomes: Sequence[scenarios.JobOutcome],
    makespan_s: float,
    by_host: Mapping[int | None, Group],
) -> tuple[list[HostDetails], Utilisation, Energy | None]:
    """Each host, and all of them together."""
    cluster = scenario.cluster
    hosts = range(cluster.hosts)
    used = usage.measure(scenario, outcomes)
    dma = metrics.column(cluster.dma_of(host) for host in hosts)
    nic = metrics.column(cluster.nic_of(host) for host in hosts)
    dma *= used.slots > 0
    spent = usage.energy(cluster, used, makespan_s)

    def utilisation(some: slice) -> Utilisation:
        nics = nic[some] * makespan_s
        return Utilisation(
            slots=_share(used.taken_s[some], used.slots[some] * makespan_s),
            dma=_share(used.dma_bytes[some], dma[some] * makespan_s),
            nic_egress=_share(used.egress_bytes[some], nics) or 0.0,
            nic_ingress=_share(used.ingress_bytes[some], nics) or 0.0,
        )

    def energy(some: slice) -> Energy | None:
        if spent is None:
            return None
        devices_j = float(spent.devices_j[some].sum())
        hosts_j = float(spent.hosts_j[some].sum())
        return Energy(devices_j, hosts_j, devices_j + hosts_j)

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
    all_of_it = float(whole.sum())
    return float(part.sum()) / all_of_it if all_of_it else None
