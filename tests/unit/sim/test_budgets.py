# SPDX-License-Identifier: Apache-2.0

"""Budgets of tenants in scenarios."""

from __future__ import annotations

import collections
import json
import pathlib
import random
import typing

import pytest

from fpgapool.cmd import sim
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from tests.unit.sim import commands

RATE = 1e9


def make_scenario(
    jobs: list[tuple[str, float, float]],
    budgets: dict[str, scenarios.Budget],
    options: scenarios.StrategyOptions | None = None,
    **members: typing.Any,
) -> scenarios.Scenario:
    """Host 0 has one slot, unless ``members`` say more.

    :param jobs: each has a tenant, the seconds that a slot works, and the time
        of its arrival.
    """
    defaults: dict[str, typing.Any] = {
        "hosts": 1,
        "fpga_hosts": (0,),
        "slots_per_device": 1,
        "accelerators": {"aes": scenarios.AcceleratorProfile(RATE)},
    }
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(**{**defaults, **members}),
        strategies={"fifo": options or scenarios.StrategyOptions()},
        jobs=[
            scenarios.JobSpec(
                id=number,
                host=0,
                accelerator="aes",
                size_bytes=work_s * RATE,
                arrival_s=arrival_s,
                tenant=tenant,
            )
            for number, (tenant, work_s, arrival_s) in enumerate(jobs)
        ],
        budgets=budgets,
    )


def times(scenario: scenarios.Scenario) -> list[tuple[float, float]]:
    """Return when each job starts and ends."""
    return [
        (round(one.start_s, 6), round(one.finish_s, 6))
        for one in simulation.run(scenario, "fifo")
    ]


def of(period_s: float, **members: typing.Any) -> scenarios.Budget:
    return scenarios.Budget(period_s=period_s, **members)


def test_a_tenant_waits_until_its_budget_refills() -> None:
    """What is open when nothing is left goes on."""
    jobs = [("a", 4.0, 0.0), ("a", 2.0, 0.0), ("b", 1.0, 4.5)]
    assert times(make_scenario(jobs, {"a": of(10.0, slot_s=3.0)})) == [
        (0.0, 4.0),
        (10.0, 12.0),
        (4.5, 5.5),
    ]


def test_bytes_count_when_jobs_leave() -> None:
    """Input and output: two jobs of 1 GB use up 3 GB."""
    jobs = [("a", 1.0, 0.0)] * 3
    scenario = make_scenario(
        jobs,
        {"a": of(10.0, bytes=3e9)},
        accelerators={"aes": scenarios.AcceleratorProfile(RATE, 0.5)},
    )
    assert times(scenario) == [(0.0, 1.0), (1.0, 2.0), (10.0, 11.0)]


def test_what_is_left_is_carried_once() -> None:
    """Of 4 s, 3 s are left: the next period has 7 s, the one after it 4 s."""
    jobs = [("a", 1.0, 0.0), *[("a", 1.0, 10.0)] * 12]
    budget = of(10.0, slot_s=4.0, carry_over=True)
    starts = [start for start, _ in times(make_scenario(jobs, {"a": budget}))]
    assert collections.Counter(start // 10 for start in starts) == {
        0: 1,
        1: 7,
        2: 4,
        3: 1,
    }


def test_nothing_is_carried_by_default() -> None:
    jobs = [("a", 1.0, 0.0), *[("a", 1.0, 10.0)] * 5]
    found = times(make_scenario(jobs, {"a": of(10.0, slot_s=4.0)}))
    assert found[-1] == (20.0, 21.0)


def test_idle_slots_are_for_those_without_budget_left() -> None:
    """With nothing left, a tenant comes after all others."""
    jobs = [("a", 2.0, 0.0), ("a", 1.0, 0.5), ("b", 1.0, 1.0), ("a", 1.0, 1.0)]
    budget = of(100.0, slot_s=1.0, action="idle_only")
    assert times(make_scenario(jobs, {"a": budget})) == [
        (0.0, 2.0),
        (3.0, 4.0),
        (2.0, 3.0),
        (4.0, 5.0),
    ]


def test_a_slot_is_taken_back_at_a_border() -> None:
    """A session on an idle slot leaves for another tenant's."""
    jobs = [("a", 10.0, 0.0), ("b", 1.0, 4.5)]
    options = scenarios.StrategyOptions(
        preempt="fine", preempt_quantum_bytes=int(RATE)
    )
    budget = of(100.0, slot_s=2.0, action="idle_only")
    assert times(make_scenario(jobs, {"a": budget}, options))[1] == (5.0, 6.0)


def test_a_budget_that_is_not_used_up_changes_nothing() -> None:
    chance = random.Random(7)
    jobs = [
        (chance.choice("abc"), chance.uniform(0.1, 2.0), chance.uniform(0, 30))
        for _ in range(40)
    ]
    large = {tenant: of(5.0, slot_s=1e6, bytes=1e15) for tenant in "abc"}
    assert times(make_scenario(jobs, large)) == times(make_scenario(jobs, {}))


@pytest.mark.parametrize("seed", range(20))
def test_no_slot_is_given_after_the_budget_is_used_up(seed: int) -> None:
    """By a sum of its own: at no start has the tenant used its limit."""
    chance = random.Random(seed)
    jobs = [
        (chance.choice("ab"), chance.uniform(0.1, 3.0), chance.uniform(0, 40))
        for _ in range(60)
    ]
    period_s, limit_s = 10.0, 4.0
    scenario = make_scenario(
        jobs, {"a": of(period_s, slot_s=limit_s)}, slots_per_device=2
    )
    found = simulation.run(scenario, "fifo")
    mine = [
        one
        for one, (tenant, _, _) in zip(found, jobs, strict=True)
        if tenant == "a"
    ]
    waited = 0
    for one in mine:
        begin_s = one.start_s // period_s * period_s
        used_s = sum(_used_s(each, begin_s, one.start_s) for each in mine)
        assert used_s < limit_s
        waited += one.start_s == begin_s > 0
    assert waited


def _used_s(one: schedules.JobOutcome, begin_s: float, now_s: float) -> float:
    """Return what a job has used at a time, as its budget counts it."""
    if one.start_s >= now_s or one.finish_s < begin_s:
        return 0.0
    return min(one.finish_s, now_s) - one.start_s


@pytest.mark.parametrize("limit_s", [1e-12, 1e-8, 1e-300])
def test_a_limit_may_be_shorter_than_clocks_can_tell(limit_s: float) -> None:
    """Late in a run, no moment lies between a start and the limit."""
    jobs = [("t", 1.0, 9e8), ("t", 1.0, 9e8)]
    scenario = make_scenario(jobs, {"t": of(1e9, slot_s=limit_s)})
    assert times(scenario) == [(9e8, 9e8 + 1), (1e9, 1e9 + 1)]


BAD: dict[str, tuple[dict[str, typing.Any], str]] = {
    "no limit": ({"t": {"period_s": 1}}, "budgets.t: needs slot_s or bytes"),
    "no such tenant": (
        {"u": {"period_s": 1, "slot_s": 1}},
        "budgets.u: no job is of the tenant 'u'",
    ),
    "no period": ({"t": {"slot_s": 1}}, "period_s"),
    "nothing": ({"t": {"period_s": 1, "slot_s": 0}}, "slot_s"),
    "no end of periods": ({"t": {"period_s": 1e-6, "slot_s": 1}}, "period_s"),
    "unknown action": (
        {"t": {"period_s": 1, "slot_s": 1, "action": "finish"}},
        "action",
    ),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD)
def test_bad_budgets_are_refused(
    given: dict[str, typing.Any],
    message: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = commands.make_scenario()
    for job in document["jobs"]:
        job["tenant"] = "t"
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(document | {"budgets": given}))
    assert sim.main(["run", str(path)]) != 0
    assert message in capsys.readouterr().err
