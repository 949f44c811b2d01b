# SPDX-License-Identifier: Apache-2.0

"""Use of slots, DMA pipes, NICs and energy by a schedule.

The results of the jobs are enough to compute it; a run need not be observed.
Shares and energy are those from time 0 to the makespan.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpgapool.sim import metrics
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import schedules
from fpgapool.sim.engines import base


class Usage(typing.NamedTuple):
    """Use of each host; each member is a vector over the hosts.

    :ivar slots: number of its slots for jobs.
    :ivar core_s: core-seconds with jobs.
    :ivar taken_s: slot-seconds with jobs, programming included.
    :ivar platform_s: those of jobs on platforms whose power is known.
    :ivar platform_j: the energy that these jobs took, in addition to that of
        the idle device.
    :ivar dma_bytes: bytes that went to its device.
    :ivar egress_bytes: bytes that its NIC sent.
    :ivar ingress_bytes: bytes that its NIC received.
    """

    slots: metrics.Floats
    core_s: metrics.Floats
    taken_s: metrics.Floats
    platform_s: metrics.Floats
    platform_j: metrics.Floats
    dma_bytes: metrics.Floats
    egress_bytes: metrics.Floats
    ingress_bytes: metrics.Floats


class Energy(typing.NamedTuple):
    """Energy in J of each host; each member is a vector over the hosts."""

    devices_j: metrics.Floats
    cores_j: metrics.Floats
    hosts_j: metrics.Floats


def measure(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> Usage:
    """Add up the use by all jobs of a schedule.

    :param outcomes: of the scenario's jobs, in its order.
    """
    cluster = scenario.cluster
    slots = np.zeros(cluster.hosts)
    for slot in base.slots_of(cluster)[scenario.group_slots :]:
        slots[slot.host] += 1
    ratios = {
        name: profile.return_ratio
        for name, profile in cluster.accelerators.items()
    }
    sizes = metrics.column(job.size_bytes for job in scenario.jobs)
    back = sizes * metrics.column(
        ratios[job.accelerator] for job in scenario.jobs
    )
    at = _places(outcome.host for outcome in outcomes)
    origin = _places(job.host for job in scenario.jobs)
    remote = at != origin
    if cluster.cores_per_host is not None:
        # Their jobs use no pipes.
        sizes, back = 0 * sizes, 0 * back
    cores = [outcome.core for outcome in outcomes]

    def added(
        hosts: np.ndarray[typing.Any, typing.Any], values: metrics.Floats
    ) -> metrics.Floats:
        sums = np.bincount(hosts + 1, values, cluster.hosts + 1)
        return sums[1:].astype(np.float64)

    taken_s = _taken_s(scenario, outcomes)
    active_w = _active_w(scenario, outcomes)
    is_known = np.isfinite(active_w)
    return Usage(
        slots=slots,
        core_s=added(
            _places(None if core is None else core.host for core in cores),
            metrics.column(job.finish_s - job.start_s for job in outcomes),
        ),
        taken_s=added(at, taken_s),
        platform_s=added(at, taken_s * is_known),
        platform_j=added(at, taken_s * np.where(is_known, active_w, 0.0)),
        dma_bytes=added(at, sizes),
        egress_bytes=added(origin, sizes * remote) + added(at, back * remote),
        ingress_bytes=added(at, sizes * remote) + added(origin, back * remote),
    )


def _places(hosts: Iterable[int | None]) -> npt.NDArray[np.int64]:
    """Return numbers of hosts; −1: outside of the cluster, or none."""
    return np.array([-1 if host is None else host for host in hosts])


def _active_w(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> metrics.Floats:
    """Return the power of each job on its platform; not a number: unknown."""
    cluster = scenario.cluster

    def of(job: scenarios.JobSpec, host: int | None) -> float:
        if host is None:
            return math.nan
        platforms = cluster.accelerators[job.accelerator].platforms
        platform = platforms.get(cluster.shape_of(host))
        if platform is None or platform.active_w is None:
            return math.nan
        return platform.active_w

    return metrics.column(
        of(job, outcome.host)
        for job, outcome in zip(scenario.jobs, outcomes, strict=True)
    )


def _taken_s(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> metrics.Floats:
    """Return how long each job had its slot, programming included."""
    taken_s = metrics.column(
        job.finish_s - job.start_s if job.core is None else job.core.slot_s
        for job in outcomes
    )
    programming_s = scenario.cluster.reconfiguration_s
    if programming_s:
        programmed: dict[tuple[int | None, int | None], str] = {}
        for place in sorted(
            range(len(outcomes)), key=lambda at: outcomes[at].start_s
        ):
            slot = (outcomes[place].host, outcomes[place].slot)
            wanted = scenario.jobs[place].accelerator
            if programmed.get(slot) != wanted:
                programmed[slot] = wanted
                taken_s[place] += programming_s
    return taken_s


def energy(
    cluster: scenarios.Cluster, used: Usage, makespan_s: float
) -> Energy | None:
    """Compute the energy of a schedule.

    A device takes its idle power all the time. For each slot with a job it
    takes the power of the accelerator on this platform; if that is unknown,
    the slot's share of the difference between active and idle power. Each core
    with a job takes its power, too.

    :returns: None: the scenario has no powers.
    """
    power = cluster.power
    if power is None:
        return None
    has_device = used.slots > 0
    taken_s = np.divide(
        used.taken_s - used.platform_s,
        used.slots,
        out=np.zeros(cluster.hosts),
        where=has_device,
    )
    extra_w = power.device_active_w - power.device_idle_w
    return Energy(
        devices_j=has_device * power.device_idle_w * makespan_s
        + extra_w * taken_s
        + used.platform_j,
        cores_j=power.core_active_w * used.core_s,
        hosts_j=np.full(cluster.hosts, power.host_w * makespan_s),
    )
