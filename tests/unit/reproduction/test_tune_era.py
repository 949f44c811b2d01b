# SPDX-License-Identifier: Apache-2.0

"""``python -m reproduction tune-era``: the search, its runs, and bad input."""

import csv
import dataclasses
import json
import pathlib

import pytest

from fpgapool.strategies.joint import era
from reproduction import __main__ as reproduction
from reproduction.rate_aware import era as study
from reproduction.rate_aware import era_tuning
from tests.unit.reproduction import commands


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> list[era_tuning.Run]:
    """Times that are best with a spread of 0.3 and a size_power of 0.7.

    :returns: the runs that were done.
    """
    done: list[era_tuning.Run] = []

    def measure(run: era_tuning.Run) -> tuple[float, float]:
        done.append(run)
        time_s = 10.0 + run.setting + run.seed
        if run.own:
            own = json.loads(run.own)
            time_s /= 1.2 + own["spread"] - abs(own["size_power"] - 0.7)
            if own["min_free"] > 0.3 and run.setting == 1:
                # Much better elsewhere, but never allowed.
                time_s *= 2
            elif own["min_free"] > 0.3:
                time_s /= 4
        return time_s, 2 * time_s

    monkeypatch.setattr(era_tuning, "measure", measure)
    return done


def tune(tmp_path: pathlib.Path, *options: str) -> None:
    arguments = ["tune-era", "--out", str(tmp_path / "out"), *options]
    assert reproduction.main([*arguments, "--processes", "1"]) == 0


def test_candidates_are_options() -> None:
    defaults = dataclasses.asdict(era.EraOptions())
    assert set(era_tuning.CANDIDATES) == set(defaults)
    for name, values in era_tuning.CANDIDATES.items():
        assert defaults[name] in values
        assert getattr(era.AS_WRITTEN, name) in (*values, 0.7, 1.0)


def test_better_values_are_kept(
    tmp_path: pathlib.Path,
    invented: list[era_tuning.Run],
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = "--options size_power spread min_free --settings 1 2 --seeds 2"
    tune(tmp_path, *options.split())
    said = capsys.readouterr().out
    assert "2 settings, 2 seeds" in said
    assert "ACT, times wra's (95 % interval)" in said
    lines = [line.split() for line in said.splitlines()]
    kept = [line[:2] for line in lines if line[-1:] == ["kept"]]
    assert kept == [["at", "first"], ["spread", "0.3"]]
    assert "1.300 (1.300–1.300)" in said
    assert "strategy_options = spread:0.3\n" in said
    # wra's runs are done once: 4, and those of seven sets of options.
    assert len(invented) == len(set(invented)) == 4 * 8
    # The same command does nothing anew; one with a further seed does.
    tune(tmp_path, *options.split())
    assert capsys.readouterr().out == said
    assert len(invented) == 32
    with (tmp_path / "out" / "runs.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 32


def test_nothing_better_leaves_the_defaults(
    tmp_path: pathlib.Path,
    invented: list[era_tuning.Run],
    capsys: pytest.CaptureFixture[str],
) -> None:
    tune(tmp_path, "--options", "size_power", "--settings", "3")
    said = capsys.readouterr().out
    assert "No other value is better." in said
    assert "strategy = era" in said
    assert "strategy_options" not in said
    assert {run.setting for run in invented} == {2}


def test_a_run_is_that_of_the_study() -> None:
    setting = study.settings()[4]
    wra, tuned = (
        era_tuning.measure(era_tuning.Run(4, 1, 1, own))
        for own in ("", json.dumps(dataclasses.asdict(era.EraOptions())))
    )
    assert era_tuning.SETTINGS[4] == setting
    expected = [
        study.measure(study.Run(4, 1, name), 1) for name in ("wra", "era")
    ]
    assert [wra, tuned] == [(each.act, each.tct95) for each in expected]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--options colour", "--options: colour: unknown option of era; "),
        (
            "--settings 26",
            "--settings: must be an integer from 1 to 25, not 26",
        ),
        ("--settings 0", "--settings: must be an integer from 1 to 25, not 0"),
        ("--seeds 0", "--seeds: must be an integer from 1 to 1000, not 0"),
        (
            "--seeds 1001",
            "--seeds: must be an integer from 1 to 1000, not 1001",
        ),
        ("--jobs-per-host 0", "--jobs-per-host: must be an integer from 1 to"),
        ("--processes 0", "--processes: must be an integer from 1 to"),
    ],
)
def test_bad_options(
    options: str,
    said: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    found = commands.refused(
        capsys, "tune-era", "--out", out, *options.split()
    )
    assert found.startswith(said)
    assert not out.exists()
