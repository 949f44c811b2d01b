# SPDX-License-Identifier: Apache-2.0

"""Groups in scenarios: ``fpgapool-sim run``, policies, goals and bad input."""

from __future__ import annotations

import json
import pathlib
import typing
from collections.abc import Callable

import pytest

from fpgapool.cmd import sim
from fpgapool.sim import elastic
from fpgapool.sim import errors
from fpgapool.sim.inputs import arrivals
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import group_results
from tests.unit.sim import commands


def make_group(name: str, **members: typing.Any) -> dict[str, typing.Any]:
    group = {
        "name": name,
        "slots": 2,
        "clients": [
            {
                "name": "c",
                "task_s": 0.05,
                "batch_tasks": 10,
                "window_s": 5.0,
                "load": [[30.0, 1.5]],
            }
        ],
    }
    return {**group, **members}


def make_scenario(**members: typing.Any) -> dict[str, typing.Any]:
    """Two groups of a board with four slots, one after the other busy."""
    busy = make_group("busy")
    busy["clients"][0]["load"] = [[30.0, 2.5], [30.0, 0.0]]
    calm = make_group("calm")
    calm["clients"][0]["load"] = [[30.0, 0.2], [30.0, 2.5]]
    scenario: dict[str, typing.Any] = {
        "format": "fpgapool-scenario/1",
        "cluster": {
            "hosts": 1,
            "fpga_hosts": [0],
            "accelerators": {},
            "reconfiguration_s": 1.0,
        },
        "strategies": {
            "static": {},
            "ahead": {"elasticity": {"name": "ahead", "period_s": 5.0}},
        },
        "jobs": [],
        "groups": [busy, calm],
    }
    return {**scenario, **members}


def run(*arguments: str | pathlib.Path) -> None:
    assert sim.main(["run", *(str(each) for each in arguments)]) == 0


def simulate(
    scenario: dict[str, typing.Any], tmp_path: pathlib.Path, name: str
) -> group_results.GroupsResult:
    path = commands.write(tmp_path / "s.json", scenario)
    return elastic.run(scenario_files.read(path), name)[0]


def test_groups_without_jobs(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = commands.write(tmp_path / "s.json", make_scenario())
    run(path, "--output", tmp_path / "o.json")
    found = json.loads((tmp_path / "o.json").read_text())
    assert found["results"] == {}
    for each in found["groups"].values():
        shares = [each[name] for name in ("busy", "programming", "idle")]
        assert sum(shares) == pytest.approx(1.0, rel=1e-12)
        assert each["horizon_s"] == 60.0
        latency = each["latency"]
        of_groups = [group["latency"] for group in each["groups"]]
        for name in ("batches", "refused"):
            assert latency[name] == sum(one[name] for one in of_groups)
    static, ahead = found["groups"]["static"], found["groups"]["ahead"]
    assert static["programming"] == 0.0
    assert ahead["programming"] > 0.0
    assert all(group["moves"] > 0 for group in ahead["groups"])
    assert static["latency"]["refused"] > ahead["latency"]["refused"]
    said = capsys.readouterr().out
    # Each latency has the refused batches beside it.
    for line in said.splitlines():
        if "mean" in line:
            assert "refused" in line
    assert "busy" in said
    assert "calm" in said


def test_pictures_of_groups(tmp_path: pathlib.Path) -> None:
    path = commands.write(tmp_path / "s.json", make_scenario())
    run(path, "--plot", tmp_path / "plots")
    [picture] = (tmp_path / "plots").iterdir()
    assert picture.name == "groups.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_policy_that_the_scenario_does_not_name(
    tmp_path: pathlib.Path,
) -> None:
    path = commands.write(tmp_path / "s.json", make_scenario())
    out = tmp_path / "o.json"
    run(path, "--strategy", "nnls", "static", "--output", out)
    assert json.loads(out.read_text())["groups"].keys() == {"nnls", "static"}


def test_groups_beside_jobs_take_the_first_slots(
    tmp_path: pathlib.Path,
) -> None:
    scenario = commands.make_scenario(groups=[make_group("g", slots=3)])
    del scenario["strategies"]["wra"]
    scenario["jobs"] = [
        commands.make_job(number, host=0, size_bytes=1e9)
        for number in range(6)
    ]
    run(
        commands.write(tmp_path / "s.json", scenario),
        "--output",
        tmp_path / "o.json",
    )
    found = json.loads((tmp_path / "o.json").read_text())
    used = {
        (job["host"], job["slot"]) for job in found["results"]["fifo"]["jobs"]
    }
    assert used == {(0, 3), *((2, slot) for slot in range(4))}
    hosts = found["details"]["fifo"]["hosts"]
    assert hosts[0]["utilisation"]["slots"] <= 1.0
    assert found["groups"]["fifo"]["slots"] == 3
    assert found["groups"]["fifo"]["busy"] > 0


def test_files_without_groups_have_no_results_of_groups(
    tmp_path: pathlib.Path,
) -> None:
    path = commands.write(tmp_path / "s.json", commands.make_scenario())
    run(path, "--output", tmp_path / "o.json")
    found = json.loads((tmp_path / "o.json").read_text())
    assert found.keys() == {"results", "details"}
    read = scenario_files.read(path)
    assert read.groups == ()
    scenario_files.write(read, tmp_path / "again.json")
    assert "groups" not in json.loads((tmp_path / "again.json").read_text())


def test_a_seed_gives_the_same_arrivals() -> None:
    [group] = scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(1, (0,), {}),
        strategies={},
        jobs=[],
        groups=(
            scenarios.Group(
                "g",
                1,
                (
                    scenarios.GroupClient(
                        "c",
                        0.1,
                        2,
                        load=((100.0, 2.0), (50.0, 0.0), (100.0, 4.0)),
                    ),
                ),
            ),
        ),
    ).groups
    first, again, other = (
        arrivals.draw([group], seed, "s")[0][0] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first == sorted(first)
    assert not [at for at in first if 100 < at < 150]
    early = sum(at < 100 for at in first)
    assert early == pytest.approx(1000, abs=100)
    assert len(first) - early == pytest.approx(2000, abs=140)


def test_goals(tmp_path: pathlib.Path) -> None:
    """The first deadline is met by two slots more, which come in time."""

    def job(name: str, deadline_s: float, at_s: float) -> dict[str, object]:
        return make_group(
            name,
            slots=1,
            min_size=0,
            goal={"deadline_s": deadline_s, "actions": 80},
            clients=[
                {
                    "name": "c",
                    "task_s": 0.5,
                    "batch_tasks": 80,
                    "arrivals_s": [at_s],
                }
            ],
        )

    scenario = make_scenario(
        groups=[job("late", 40.0, 0.0), job("soon", 17.0, 4.0)],
        strategies={"edf": {"elasticity": {"name": "edf"}}, "static": {}},
    )
    scenario["cluster"]["reconfiguration_s"] = 0.0
    found = simulate(scenario, tmp_path, "edf")
    late, soon = (group.goal for group in found.groups)
    assert late is not None
    assert soon is not None
    assert (soon.begun_s, soon.met, late.met) == (4.0, True, True)
    # 10 s of four slots each; the first one has done 4 s before.
    assert soon.ended_s == pytest.approx(14.0, abs=0.6)
    assert late.ended_s == pytest.approx(20.0, abs=0.6)
    static = simulate(scenario, tmp_path, "static")
    assert [group.goal.met for group in static.groups] == [True, False]


def test_a_running_task_is_not_preempted(tmp_path: pathlib.Path) -> None:
    """A job due earlier arrives at 1.5 s; tasks of 1 s still end at 2."""

    def job(name: str, due_s: float, at_s: float) -> dict[str, object]:
        return make_group(
            name,
            slots=1,
            min_size=0,
            goal={"deadline_s": due_s, "actions": 1},
            clients=[{"name": "c", "task_s": 1.0, "arrivals_s": [at_s]}],
        )

    first = job("first", 50.0, 1.0)
    second = job("second", 10.0, 1.5)
    scenario = make_scenario(
        groups=[first, second],
        strategies={"edf": {"elasticity": {"name": "edf"}}},
    )
    scenario["cluster"] |= {"slots_per_device": 1, "reconfiguration_s": 0.0}
    found = simulate(scenario, tmp_path, "edf")
    ends_s = [group.goal.ended_s for group in found.groups]
    assert ends_s == pytest.approx([2.0, 3.0])


def test_a_refused_goal_is_missed(tmp_path: pathlib.Path) -> None:
    rate = make_group("rate", goal={"rate_per_s": 5.0}, end_s=20.0)
    scenario = make_scenario(
        groups=[rate], strategies={"edf": {"elasticity": {"name": "edf"}}}
    )
    [group] = simulate(scenario, tmp_path, "edf").groups
    assert group.goal is not None
    assert not group.goal.admitted
    assert not group.goal.met
    assert group.tasks == 0
    assert group.latency.batches == 0
    assert group.latency.refused > 0


def test_a_group_ends_at_its_end(tmp_path: pathlib.Path) -> None:
    group = make_group("g", slots=2, end_s=10.0)
    group["clients"][0] |= {"window_s": 100.0, "load": [[30.0, 9.0]]}
    [found] = simulate(
        make_scenario(groups=[group]), tmp_path, "static"
    ).groups
    # Two slots for 10 s, and the two tasks that run then.
    assert found.tasks == pytest.approx(2 * 10 / 0.05, abs=20)
    assert found.latency.refused > 0


# -- bad input -------------------------------------------------------------

_Change = Callable[[dict[str, typing.Any]], None]


def _group(**members: object) -> _Change:
    def change(scenario: dict[str, typing.Any]) -> None:
        scenario["groups"][1].update(members)

    return change


def _client(**members: object) -> _Change:
    def change(scenario: dict[str, typing.Any]) -> None:
        scenario["groups"][1]["clients"][0].update(members)

    return change


def _policy(**members: object) -> _Change:
    def change(scenario: dict[str, typing.Any]) -> None:
        scenario["strategies"]["ahead"]["elasticity"].update(members)

    return change


def _alone(scenario: dict[str, typing.Any]) -> None:
    del scenario["groups"]
    scenario.update(
        {name: commands.make_scenario()[name] for name in ("cluster", "jobs")}
    )
    scenario["strategies"]["fifo"] = scenario["strategies"].pop("ahead")
    del scenario["strategies"]["static"]


BAD = {
    "no slots": (_group(slots=0), "groups[1].slots", ">= 1"),
    "below minimum": (_group(min_size=3), "groups[1].slots", "2 is not"),
    "above maximum": (_group(max_size=1), "groups[1].slots", "max_size (1)"),
    "negative minimum": (_group(min_size=-1), "groups[1].min_size", ">= 0"),
    "too many": (_group(slots=3), "groups", "has 4 slots"),
    "twice": (_group(name="busy"), "groups[1].name", "used twice"),
    "no clients": (_group(clients=[]), "groups[1].clients", "one"),
    "unknown": (_group(colour="red"), "groups[1]", "colour"),
    "end": (_group(end_s=1e300), "groups[1].end_s", "<= 1"),
    "no time": (_client(task_s=0), "groups[1].clients[0].task_s", "> 0"),
    "no tasks": (
        _client(batch_tasks=0),
        "groups[1].clients[0].batch_tasks",
        ">= 1",
    ),
    "window": (
        _client(window_s=0.1),
        "groups[1].clients[0].window_s",
        "too small for a batch of 0.5",
    ),
    "both": (
        _client(arrivals_s=[1.0]),
        "groups[1].clients[0]",
        "either load or arrivals_s",
    ),
    "never": (
        _client(load=[]),
        "groups[1].clients[0]",
        "no task ever arrives",
    ),
    "negative load": (
        _client(load=[[1.0, -1.0]]),
        "groups[1].clients[0].load[0][1]",
        ">= 0",
    ),
    "endless load": (
        _client(load=[[1.0, 1e300]]),
        "groups[1].clients[0].load[0][1]",
        "<= 1",
    ),
    "flood": (
        _client(load=[[1e9, 4.0]]),
        "groups[1].clients[0]",
        "more than 2e+07 tasks",
    ),
    "both goals": (
        _group(goal={"deadline_s": 1.0, "rate_per_s": 1.0}),
        "groups[1].goal",
        "either deadline_s or rate_per_s",
    ),
    "no goal": (
        _group(goal={"actions": 4}),
        "groups[1].goal",
        "either deadline_s or rate_per_s",
    ),
    "no actions": (
        _group(goal={"deadline_s": 1.0}),
        "groups[1].goal.actions",
        "is required",
    ),
    "policy": (
        _policy(name="best"),
        "strategies.ahead",
        "known policies: ahead",
    ),
    "period": (_policy(period_s=1.0), "strategies.ahead", "at least 2 times"),
    "estimate": (
        _policy(estimate="guess"),
        "strategies.ahead.elasticity.estimate",
        "guess",
    ),
    "option": (_policy(own={"x": 1}), "strategies.ahead", "x"),
    "no groups": (_alone, "strategies.fifo.elasticity", "requires groups"),
    "no boards": (
        lambda each: each["cluster"].update(fpga_hosts=[]),
        "cluster.fpga_hosts",
        "groups need a host",
    ),
}


@pytest.mark.parametrize(
    ("change", "place", "reason"), BAD.values(), ids=BAD.keys()
)
def test_bad_groups(
    change: _Change,
    place: str,
    reason: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = make_scenario()
    change(scenario)
    said = commands.complaint(capsys, tmp_path, scenario)
    assert said.startswith(place)
    assert reason in said


def test_groups_leave_a_slot_for_jobs(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = commands.make_scenario(groups=[make_group("g", slots=8)])
    said = commands.complaint(capsys, tmp_path, scenario)
    assert "groups: the cluster has 8 slots" in said


def test_tasks_that_wait_for_ever(tmp_path: pathlib.Path) -> None:
    """Two groups that never give a slot away, and a third that gets none."""
    groups = [make_group(name, elastic=False) for name in ("first", "second")]
    late = make_group("late", goal={"rate_per_s": 1.0}, elastic=False)
    late["clients"][0]["load"] = None
    late["clients"][0]["arrivals_s"] = [1.0]
    with pytest.raises(errors.InputError, match="late would wait forever"):
        simulate(make_scenario(groups=[*groups, late]), tmp_path, "static")
