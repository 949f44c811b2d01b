# SPDX-License-Identifier: Apache-2.0

"""What is asked of both: the testbed, and who sends which jobs.

Times are those of real boards. The real system works with all sizes and all
rates multiplied by the same factor, which leaves times as they are and lets
a small machine keep up.
"""

from __future__ import annotations

import dataclasses
import statistics

from fpgapool.core import distributions
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import workloads
from fpgapool.sim.validation import tenant

#: The testbed of the paper. The first hosts have the boards.
HOSTS = 5
BOARDS = 3
SLOTS = 4
#: What fpgapool-allinone emulates.
PROGRAMMING_TIME_S = 0.05
RETURN_RATIOS = {"aes": 1.0, "ec": 1.5, "dtw": 0.01, "fft": 1.0, "sha": 0.0}

POLICY = "fifo"

MEAN_BYTES = 500e6
DEVIATION_BYTES = 200e6
#: What a Gaussian distribution has below is taken for this.
MIN_BYTES = 50e6
_QUANTILES = 1000


@dataclasses.dataclass(frozen=True)
class Mode:
    """One of the paper's job patterns (Table 2).

    :ivar hosts: numbers of those that jobs come from.
    :ivar purpose: what is put to the test, for people.
    :ivar bytes_per_s: that arrive. So many that jobs often share pipes and
        links, and so few that a job which is a little late does not change
        the places of all that come after it: that would make two runs of the
        real system differ by more than what is to be seen.
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
    """The testbed, as the simulator is told of it."""
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

    :param jobs: how many.
    :param seed: the same one gives the same jobs.
    :param scale: factor of sizes in the real system; there they are whole
        numbers of what an accelerator takes, and here the same.
    """
    testbed = cluster()
    workload = workloads.Workload(
        sizes=distributions.Empirical(_gaussian_sizes_bytes()),
        load=mode.bytes_per_s / workloads.capacity_bytes_per_s(testbed),
        accelerators=dict.fromkeys(testbed.accelerators, 1.0),
        host_weights={
            host: float(host in mode.hosts) for host in range(HOSTS)
        },
        jobs=jobs,
    )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        name=f"{mode.name} mode",
        cluster=testbed,
        # As the conductor does by default.
        policies={POLICY: scenarios.Policy(slot_choice="least_busy")},
        jobs=[
            _rounded(job, scale)
            for job in workloads.make_jobs(workload, testbed, seed)
        ],
    )


def _gaussian_sizes_bytes() -> list[float]:
    gaussian = statistics.NormalDist(MEAN_BYTES, DEVIATION_BYTES)
    return [
        max(MIN_BYTES, gaussian.inv_cdf((place + 0.5) / _QUANTILES))
        for place in range(_QUANTILES)
    ]


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
    """How large a job is in the real system.

    :param scale: factor of sizes there.
    """
    unit_bytes = tenant.KINDS[job.accelerator].unit_bytes
    return max(1, round(job.size_bytes * scale / unit_bytes)) * unit_bytes
