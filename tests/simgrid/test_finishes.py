# SPDX-License-Identifier: Apache-2.0

"""The fluid engine ends jobs when SimGrid ends them.

Run it with ``make test-simgrid`` after a change of the fluid engine.
"""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import schedules
from tests.benchmarks import sim_clusters
from tests.simgrid import flows

#: Relative to the time of the end. Mostly the last bits differ, but both take
#: ends that are very close for one: SimGrid those within 1e-12 s (as it is
#: told to), the fluid engine those within 1e-9 of a job's bytes.
TOLERANCE = 1e-9

_CASE = pathlib.Path(__file__).parents[1] / "cases/09_wra_exp_60jobs.json"
_PEAKS = {"aes": 1.2e9, "ec": 0.8e9, "dtw": 0.4e9}


def _make(
    hosts: int,
    fpga_hosts: tuple[int, ...],
    jobs: list[tuple[int | None, float, float, str]],
    *,
    slots: int = 4,
    ratios: dict[str, float] | None = None,
) -> scenarios.Scenario:
    """A scenario under fifo.

    :param jobs: host, bytes, arrival in s, accelerator.
    :param ratios: return ratios by accelerator, where it is not 0.
    """
    ratios = ratios or {}
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(
            hosts=hosts,
            fpga_hosts=fpga_hosts,
            slots_per_device=slots,
            accelerators={
                name: scenarios.AcceleratorProfile(peak, ratios.get(name, 0.0))
                for name, peak in _PEAKS.items()
            },
        ),
        strategies={"fifo": scenarios.StrategyOptions()},
        jobs=[
            scenarios.JobSpec(number, *job) for number, job in enumerate(jobs)
        ],
    )


def _mixed(scenario: scenarios.Scenario) -> scenarios.Scenario:
    """Leave results to every other accelerator only."""
    cluster = scenario.cluster
    profiles = {
        name: msgspec.structs.replace(profile, return_ratio=float(at % 2))
        for at, (name, profile) in enumerate(cluster.accelerators.items())
    }
    return msgspec.structs.replace(
        scenario,
        cluster=msgspec.structs.replace(cluster, accelerators=profiles),
    )


SCENARIOS = {
    # Peak rates, then the DMA pipe of 2.1 GB/s.
    "local": _make(
        1,
        (0,),
        [
            (0, 6e8, 0.0, "aes"),
            (0, 5e8, 0.1, "ec"),
            (0, 7e8, 0.2, "dtw"),
            (0, 3e8, 0.25, "aes"),
            (0, 4e8, 0.3, "ec"),
        ],
    ),
    # Three senders, one of them with two jobs, into one NIC.
    "remote": _make(
        4,
        (0,),
        [
            (1, 6e8, 0.0, "aes"),
            (2, 5e8, 0.1, "ec"),
            (2, 2e8, 0.15, "dtw"),
            (3, 9e8, 0.2, "aes"),
            (None, 3e8, 0.3, "ec"),
        ],
    ),
    # What the network leaves of the DMA pipe is for the local jobs.
    "local and remote": _make(
        3,
        (0,),
        [
            (0, 6e8, 0.0, "aes"),
            (0, 5e8, 0.05, "aes"),
            (1, 8e8, 0.1, "aes"),
            (2, 4e8, 0.2, "ec"),
            (0, 2e8, 0.4, "dtw"),
        ],
    ),
    # Results go where input of others comes from, or where it comes to. If
    # all jobs had results, both directions would always be alike.
    "both directions": _make(
        4,
        (0, 1),
        [
            (1, 6e8, 0.0, "aes"),
            (1, 9e8, 0.0, "aes"),
            (2, 8e8, 0.0, "ec"),
            (0, 7e8, 0.1, "ec"),
            (2, 6e8, 2.0, "aes"),
            (3, 9e8, 2.0, "aes"),
            (0, 8e8, 2.0, "ec"),
            (0, 7e8, 2.1, "ec"),
        ],
        slots=2,
        ratios={"aes": 1.0},
    ),
    # There are no links of the sender, but those of the board's host.
    "outside": _make(
        2,
        (0,),
        [
            (None, 6e8, 0.0, "aes"),
            (None, 8e8, 0.1, "aes"),
            (1, 5e8, 0.2, "ec"),
        ],
        ratios={"aes": 1.0},
    ),
    "60 jobs, no results": sim_clusters.make(
        sim_clusters.Size(6, 10), "wra", return_ratio=0.0
    ),
    "60 jobs": sim_clusters.make(sim_clusters.Size(6, 10), "wra"),
    "60 jobs, some results": _mixed(
        sim_clusters.make(sim_clusters.Size(6, 10), "wra")
    ),
    "5,000 jobs": sim_clusters.make(sim_clusters.Size(100, 50), "wra"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_jobs_end_at_the_same_time(name: str) -> None:
    scenario = SCENARIOS[name]
    outcomes = sim_clusters.run(scenario)
    _compare(scenario, outcomes)


@pytest.mark.parametrize("strategy", ["fifo", "sjf", "wa", "ra", "wra"])
def test_the_case(strategy: str) -> None:
    scenario = scenario_files.read(_CASE)
    _compare(scenario, simulation.run(scenario, strategy))


def _compare(
    scenario: scenarios.Scenario, outcomes: list[schedules.JobOutcome]
) -> None:
    ours_s = [outcome.finish_s for outcome in outcomes]
    answer = flows.run_simgrid(flows.transcribe(scenario, outcomes))
    assert answer.finishes_s == pytest.approx(ours_s, rel=TOLERANCE)
    # What is measured for speed computes the same.
    assert flows.Replay(scenario, outcomes).run() == ours_s


def test_a_wrong_start_is_noticed() -> None:
    scenario = SCENARIOS["local and remote"]
    outcomes = sim_clusters.run(scenario)
    flow_list = flows.transcribe(scenario, outcomes)
    first, *others = flow_list.flows
    late = flow_list._replace(
        flows=[first._replace(start_s=first.start_s + 1e-6), *others]
    )
    answer = flows.run_simgrid(late)
    ours_s = [outcome.finish_s for outcome in outcomes]
    assert answer.finishes_s != pytest.approx(ours_s, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("return_ratio", "size_bytes", "message"),
    [(0.5, 1e9, "no return ratio of 0.5"), (1.0, 1.5, "1.5 bytes")],
)
def test_what_simgrid_cannot_say(
    return_ratio: float, size_bytes: float, message: str
) -> None:
    scenario = _make(
        2, (0,), [(1, size_bytes, 0.0, "aes")], ratios={"aes": return_ratio}
    )
    outcomes = sim_clusters.run(scenario)
    with pytest.raises(ValueError, match=message):
        flows.transcribe(scenario, outcomes)
