# SPDX-License-Identifier: Apache-2.0

"""Floor of simulations: a run of ``wra`` as one loop over arrays.

It knows the clusters of :mod:`.sim_clusters` only, looks at the waiting jobs
one by one for each slot that it offers, and is compiled as a whole by numba.
What flows share is computed by the functions of the simulator's engine, so
that ends are the same to the last bit.
"""

from __future__ import annotations

import bisect
import functools
import math
import typing
from collections.abc import Callable

import numba
import numba.extending
import numpy as np
import numpy.typing as npt

from fpgapool.core.queues import thresholds
from fpgapool.sim.engines import base
from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import sharing
from fpgapool.sim.inputs import scenario as scenarios

_NOBODY = -1
#: The default of ``wra``, and the tolerance of its rule.
_WAIT_S_PER_BYTE = 1e-8
_TOLERANCE_S = 1e-12

_inlined = numba.extending.register_jitable

_Floats = npt.NDArray[np.float64]
_Wholes = npt.NDArray[np.int64]


class Jobs(typing.NamedTuple):
    """All jobs, in the order in which they come."""

    id: _Wholes
    arrival_s: _Floats
    host: _Wholes
    size_bytes: _Floats
    peak_bytes_per_s: _Floats
    queue: _Wholes


class Cluster(typing.NamedTuple):
    """Hosts and slots; a host's board has a number, or is -1."""

    board: _Wholes
    slot_host: _Wholes
    slots_per_board: int
    return_ratio: float
    remote_limit: int
    skip_limit: int


class Plain:
    """Runs a scenario.

    :param scenario: of :mod:`.sim_clusters`, with ``wra``.
    :param compiles: if not, Python runs the loop.
    """

    def __init__(self, scenario: scenarios.Scenario, compiles: bool) -> None:
        [options] = scenario.strategies.values()
        cluster = scenario.cluster
        bounds = thresholds.hybrid_thresholds(
            options.E_bytes, options.q, options.k1, options.k2, options.queues
        )
        profiles = cluster.accelerators
        [return_ratio] = {one.return_ratio for one in profiles.values()}
        boards = sorted(cluster.fpga_hosts)
        board = np.full(cluster.hosts, _NOBODY)
        board[boards] = range(len(boards))
        jobs = sorted(scenario.jobs, key=lambda job: (job.arrival_s, job.id))
        self._jobs = Jobs(
            np.array([job.id for job in jobs]),
            np.array([job.arrival_s for job in jobs]),
            np.array([job.host for job in jobs]),
            np.array([float(job.size_bytes) for job in jobs]),
            np.array([profiles[j.accelerator].peak_bytes_per_s for j in jobs]),
            np.array([bisect.bisect_left(bounds, j.size_bytes) for j in jobs]),
        )
        self._cluster = Cluster(
            board,
            np.repeat(boards, cluster.slots_per_device),
            cluster.slots_per_device,
            return_ratio,
            options.remote_limit,
            options.skip_limit,
        )
        self._capacities = base.Pipes(cluster).capacities_bytes_per_s
        self._compiles = compiles

    def run(self, seed: int = 1) -> dict[int, float]:
        """Return when each job ends, by its id."""
        made = sharing.make_network(
            self._capacities, len(self._cluster.slot_host)
        )
        ends = (_compiled() if self._compiles else _run)(
            self._jobs,
            self._cluster,
            compiling.arrays(made),
            np.random.default_rng(seed),
        )
        return dict(zip(self._jobs.id.tolist(), ends.tolist(), strict=True))


@functools.cache
def _compiled() -> Callable[..., _Floats]:
    compiling.register()
    return numba.njit(_run)


def _run(
    jobs: Jobs,
    cluster: Cluster,
    net: sharing.Network,
    generator: np.random.Generator,
) -> _Floats:
    """Return when each job ends."""
    count, slots = len(jobs.id), len(cluster.slot_host)
    end_s = np.zeros(count)
    holder = np.full(slots, _NOBODY)
    # In the order of the strategy.
    waiting = np.zeros(count, np.int64)
    skips = np.zeros(count, np.int64)
    # The slots of each host that jobs of others have.
    remote = np.zeros(len(cluster.board), np.int64)
    waits = come = done = 0
    while done < count:
        next_s = jobs.arrival_s[come] if come < count else math.inf
        now, ended = sharing.collect_done(net, next_s)
        for at in range(ended):
            slot = net.found[at]
            sharing.stop(net, slot)
            host, job = cluster.slot_host[slot], holder[slot]
            end_s[job] = now
            holder[slot] = _NOBODY
            remote[host] -= jobs.host[job] != host
        done += ended
        while come < count and jobs.arrival_s[come] == now:
            slot = _own_slot(jobs, cluster, holder, come)
            if slot >= 0:
                _start(jobs, cluster, holder, net, slot, come, now)
            else:
                at = waits
                while at and jobs.queue[come] < jobs.queue[waiting[at - 1]]:
                    waiting[at] = waiting[at - 1]
                    at -= 1
                waiting[at] = come
                waits += 1
            come += 1
        if waits:
            idle = np.flatnonzero(holder == _NOBODY)
            if len(idle) > 1:
                idle = idle[generator.permutation(len(idle))]
            for slot in idle[:waits]:
                at = _choose(
                    jobs, cluster, waiting[:waits], skips, remote, slot, now
                )
                host, job = cluster.slot_host[slot], waiting[at]
                waits -= 1
                waiting[at:waits] = waiting[at + 1 : waits + 1]
                remote[host] += jobs.host[job] != host
                _start(jobs, cluster, holder, net, slot, job, now)
        sharing.settle(net, now)
    return end_s


@_inlined
def _own_slot(jobs: Jobs, cluster: Cluster, holder: _Wholes, job: int) -> int:
    """Return the first idle slot of a job's host; -1: it has none."""
    board = cluster.board[jobs.host[job]]
    if board >= 0:
        first = board * cluster.slots_per_board
        for slot in range(first, first + cluster.slots_per_board):
            if holder[slot] == _NOBODY:
                return slot
    return _NOBODY


@_inlined
def _choose(
    jobs: Jobs,
    cluster: Cluster,
    waiting: _Wholes,
    skips: _Wholes,
    remote: _Wholes,
    slot: int,
    now: float,
) -> int:
    """Return the place of the job that gets a slot, and count skips."""
    host = cluster.slot_host[slot]
    is_open = remote[host] < cluster.remote_limit
    for at in range(len(waiting)):
        job = waiting[at]
        if jobs.host[job] == host:
            return at
        if not is_open:
            continue
        needed_s = _WAIT_S_PER_BYTE * jobs.size_bytes[job] - _TOLERANCE_S
        if (
            cluster.board[jobs.host[job]] < 0
            or now - jobs.arrival_s[job] >= needed_s
            or skips[job] >= cluster.skip_limit
        ):
            return at
        skips[job] += 1
    return 0


@_inlined
def _start(
    jobs: Jobs,
    cluster: Cluster,
    holder: _Wholes,
    net: sharing.Network,
    slot: int,
    job: int,
    now: float,
) -> None:
    """Let a job use a slot, and the pipes to its data."""
    holder[slot] = job
    host, source = cluster.slot_host[slot], jobs.host[job]
    hosts = len(cluster.board)
    boards = len(holder) // cluster.slots_per_board
    sharing.use(net, slot, cluster.board[host], 1.0)
    if host != source:
        sharing.use(net, slot, boards + source, 1.0)
        sharing.use(net, slot, boards + hosts + host, 1.0)
        sharing.use(net, slot, boards + host, cluster.return_ratio)
        sharing.use(net, slot, boards + hosts + source, cluster.return_ratio)
    sharing.start(
        net, slot, jobs.peak_bytes_per_s[job], jobs.size_bytes[job], now
    )
