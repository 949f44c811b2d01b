# SPDX-License-Identifier: Apache-2.0

"""Claims that differ from sizes: strategies see the claim, slots the size."""

import json
import pathlib
import typing

import pytest

from fpgapool.cmd import sim
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from tests.unit.sim import commands


def make_job(
    number: int, size_gb: float, arrival_s: float, **members: typing.Any
) -> scenarios.JobSpec:
    return scenarios.JobSpec(
        id=number,
        host=0,
        size_bytes=size_gb * 1e9,
        arrival_s=arrival_s,
        accelerator="aes",
        **members,
    )


def make_scenario(
    *jobs: scenarios.JobSpec,
    strategies: dict[str, scenarios.StrategyOptions] | None = None,
    **cluster: typing.Any,
) -> scenarios.Scenario:
    """One slot of 1 GB/s."""
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(
            hosts=1,
            fpga_hosts=(0,),
            slots_per_device=1,
            accelerators={"aes": scenarios.AcceleratorProfile(1e9)},
            **cluster,
        ),
        strategies=strategies or {},
        jobs=list(jobs),
    )


def finishes_s(
    outcomes: list[schedules.JobOutcome],
) -> list[float]:
    return [outcome.finish_s for outcome in outcomes]


def test_strategies_see_the_claim() -> None:
    jobs = (
        make_job(0, 1, 0.0),
        make_job(1, 2, 0.1),
        make_job(2, 3, 0.2, claimed_bytes=2.9e9),
    )
    scenario = make_scenario(*jobs)
    assert finishes_s(simulation.run(scenario, "sjf")) == pytest.approx(
        [1, 3, 6]
    )
    # Within the slack, a lie about the size pays under sjf.
    liar = make_job(2, 3, 0.2, claimed_bytes=2.8e9)
    honest = make_job(1, 2.9, 0.1)
    outcomes = simulation.run(make_scenario(jobs[0], honest, liar), "sjf")
    assert finishes_s(outcomes) == pytest.approx([1, 6.9, 4])
    # fifo does not look at claims.
    assert finishes_s(simulation.run(scenario, "fifo")) == pytest.approx(
        [1, 3, 6]
    )


def test_a_claim_that_is_too_high_costs_nothing_but_its_place() -> None:
    job = make_job(0, 2, 0.0, claimed_bytes=9e9)
    [outcome] = simulation.run(make_scenario(job), "fifo")
    assert outcome.finish_s == pytest.approx(2)
    assert not outcome.stays


@pytest.mark.parametrize("strategy", ["fifo", "sjf", "wra", "era", "auto"])
def test_beyond_its_claim_a_job_keeps_its_slot_until_others_wait(
    strategy: str,
) -> None:
    first = make_job(0, 10, 0.0, claimed_bytes=2e9)
    # At 5 s it leaves, and claims 10 GB, which is enough.
    jobs = (first, make_job(1, 1, 5.0), make_job(2, 1, 8.0))
    outcomes = simulation.run(make_scenario(*jobs), strategy)
    assert finishes_s(outcomes) == pytest.approx([11, 6, 12])
    [stay] = outcomes[0].stays
    assert (stay.start_s, stay.finish_s) == pytest.approx((0, 5))
    assert stay.done_bytes == pytest.approx(5e9)
    assert outcomes[0].preemptions == 1


def test_one_who_waits_takes_the_slot_at_the_claim_and_its_slack() -> None:
    first = make_job(0, 10, 0.0, claimed_bytes=2e9)
    outcomes = simulation.run(
        make_scenario(first, make_job(1, 3, 1.0)), "fifo"
    )
    [stay] = outcomes[0].stays
    # 2.2 GB; the rest follows with a claim of 4.4 GB, alone.
    assert stay.finish_s == pytest.approx(2.2)
    assert finishes_s(outcomes) == pytest.approx([13, 5.2])


def test_the_claim_doubles_each_time() -> None:
    first = make_job(0, 10, 0.0, claimed_bytes=1e9)
    others = [make_job(number, 0.5, 0.5) for number in (1, 2, 3, 4)]
    outcomes = simulation.run(make_scenario(first, *others), "fifo")
    borders = [
        sum(stay.done_bytes for stay in outcomes[0].stays[: count + 1])
        for count in range(len(outcomes[0].stays))
    ]
    # 1.1, then each time 1.1 × twice as much: its turn comes first, since it
    # arrived first, and one other job runs before each.
    assert borders == pytest.approx([1.1e9, 2.42e9, 5.324e9])
    assert sum(stay.done_bytes for stay in outcomes[0].stays) < 10e9
    assert max(finishes_s(outcomes)) == pytest.approx(12)


def test_a_tiny_claim() -> None:
    tiny = make_job(0, 1e-6, 0.0, claimed_bytes=0.001)
    outcomes = simulation.run(make_scenario(tiny, make_job(1, 1, 0.0)), "fifo")
    assert outcomes[0].stays[0].done_bytes == 1
    assert sum(finishes_s(outcomes)) == pytest.approx(2, abs=1e-3)


def test_claims_and_chunks_together() -> None:
    """A slot that changes hands at chunks also does so at a claim."""
    strategies = {
        "fifo": scenarios.StrategyOptions(
            preempt="fine", preempt_quantum_bytes=10**9
        )
    }
    first = make_job(0, 10, 0.0, claimed_bytes=3e9)
    urgent = make_job(1, 1, 1.5, priority=1)
    waits = make_job(2, 1, 1.6)
    outcomes = simulation.run(
        make_scenario(first, urgent, waits, strategies=strategies), "fifo"
    )
    stays = outcomes[0].stays
    # At the border of 2 s for the urgent job, then at 3.3 GB.
    assert [stay.done_bytes for stay in stays] == pytest.approx([2e9, 1.3e9])
    assert finishes_s(outcomes) == pytest.approx([12, 3, 5.3])


def test_files_have_claims(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = commands.make_scenario(
        jobs=[
            commands.make_job(0, size_bytes=4e9, claimed_bytes=1e9),
            *(commands.make_job(number) for number in range(1, 60)),
        ]
    )
    path = commands.write(tmp_path / "s.json", content)
    out = tmp_path / "o.json"
    assert sim.main(["run", str(path), "--output", str(out)]) == 0
    found = json.loads(out.read_text())
    [first, *_] = found["results"]["fifo"]["jobs"]
    assert first["stays"][0]["done_bytes"] == 1.1e9
    assert "preemptions" in capsys.readouterr().out
    said = commands.refused(capsys, "run", path, "--engine", "chunk")
    assert said == (
        f"{path}: jobs[0].claimed_bytes: is too small for 4e+09 bytes; only "
        "the fluid engine supports this"
    )
    content["jobs"][0]["claimed_bytes"] = 4e9
    commands.write(path, content)
    assert sim.main(["run", str(path), "--engine", "chunk"]) == 0


@pytest.mark.parametrize("claimed", [0, -1, 2e18, "1"])
def test_bad_claims(
    claimed: object, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = commands.make_scenario(
        jobs=[commands.make_job(0, claimed_bytes=claimed)]
    )
    path = commands.write(tmp_path / "s.json", content)
    said = commands.refused(capsys, "run", path)
    assert said.startswith(f"{path}: jobs[0].claimed_bytes: expected")
