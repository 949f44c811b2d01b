# SPDX-License-Identifier: Apache-2.0

"""The study of era: settings, runs that go on, and comparisons."""

from __future__ import annotations

import collections
import io
import math
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

import pytest
import rich.console

from fpgapool.sim import simulation
from fpgapool.sim.experiments import crews
from reproduction.rate_aware import era


def test_there_are_25_settings() -> None:
    settings = era.settings()
    assert len(set(settings)) == 25
    # λE[s] is 50·U for every number of boards.
    for setting in settings[12:20]:
        assert setting.load * setting.boards == pytest.approx(50)
    assert collections.Counter(s.sizes for s in settings) == {
        "exp": 15,
        "pow": 10,
    }
    assert len({str(setting) for setting in settings}) == 25


def test_a_scenario_is_what_its_setting_says() -> None:
    setting = era.Setting("exp", 1.0, 1.0, boards=30, slots=2, peak_factor=0.5)
    scenario = era.make_scenario(setting, 3, jobs_per_host=2)
    cluster = scenario.cluster
    assert len(cluster.fpga_hosts) == 30
    assert cluster.slots_per_device == 2
    assert cluster.accelerators["aes"].peak_bytes_per_s == 0.6e9
    assert cluster.accelerators["aes"].return_ratio == 1.0
    assert len(scenario.jobs) == 200
    assert scenario.strategies["wra"].remote_limit == 1
    assert scenario.strategies["wra-paper"].skip_limit == 5
    again = era.make_scenario(setting, 3, jobs_per_host=2)
    assert scenario == again


@pytest.mark.parametrize("strategy", era.STRATEGIES)
def test_every_strategy_ends_every_job(strategy: str) -> None:
    setting = era.Setting("pow", 1.0, 2.0, boards=10)
    scenario = era.make_scenario(setting, 1, jobs_per_host=1)
    outcomes = simulation.run(scenario, strategy)
    assert all(
        outcome.finish_s > outcome.start_s >= job.arrival_s
        for outcome, job in zip(outcomes, scenario.jobs, strict=True)
    )
    assert simulation.run(scenario, strategy) == outcomes


def times(factor: float, worst: float = 0.5) -> dict[era.Run, era.Times]:
    found = {}
    for setting in range(25):
        for seed in (1, 2):
            slow = 1.0 + setting + seed
            found[era.Run(setting, seed, "wra")] = era.Times(slow, slow, slow)
            own = slow / (factor if setting else worst)
            found[era.Run(setting, seed, "era")] = era.Times(own, own, own)
    return found


def test_a_comparison() -> None:
    found = era.compare(times(2.0), "era", "act", (1, 2))
    assert found.worst == 0
    assert found.by_setting[0].mean == pytest.approx(0.5)
    assert found.by_setting[7] == pytest.approx((2.0, 2.0, 2.0))
    assert found.overall.mean == pytest.approx(2.0 ** (23 / 25))


def test_an_interval() -> None:
    logarithms = [0.1, 0.2, 0.3]
    found = era.ratio(logarithms)
    half = 4.303 * 0.1 / math.sqrt(3)
    assert found.mean == pytest.approx(math.exp(0.2))
    assert found.low == pytest.approx(math.exp(0.2 - half))
    assert found.high == pytest.approx(math.exp(0.2 + half))
    assert era.ratio([0.0]) == (1.0, 0.0, math.inf)


def test_runs_go_on_where_they_ended(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[era.Run] = []

    def work(
        function: Callable[..., era.Times],
        tasks: Sequence[era.Run],
        processes: int | None,
    ) -> Iterator[tuple[era.Run, era.Times]]:
        for task in tasks:
            made.append(task)
            yield task, era.Times(1 / 3, 2.0, 3.0)

    monkeypatch.setattr(crews, "work_here", work)
    path = tmp_path / "runs.csv"
    runs = [era.Run(number, 1, "era") for number in range(4)]
    assert list(era.run_missing(runs[:2], path, 1)) == runs[:2]
    assert list(era.run_missing(runs, path, 1)) == runs[2:]
    assert made == runs
    found = dict.fromkeys(runs, era.Times(1 / 3, 2.0, 3.0))
    assert era.read(path) == found
    # As older files name the column.
    path.write_text(path.read_text().replace("strategy", "policy"))
    assert era.read(path) == found


def test_missed_goals_are_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    console = rich.console.Console(file=shown, width=120)
    monkeypatch.setattr(rich.console, "Console", lambda: console)
    # One setting is always worse than may be.
    for worst, code in ((0.5, 1), (2.0, 0)):
        found = times(2.0, worst)
        monkeypatch.setattr(era, "read", lambda path, found=found: found)
        monkeypatch.setattr(era, "run_missing", lambda *_: iter(()))
        arguments = ["runs.csv", "--seeds", "2", "--first-seed", "1"]
        arguments[0] = str(tmp_path / "runs.csv")
        assert era.main([*arguments, "--strategies", "era"]) == code
    assert "missed" in shown.getvalue()
    assert "exp ret 0 r 0.60 50 boards" in shown.getvalue()
