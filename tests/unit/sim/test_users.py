# SPDX-License-Identifier: Apache-2.0

"""Users of a tenant in scenarios."""

from __future__ import annotations

import pathlib
import typing

import pytest

from fpgapool.cmd import sim
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from tests.unit.sim import commands

RATE = 1e9
IN_TURNS = scenarios.Users(user_turns=True)


def make_scenario(
    users: str, rule: scenarios.Users | None, slots: int = 1
) -> scenarios.Scenario:
    """Each job is of one second, and of the user that its letter names."""
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(
            hosts=1,
            fpga_hosts=(0,),
            slots_per_device=slots,
            dma_bytes_per_s=slots * RATE,
            accelerators={"aes": scenarios.AcceleratorProfile(RATE)},
        ),
        strategies={"fifo": scenarios.StrategyOptions()},
        jobs=[
            scenarios.JobSpec(
                id=number,
                host=0,
                accelerator="aes",
                size_bytes=RATE,
                arrival_s=0.0,
                tenant="lab",
                user=user,
            )
            for number, user in enumerate(users)
        ],
        users={} if rule is None else {"lab": rule},
    )


def ends_s(scenario: scenarios.Scenario) -> list[float]:
    return [
        pytest.approx(one.finish_s) for one in simulation.run(scenario, "fifo")
    ]


@pytest.mark.parametrize("fair", [False, True])
def test_users_take_turns(fair: bool) -> None:
    scenario = make_scenario("aaabb", IN_TURNS)
    found = simulation.run(scenario, "fifo", fair_share=fair)
    assert [round(one.finish_s) for one in found] == [1, 3, 5, 2, 4]
    assert ends_s(make_scenario("aaabb", None)) == [1, 2, 3, 4, 5]


def test_a_user_waits_at_its_limit() -> None:
    rule = scenarios.Users(sessions_per_user=1)
    assert ends_s(make_scenario("aaab", rule, slots=2)) == [1, 2, 3, 1]


BAD: dict[str, tuple[dict[str, typing.Any], str]] = {
    "nothing": (
        {"t": {}},
        "users.t: needs sessions_per_user or user_turns",
    ),
    "no such tenant": (
        {"u": {"user_turns": True}},
        "users.u: no job is of the tenant 'u'",
    ),
    "no slots": ({"t": {"sessions_per_user": 0}}, "sessions_per_user"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD)
def test_users_that_make_no_sense_are_refused(
    given: dict[str, typing.Any],
    message: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = commands.make_scenario(users=given)
    for job in scenario["jobs"]:
        job["tenant"] = "t"
    path = commands.write(tmp_path / "scenario.json", scenario)
    assert sim.main(["run", str(path)]) != 0
    assert message in capsys.readouterr().err
