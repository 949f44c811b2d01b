# SPDX-License-Identifier: Apache-2.0

"""``python -m reproduction figures`` for groups and goals, at fixed seeds."""

from __future__ import annotations

import csv
import dataclasses
import functools
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

import pytest

from reproduction import figures
from reproduction.figures import goals
from reproduction.figures import group_loads
from reproduction.figures import groups
from reproduction.figures import mixes

Simulate = Callable[[Sequence[typing.Any]], Mapping[typing.Any, typing.Any]]


@pytest.fixture
def simulate() -> Simulate:
    """Give what simulates runs, each once in a test."""
    measure = functools.cache(lambda run: run.measure())
    return lambda runs: {run: measure(run) for run in runs}


def make(name: str, tmp_path: pathlib.Path, simulate: Simulate) -> str:
    said = figures.FIGURES[name].make(tmp_path, simulate)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open(newline="") as file:
        assert list(csv.DictReader(file))
    return said


@pytest.mark.long
def test_a_group_adds_a_constant(
    tmp_path: pathlib.Path, simulate: Simulate
) -> None:
    said = make("groups5", tmp_path, simulate)
    assert "adds 0.09 ms to 0.78 ms" in said


def test_time_per_task_over_the_size(
    tmp_path: pathlib.Path, simulate: Simulate
) -> None:
    said = make("groups6", tmp_path, simulate)
    assert "here: 0.62 ms (-3.1 %)" in said
    assert "here: 0.25 ms (+7.2 %)" in said
    assert "steady from 2, 3, 6 slots on" in said


@pytest.mark.long
def test_three_deadlines(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    said = make("goals3", tmp_path, simulate)
    assert "on goals: what the paper says holds." in said
    assert "50/109/195 s, here: 50/104/195 s (-4.4 % at most)" in said
    drawn = (tmp_path / "goals4-5.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    with (tmp_path / "goals3.csv").open(newline="") as file:
        printed = [row for row in csv.DictReader(file) if row["paper_s"]]
    assert [float(row["paper_s"]) for row in printed] == [50, 109, 195]
    assert {row["deadlines"] for row in printed} == {"5-2-1"}
    for row in goals.compare(simulate):
        assert abs(row.deviation) <= goals.TOLERANCES[row.policy]


def test_rates(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    said = make("goals6", tmp_path, simulate)
    assert "NOT so" not in said
    for rate in (
        *("66.4/s on 4.0 slots", "33.2/s on 2.0 slots"),
        "27.5/s on 2.0 slots, then 33.2/s on 2.0;",
    ):
        assert f"here: {rate}" in said


def test_elastic_groups(
    tmp_path: pathlib.Path,
    simulate: Simulate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole table, with a tenth of the time."""
    short = {
        name: tuple(
            tuple((length_s / 10, slots) for length_s, slots in load)
            for load in loads
        )
        for name, loads in group_loads.LOADS.items()
    }
    monkeypatch.setattr(group_loads, "SEEDS", (1,))
    monkeypatch.setattr(group_loads, "LOADS", short)
    said = make("groups7", tmp_path, simulate)
    assert said.startswith("Figure 7 of FPGA groups: ")
    with (tmp_path / "groups7.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(groups.VARIANTS)
    for row in rows:
        shares = [
            float(row[f"{name}_percent"])
            for name in ("useful", "programming", "idle")
        ]
        assert sum(shares) == pytest.approx(100, abs=0.02)
        assert float(row["latency_s"]) > 0
        assert row["refused"]
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "groups7.png",
        "groups7-P.png",
        "groups7-Q.png",
    }


def test_one_seed_of_load_q() -> None:
    """At its full size; twelve seeds are in tests/reproduction."""
    static, nnls, ahead = (
        groups._mean([group_loads.GroupRun("Q", policy, 1).measure()])
        for policy in ("none", "nnls", "ahead")
    )
    assert static.useful == pytest.approx(52, abs=1.5)
    assert static.worst_a_s == pytest.approx(22.0, abs=0.01)
    assert static.refused == pytest.approx(2803, rel=0.1)
    assert nnls.useful >= 61
    assert nnls.latency_s < 0.45 * static.latency_s
    assert ahead.programming <= 3
    assert ahead.latency_s < 0.2 * static.latency_s
    for values in (static, nnls, ahead):
        total = values.useful + values.programming + values.idle
        assert total == pytest.approx(100)


def test_accounts_of_a_load_are_complete() -> None:
    found = group_loads.GroupRun("Q", "nnls", 1).measure()
    assert found.busy + found.programming + found.idle == pytest.approx(
        1.0, rel=1e-12
    )
    assert found.horizon_s == group_loads.LENGTH_S
    total_s = group_loads.SLOTS * found.horizon_s
    assert sum(group.busy_s for group in found.groups) == pytest.approx(
        found.busy * total_s
    )
    assert sum(group.programming_s for group in found.groups) == pytest.approx(
        found.programming * total_s
    )


@pytest.mark.long
def test_mixes(
    tmp_path: pathlib.Path,
    simulate: Simulate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixes, "MIXES", 2)
    said = make("goals-mixes", tmp_path, simulate)
    assert said.startswith("Mixes of goals: ")
    scores = mixes.compare(simulate)
    for score in scores.values():
        assert score.jobs == 2 * mixes.DEADLINE_JOBS
        assert score.met <= score.accepted <= score.jobs
    # Programming that is not free costs deadlines.
    free, dear = (
        next(
            score
            for cell, score in scores.items()
            if cell.policy == "throughput"
            and cell.load_name == "0.7"
            and bool(cell.run.programming_s) == costs
        )
        for costs in (False, True)
    )
    assert dear.programming > free.programming == 0
    assert dear.met < free.met


def test_a_verdict_may_be_bad() -> None:
    row = goals.Row("3", "6-1-1", "edf", (43.0,), (41.7,))
    assert not row.is_within
    assert dataclasses.replace(row, policy="throughput").deviation > 0.03
