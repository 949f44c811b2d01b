# SPDX-License-Identifier: Apache-2.0

"""Synthetic workloads: jobs that arrive at random on a cluster.

A seed determines everything. Each property of the jobs (arrival, host, size,
accelerator, tenant) has its own random numbers. Changing one property leaves
the others as they are, so clusters can be compared on the same jobs.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics

_Places = npt.NDArray[np.int64]

#: Assumed peak rates of the pool's own accelerators in bytes/s.
PEAKS_BYTES_PER_S = {
    "aes": 1.2e9,
    "ec": 0.8e9,
    "dtw": 0.4e9,
    "fft": 1.0e9,
    "sha": 0.6e9,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Tenant:
    """A customer.

    :ivar share: share of the jobs, relative to the other tenants' shares.
    :ivar board_share: the fraction of its jobs that come from hosts with a
        board, from 0 to 1; None: the hosts' weights decide.
    """

    name: str
    share: float = 1.0
    board_share: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """Describes jobs; exactly one of the last three fields must be given.

    :ivar load: arriving bytes per second, divided by the rate of all boards'
        DMA pipes. Near and above 1, a queue builds up.
    :ivar bias: weight of a host with a board; other hosts have weight 1.
    :ivar host_weights: by host, a factor for its weight; default 1.
    :ivar tenants: if empty, jobs have no tenant.
    :ivar jobs_per_host: number of jobs from each host, or their mean if the
        hosts have different weights.
    """

    sizes: distributions.SizeDistribution
    load: float
    accelerators: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(PEAKS_BYTES_PER_S, 1.0)
    )
    bias: float = 1.0
    host_weights: Mapping[int, float] = dataclasses.field(default_factory=dict)
    tenants: Sequence[Tenant] = ()
    jobs_per_host: int | None = None
    jobs: int | None = None
    duration_s: float | None = None

    def __post_init__(self) -> None:
        limits = (self.jobs_per_host, self.jobs, self.duration_s)
        given = [limit for limit in limits if limit is not None]
        if len(given) != 1:
            raise ValueError(
                "exactly one of jobs_per_host, jobs and duration_s must be "
                "given"
            )
        _check_positive(given[0], "the number of jobs or their duration")
        _check_positive(self.load, "load")
        _check_positive(self.bias, "bias")
        check_weights(self.accelerators, "accelerators")
        shares = {tenant.name: tenant.share for tenant in self.tenants}
        if len(shares) < len(self.tenants):
            raise ValueError("duplicate tenant name")
        if shares:
            check_weights(shares, "tenants")
        for tenant in self.tenants:
            if not 0 <= (tenant.board_share or 0) <= 1:
                raise ValueError(
                    f"the board share of tenant {tenant.name!r} must be "
                    f"from 0 to 1, not {tenant.board_share}"
                )

    def rate_per_s(self, cluster: scenarios.Cluster) -> float:
        return (
            self.load * capacity_bytes_per_s(cluster) / self.sizes.mean_bytes
        )


def make_cluster(
    hosts: int,
    boards: int,
    return_ratio: float,
    *,
    slots: int = 4,
    peak_factor: float = 1.0,
) -> scenarios.Cluster:
    """Make a cluster with the pool's accelerators and evenly spread boards.

    :param peak_factor: multiplies the accelerators' peak rates.
    :raises ValueError: if the number of boards is not from 1 to the number of
        hosts.
    """
    return scenarios.Cluster(
        hosts=hosts,
        fpga_hosts=spread_boards(hosts, boards),
        slots_per_device=slots,
        accelerators={
            name: scenarios.AcceleratorProfile(
                peak * peak_factor, return_ratio
            )
            for name, peak in PEAKS_BYTES_PER_S.items()
        },
    )


def capacity_bytes_per_s(cluster: scenarios.Cluster) -> float:
    """Return the rate of all boards' DMA pipes together."""
    return sum(cluster.dma_of(host) for host in cluster.fpga_hosts)


def spread_boards(hosts: int, boards: int) -> tuple[int, ...]:
    """Return the hosts that have a board if boards are spread evenly.

    :raises ValueError: if the number of boards is not from 1 to the number of
        hosts.
    """
    if not 1 <= boards <= hosts:
        raise ValueError(
            f"the number of boards must be from 1 to {hosts}, the number of "
            f"hosts, not {boards}"
        )
    return tuple(board * hosts // boards for board in range(boards))


def make_jobs(
    workload: Workload, cluster: scenarios.Cluster, seed: int
) -> list[scenarios.JobSpec]:
    """Draw the jobs of a workload.

    :returns: the jobs by arrival; ids count from 0.
    :raises ValueError: if the workload does not fit the cluster, or no job
        arrives within its duration.
    """
    _check_count(workload, cluster)
    streams = _Streams(seed)
    weights = _host_weights(workload, cluster)
    if workload.jobs_per_host is not None and _is_even(workload, weights):
        arrivals_s, hosts = _arrivals_per_host(
            workload.jobs_per_host,
            workload.rate_per_s(cluster) / cluster.hosts,
            cluster.hosts,
            streams.arrivals,
        )
        tenants = _draw_tenants(workload, arrivals_s.size, streams)
    else:
        arrivals_s = _arrivals(workload, cluster, streams.arrivals)
        tenants = _draw_tenants(workload, arrivals_s.size, streams)
        hosts = _draw_hosts(workload, cluster, weights, tenants, streams)
    if not arrivals_s.size:
        raise ValueError(f"no job arrives in {workload.duration_s} s")
    count = arrivals_s.size
    names = sorted(workload.accelerators)
    chosen = _draw(
        [workload.accelerators[name] for name in names],
        streams.accelerators.random(count),
    )
    sizes = workload.sizes.quantile(streams.sizes.random(count))
    return [
        scenarios.JobSpec(
            id=number,
            host=int(hosts[number]),
            # Sizes are whole bytes, and times whole nanoseconds.
            size_bytes=float(max(1.0, round(float(sizes[number])))),
            arrival_s=round(float(arrivals_s[number]), 9),
            accelerator=names[chosen[number]],
            tenant=(
                workload.tenants[tenants[number]].name
                if workload.tenants
                else ""
            ),
        )
        for number in range(count)
    ]


def _check_count(workload: Workload, cluster: scenarios.Cluster) -> None:
    count = (
        workload.jobs
        or (workload.jobs_per_host or 0) * cluster.hosts
        or (workload.duration_s or 0.0) * workload.rate_per_s(cluster)
    )
    if count > scenarios.MAX_JOBS:
        raise ValueError(
            f"{count:.3g} jobs exceed the limit of {scenarios.MAX_JOBS:.0e}"
        )


class _Streams:
    """Uniform random numbers for each property of the jobs.

    This module converts them itself, because libraries may change their
    methods.
    """

    def __init__(self, seed: int) -> None:
        (
            self.arrivals,
            self.hosts,
            self.sizes,
            self.accelerators,
            self.tenants,
        ) = (
            np.random.Generator(np.random.PCG64(each))
            for each in np.random.SeedSequence(seed).spawn(5)
        )


def _host_weights(
    workload: Workload, cluster: scenarios.Cluster
) -> metrics.Floats:
    weights = np.ones(cluster.hosts)
    weights[list(cluster.fpga_hosts)] = workload.bias
    for host, weight in workload.host_weights.items():
        if not 0 <= host < cluster.hosts:
            raise ValueError(
                f"there is no host {host}; hosts are numbered 0 to "
                f"{cluster.hosts - 1}"
            )
        if not 0 <= weight < math.inf:
            raise ValueError(
                f"the weight of host {host} must be at least 0 and finite, "
                f"not {weight}"
            )
        weights[host] *= weight
    if not weights.sum() > 0:
        raise ValueError("all hosts have weight 0")
    return weights


def _is_even(workload: Workload, weights: metrics.Floats) -> bool:
    return bool(np.all(weights == weights[0])) and all(
        tenant.board_share is None for tenant in workload.tenants
    )


def _arrivals_per_host(
    per_host: int, rate_per_s: float, hosts: int, stream: np.random.Generator
) -> tuple[metrics.Floats, _Places]:
    """Draw arrivals of a Poisson process per host, and sort them."""
    gaps_s = _exponential(stream.random((hosts, per_host)), rate_per_s)
    arrivals_s = np.cumsum(gaps_s, axis=1).ravel()
    origins = np.repeat(np.arange(hosts), per_host)
    order = np.argsort(arrivals_s, kind="stable")
    return arrivals_s[order], origins[order]


def _arrivals(
    workload: Workload,
    cluster: scenarios.Cluster,
    stream: np.random.Generator,
) -> metrics.Floats:
    """Draw the arrivals of all hosts together, as one Poisson process."""
    rate_per_s = workload.rate_per_s(cluster)
    if workload.duration_s is None:
        count = workload.jobs or (workload.jobs_per_host or 0) * cluster.hosts
        return np.cumsum(_exponential(stream.random(count), rate_per_s))
    found: list[metrics.Floats] = []
    end_s = 0.0
    while end_s <= workload.duration_s:
        # A seed gives the same arrivals for every duration.
        block = end_s + np.cumsum(
            _exponential(stream.random(1000), rate_per_s)
        )
        found.append(block)
        end_s = float(block[-1])
    arrivals_s = np.concatenate(found)
    return arrivals_s[arrivals_s <= workload.duration_s]


def _exponential(
    uniform: npt.NDArray[np.float64], rate_per_s: float
) -> npt.NDArray[np.float64]:
    return np.asarray(-np.log1p(-uniform) / rate_per_s)


def _draw_tenants(
    workload: Workload, count: int, streams: _Streams
) -> _Places:
    if not workload.tenants:
        return np.zeros(count, dtype=np.int64)
    shares = [tenant.share for tenant in workload.tenants]
    return _draw(shares, streams.tenants.random(count))


def _draw_hosts(
    workload: Workload,
    cluster: scenarios.Cluster,
    weights: metrics.Floats,
    tenants: _Places,
    streams: _Streams,
) -> _Places:
    """Draw the jobs' hosts, by weight or by the tenants' shares."""
    uniform = streams.hosts.random(tenants.size)
    hosts = _draw(weights, uniform)
    for place, tenant in enumerate(workload.tenants):
        if tenant.board_share is not None:
            own = tenants == place
            hosts[own] = _draw(
                _tenant_weights(tenant, cluster, weights), uniform[own]
            )
    return hosts


def _tenant_weights(
    tenant: Tenant, cluster: scenarios.Cluster, weights: metrics.Floats
) -> metrics.Floats:
    """Return weights that give hosts with a board the tenant's share."""
    has_board = np.zeros(cluster.hosts, dtype=np.bool_)
    has_board[list(cluster.fpga_hosts)] = True
    share = tenant.board_share or 0.0
    own = np.zeros(cluster.hosts)
    for some, part, place in (
        (has_board, share, "with a board"),
        (~has_board, 1.0 - share, "without a board"),
    ):
        if part > 0:
            total = weights[some].sum()
            if not total > 0:
                raise ValueError(
                    f"tenant {tenant.name!r} needs hosts {place}, but none "
                    "has a weight above 0"
                )
            own[some] = weights[some] * part / total
    return own


def _draw(weights: npt.ArrayLike, uniform: npt.NDArray[np.float64]) -> _Places:
    edges = np.cumsum(np.asarray(weights, dtype=np.float64))
    # Without the last edge, rounding cannot lead past the end, and places
    # without weight at the end are never chosen.
    last = int(np.flatnonzero(np.diff(edges, prepend=0.0) > 0)[-1])
    places = np.searchsorted(edges[:last], uniform * edges[-1], side="right")
    return np.asarray(places, dtype=np.int64)


def _check_positive(value: float, name: str) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be above 0 and finite, not {value}")


def check_weights(weights: Mapping[str, float], name: str) -> None:
    """Check that something can be drawn by weight.

    :raises ValueError: if a weight is invalid, or all are 0.
    """
    for key, weight in weights.items():
        if not 0 <= weight < math.inf:
            raise ValueError(
                f"the weight of {key!r} must be at least 0 and finite, "
                f"not {weight}"
            )
    if not sum(weights.values()) > 0:
        raise ValueError(f"{name}: at least one weight must be above 0")


def summary(
    cluster: scenarios.Cluster, jobs: Sequence[scenarios.JobSpec]
) -> dict[str, typing.Any]:
    """Return figures of a scenario's jobs.

    :returns: ``jobs``, ``mean_bytes``, ``total_bytes``, ``last_arrival_s``,
        and ``load`` up to the last arrival; None if all jobs arrive at once.
    """
    total_bytes = math.fsum(job.size_bytes for job in jobs)
    last_s = max(job.arrival_s for job in jobs)
    capacity = capacity_bytes_per_s(cluster)
    return {
        "jobs": len(jobs),
        "mean_bytes": total_bytes / len(jobs),
        "total_bytes": total_bytes,
        "last_arrival_s": last_s,
        "load": total_bytes / last_s / capacity if last_s > 0 else None,
    }
