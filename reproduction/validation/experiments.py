# SPDX-License-Identifier: Apache-2.0

"""The testbed and the jobs for both systems.

Times are those of real boards. The real system multiplies all sizes and rates
by the same factor. Times stay the same, and a small machine can keep up.
"""

from __future__ import annotations

import dataclasses

from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads
from reproduction.figures import clusters
from reproduction.validation import tenant

#: The testbed of the paper. The first hosts have the boards.
HOSTS = 5
BOARDS = 3
SLOTS = 4
#: Values of the boards that fpgapool-allinone emulates.
PROGRAMMING_TIME_S = 0.05
RETURN_RATIOS = {"aes": 1.0, "ec": 1.5, "dtw": 0.01, "fft": 1.0, "sha": 0.0}

STRATEGY = "fifo"

MEAN_BYTES = 500e6
DEVIATION_BYTES = 200e6
#: Replaces smaller sizes of the Gaussian distribution.
MIN_BYTES = 50e6


@dataclasses.dataclass(frozen=True)
class Mode:
    """One of the paper's job patterns (Table 2).

    :ivar hosts: numbers of the hosts that jobs come from.
    :ivar purpose: of the mode, for people.
    :ivar bytes_per_s: that arrive. With this rate jobs often share pipes and
        links. With a higher rate, a job that is a little late would change
        the places of all later jobs, and two runs of the real system would
        differ by more than the simulator from them.
    """

    name: str
    hosts: range
    purpose: str
    bytes_per_s: float


MODES = {
    mode.name: mode
    for mode in (
        Mode("local", range(BOARDS), "all jobs from hosts with a board", 8e8),
        Mode(
            "remote",
            range(BOARDS, HOSTS),
            "all jobs from hosts without a board",
            1.6e9,
        ),
        Mode("global", range(HOSTS), "jobs from all hosts", 1e9),
    )
}


def cluster() -> scenarios.Cluster:
    """Return the testbed for the simulator."""
    return scenarios.Cluster(
        hosts=HOSTS,
        fpga_hosts=tuple(range(BOARDS)),
        slots_per_device=SLOTS,
        reconfiguration_s=PROGRAMMING_TIME_S,
        accelerators={
            name: scenarios.AcceleratorProfile(
                workloads.PEAKS_BYTES_PER_S[name], return_ratio
            )
            for name, return_ratio in RETURN_RATIOS.items()
        },
    )


def make_scenario(
    mode: Mode, jobs: int, seed: int, scale: float
) -> scenarios.Scenario:
    """Draw the jobs of a mode: Gaussian sizes, Poisson arrivals.

    :param seed: the same seed gives the same jobs.
    :param scale: factor of sizes in the real system. Scaled sizes are
        multiples of the accelerator's unit, and sizes here correspond.
    """
    testbed = cluster()
    workload = workloads.Workload(
        sizes=clusters.gaussian(MEAN_BYTES, DEVIATION_BYTES, MIN_BYTES),
        load=mode.bytes_per_s / workloads.capacity_bytes_per_s(testbed),
        host_weights={
            host: float(host in mode.hosts) for host in range(HOSTS)
        },
        jobs=jobs,
    )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        name=f"{mode.name} mode",
        cluster=testbed,
        # The conductor's default.
        strategies={
            STRATEGY: scenarios.StrategyOptions(slot_choice="least_busy")
        },
        jobs=[
            _rounded(job, scale)
            for job in workloads.make_jobs(workload, testbed, seed)
        ],
    )


def _rounded(job: scenarios.JobSpec, scale: float) -> scenarios.JobSpec:
    scaled = scaled_bytes(job, scale)
    return scenarios.JobSpec(
        id=job.id,
        host=job.host,
        size_bytes=scaled / scale,
        arrival_s=job.arrival_s,
        accelerator=job.accelerator,
    )


def scaled_bytes(job: scenarios.JobSpec, scale: float) -> int:
    """Return the size of a job in the real system."""
    unit_bytes = tenant.KINDS[job.accelerator].unit_bytes
    return max(1, round(job.size_bytes * scale / unit_bytes)) * unit_bytes
