# SPDX-License-Identifier: Apache-2.0

"""How long sets wait among single jobs: ``python -m tests.benchmarks.sim_sets
[--loads LOAD …] [--seeds N] [--size N] [--strategy NAME …]``.

Some jobs of a generated scenario become sets: several that follow each other
arrive together instead, so that the load stays the same. Prints a row for each
strategy and load: the mean wait of single jobs and of sets over all seeds, how
many times longer sets wait, in all and in the worst seed, and the longest wait
of a set. All jobs end, or the simulation fails: none waits for ever.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import typing

import msgspec

from fpgapool.sim import simulation
from fpgapool.sim.inputs import generating
from fpgapool.sim.inputs import scenario as scenarios

_HOSTS, _BOARDS, _JOBS_PER_HOST = 40, 10, 25
#: The share of jobs that begin a set.
_SHARE = 0.05
#: So many tenants share the pool under ``fair``, with ``fifo``.
_TENANTS = 5


class Waits(typing.NamedTuple):
    """Mean waits of a run, and the longest of a set, in seconds."""

    singles_s: float
    sets_s: float
    longest_s: float


def scenario_of(load: float, seed: int, size: int) -> scenarios.Scenario:
    """Return a scenario with sets of ``size`` jobs."""
    scenario = generating.make_scenario(
        [
            *(f"--hosts={_HOSTS}", f"--boards={_BOARDS}"),
            *(f"--jobs-per-host={_JOBS_PER_HOST}", f"--load={load}"),
        ],
        seed,
        "sim_sets",
    )
    chance = random.Random(f"sets {seed}")
    jobs = [
        msgspec.structs.replace(job, tenant=f"t{job.id % _TENANTS}")
        for job in sorted(scenario.jobs, key=lambda job: job.arrival_s)
    ]
    made: list[scenarios.JobSpec] = []
    while jobs:
        count = size if chance.random() < _SHARE else 1
        taken, jobs = jobs[:count], jobs[count:]
        if len(taken) == size > 1:
            taken = [
                msgspec.structs.replace(
                    job,
                    set_id=f"set{taken[0].id}",
                    arrival_s=taken[-1].arrival_s,
                    tenant=taken[0].tenant,
                )
                for job in taken
            ]
        made += taken
    return msgspec.structs.replace(scenario, jobs=made)


def waits(scenario: scenarios.Scenario, strategy: str, *, fair: bool) -> Waits:
    """Simulate a strategy."""
    outcomes = simulation.run(scenario, strategy, fair_share=fair)
    singles, sets = [], []
    for job, outcome in zip(scenario.jobs, outcomes, strict=True):
        waited_s = outcome.start_s - job.arrival_s
        (singles if job.set_id is None else sets).append(waited_s)
    return Waits(statistics.mean(singles), statistics.mean(sets), max(sets))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--strategy", nargs="+", default=["fifo", "fair", "wra", "auto"]
    )
    parser.add_argument("--loads", nargs="+", type=float, default=[0.7, 0.9])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, default=4)
    options = parser.parse_args()
    _say("strategy  load  singles     sets  ratio  worst  longest")
    for strategy in options.strategy:
        for load in options.loads:
            fair = strategy == "fair"
            found = [
                waits(
                    scenario_of(load, seed, options.size),
                    "fifo" if fair else strategy,
                    fair=fair,
                )
                for seed in range(1, options.seeds + 1)
            ]
            singles_s = statistics.mean(one.singles_s for one in found)
            sets_s = statistics.mean(one.sets_s for one in found)
            worst = max(one.sets_s / one.singles_s for one in found)
            longest_s = max(one.longest_s for one in found)
            _say(
                f"{strategy:8} {load:5.2f} {singles_s:6.1f} s {sets_s:6.1f} s"
                f" {sets_s / singles_s:6.2f} {worst:6.2f} {longest_s:6.1f} s"
            )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
