# SPDX-License-Identifier: Apache-2.0

"""Sets of jobs: all begin at the same time."""

from __future__ import annotations

import typing

import pytest

from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from tests.benchmarks import sim_sets


def make_job(number: int, **members: typing.Any) -> scenarios.JobSpec:
    return scenarios.JobSpec(
        **{
            "id": number,
            "host": 0,
            "size_bytes": 1e9,
            "arrival_s": 0.0,
            "accelerator": "aes",
            **members,
        }
    )


def make_scenario(
    *jobs: scenarios.JobSpec, **cluster: typing.Any
) -> scenarios.Scenario:
    """Two boards of two slots of 1 GB/s."""
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(
            hosts=2,
            fpga_hosts=(0, 1),
            slots_per_device=2,
            dma_bytes_per_s=1e12,
            nic_bytes_per_s=1e12,
            accelerators={
                name: scenarios.AcceleratorProfile(1e9)
                for name in ("aes", "fft")
            },
            **cluster,
        ),
        strategies={"fifo": scenarios.StrategyOptions()},
        jobs=list(jobs),
    )


def starts_s(scenario: scenarios.Scenario, name: str = "fifo") -> list[float]:
    return [one.start_s for one in simulation.run(scenario, name)]


def test_a_set_waits_for_all_its_slots() -> None:
    single = make_job(0)
    pair = [
        make_job(number, set_id="one", set_placement=placement)
        for placement in ("same_board",)
        for number in (1, 2)
    ]
    scenario = make_scenario(single, make_job(3, size_bytes=2e9), *pair)
    # Of each board, a slot is taken at first, or both of one.
    first, other, *rest = starts_s(scenario)
    assert (first, other) == (0.0, 0.0)
    assert len(set(rest)) == 1


def test_all_begin_when_the_last_slot_is_programmed() -> None:
    pair = [
        make_job(1, set_id="one", arrival_s=20.0),
        make_job(2, set_id="one", arrival_s=20.0, accelerator="fft"),
    ]
    scenario = make_scenario(
        *(make_job(number, host=number % 2) for number in range(3, 7)),
        *pair,
        reconfiguration_s=5.0,
    )
    *_, first, second = starts_s(scenario)
    assert first == second == 25.0


@pytest.mark.parametrize("strategy", ["fifo", "wra", "auto", "edf", "sjf"])
def test_every_set_begins_at_once(strategy: str) -> None:
    scenario = sim_sets.scenario_of(0.9, 1, 4)
    begun: dict[str, set[float]] = {}
    outcomes = simulation.run(scenario, strategy)
    for job, outcome in zip(scenario.jobs, outcomes, strict=True):
        if job.set_id is not None:
            begun.setdefault(job.set_id, set()).add(outcome.start_s)
    assert len(begun) > 10
    assert {len(times_s) for times_s in begun.values()} == {1}


@pytest.mark.parametrize("strategy", ["fifo", "wra", "auto"])
def test_sets_do_not_wait_much_longer_than_single_jobs(strategy: str) -> None:
    scenario = sim_sets.scenario_of(0.9, 2, 4)
    found = sim_sets.waits(scenario, strategy, fair=False)
    assert found.sets_s <= 3 * found.singles_s


@pytest.mark.parametrize(
    ("jobs", "place", "reason"),
    [
        ([make_job(0, set_id="one")], "jobs[0].set_id", "has 1 jobs"),
        (
            [make_job(n, set_id="one") for n in range(65)],
            "jobs[0].set_id",
            "has 65 jobs",
        ),
        (
            [make_job(0, set_placement="spread")],
            "jobs[0].set_placement",
            "requires set_id",
        ),
        (
            [make_job(0, set_id="a"), make_job(1, set_id="a", arrival_s=1.0)],
            "jobs[1].arrival_s",
            "that of job 0",
        ),
        (
            [
                make_job(0, set_id="a"),
                make_job(1, set_id="a", set_placement="spread"),
            ],
            "jobs[1].set_placement",
            "that of job 0",
        ),
        (
            # Sets are those of their tenants.
            [make_job(0, set_id="a"), make_job(1, set_id="a", tenant="t")],
            "jobs[0].set_id",
            "has 1 jobs",
        ),
    ],
)
def test_bad_sets(
    jobs: list[scenarios.JobSpec], place: str, reason: str
) -> None:
    with pytest.raises(errors.InputError) as caught:
        scenario_files.check(make_scenario(*jobs), "file")
    assert place in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("count", "placement", "reason"),
    [
        (5, None, "needs 5 slots at the same time; there are 4 for jobs"),
        (3, "same_board", "needs 3 slots of one board; none has more than 2"),
        (3, "same_host", "needs 3 slots of one board; none has more than 2"),
        (3, "spread", "needs 3 boards; 2 have slots for jobs"),
    ],
)
def test_sets_that_never_fit(
    count: int, placement: str | None, reason: str
) -> None:
    jobs = [
        make_job(number, set_id="one", set_placement=placement)
        for number in range(count)
    ]
    with pytest.raises(errors.InputError) as caught:
        scenario_files.check(make_scenario(*jobs), "file")
    assert str(caught.value).startswith(f"file: jobs[0].set_id: {reason}")


def test_no_sets_with_outages() -> None:
    jobs = [make_job(number, set_id="one") for number in (0, 1)]
    scenario = make_scenario(*jobs)
    scenario_files.check(scenario, "file")
    with pytest.raises(errors.InputError) as caught:
        scenario_files.check(
            scenarios.Scenario(
                **{
                    **{
                        name: getattr(scenario, name)
                        for name in ("format", "cluster", "strategies", "jobs")
                    },
                    "outages": (scenarios.Outage(0, 1.0, 2.0),),
                }
            ),
            "file",
        )
    assert "cannot be combined with sets" in str(caught.value)


def test_a_set_that_no_board_holds_is_told() -> None:
    jobs = [
        make_job(number, set_id="one", set_placement="same_board")
        for number in range(3)
    ]
    with pytest.raises(errors.InputError) as caught:
        simulation.run(make_scenario(*jobs), "fifo")
    assert "3 jobs would wait forever" in str(caught.value)
