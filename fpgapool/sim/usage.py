# SPDX-License-Identifier: Apache-2.0

"""What a schedule did with slots, DMA pipes, NICs and energy.

Everything follows from what became of the jobs, so that nothing has to be
watched during a run. Shares and energy are of the time from 0 to the
makespan.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence

import numpy as np

from fpgapool.sim import metrics
from fpgapool.sim import scenario as scenarios


class Usage(typing.NamedTuple):
    """What each host's parts were used for; a vector over the hosts each.

    :ivar slots: how many it has.
    :ivar taken_s: slot-seconds that a job had a slot, programming included.
    :ivar dma_bytes: that went to its device.
    :ivar egress_bytes: that its NIC sent.
    :ivar ingress_bytes: that its NIC received.
    """

    slots: metrics.Floats
    taken_s: metrics.Floats
    dma_bytes: metrics.Floats
    egress_bytes: metrics.Floats
    ingress_bytes: metrics.Floats


class Energy(typing.NamedTuple):
    """Energy in J of each host; a vector over the hosts each."""

    devices_j: metrics.Floats
    hosts_j: metrics.Floats


def measure(
    scenario: scenarios.Scenario, outcomes: Sequence[scenarios.JobOutcome]
) -> Usage:
    """Add up what the jobs of a schedule used.

    :param outcomes: of the scenario's jobs, in its order.
    """
    cluster = scenario.cluster
    slots = np.zeros(cluster.hosts)
    for host in cluster.fpga_hosts:
        slots[host] = cluster.slot_count(host)
    ratios = {
        name: profile.return_ratio
        for name, profile in cluster.accelerators.items()
    }
    sizes = metrics.column(job.size_bytes for job in scenario.jobs)
    back = sizes * metrics.column(
        ratios[job.accelerator] for job in scenario.jobs
    )
    at = np.array([outcome.host for outcome in outcomes])
    # Outside of the cluster there is no NIC; −1 becomes an extra host.
    origin = np.array(
        [-1 if job.host is None else job.host for job in scenario.jobs]
    )
    remote = at != origin

    def added(
        hosts: np.ndarray[typing.Any, typing.Any], values: metrics.Floats
    ) -> metrics.Floats:
        sums = np.bincount(hosts + 1, values, cluster.hosts + 1)
        return sums[1:].astype(np.float64)

    return Usage(
        slots=slots,
        taken_s=added(at, _taken_s(scenario, outcomes)),
        dma_bytes=added(at, sizes),
        egress_bytes=added(origin, sizes * remote) + added(at, back * remote),
        ingress_bytes=added(at, sizes * remote) + added(origin, back * remote),
    )


def _taken_s(
    scenario: scenarios.Scenario, outcomes: Sequence[scenarios.JobOutcome]
) -> metrics.Floats:
    """How long each job had its slot, programming included."""
    taken_s = metrics.column(job.finish_s - job.start_s for job in outcomes)
    programming_s = scenario.cluster.reconfiguration_s
    if programming_s:
        programmed: dict[tuple[int, int], str] = {}
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
    """Compute the energy that a schedule took.

    A device takes its idle power all the time and, for each of its slots
    that is taken, its share of what active power is above that.

    :returns: None: the scenario says nothing about power.
    """
    power = cluster.power
    if power is None:
        return None
    has_device = used.slots > 0
    taken_s = np.divide(
        used.taken_s,
        used.slots,
        out=np.zeros(cluster.hosts),
        where=has_device,
    )
    extra_w = power.device_active_w - power.device_idle_w
    return Energy(
        devices_j=has_device * power.device_idle_w * makespan_s
        + extra_w * taken_s,
        hosts_j=np.full(cluster.hosts, power.host_w * makespan_s),
    )
