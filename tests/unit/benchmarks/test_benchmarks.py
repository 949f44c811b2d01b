# SPDX-License-Identifier: Apache-2.0

"""Benchmarks run, and what they measure is what they say."""

import pathlib

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import measure
from tests.benchmarks import plain
from tests.benchmarks import pools
from tests.benchmarks import report
from tests.benchmarks import smoke
from tests.harness import cases
from tests.harness import pool_invariants


@pytest.mark.parametrize("name", cases.first(*smoke.names(services=False)))
def test_a_tiny_run_of_each(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(smoke.options(tmp_path, name))
    smoke.check(name, tmp_path, capsys.readouterr().out)


@pytest.mark.long
def test_medians_of_an_earlier_run_are_shown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["core_growth", "--tiny", "--repetitions=1"]
    command.main([*arguments, f"--out={tmp_path}"])
    assert "was" not in capsys.readouterr().out
    before = tmp_path / "results.json"
    medians = report.load_medians(before)
    command.main([*arguments, f"--out={tmp_path}", f"--compare={before}"])
    shown = capsys.readouterr().out
    assert "was" in shown
    for median in medians.values():
        assert report.number(median) in shown


@pytest.mark.parametrize(
    "arguments", [["no_such_benchmark"], ["--repetitions=0"]]
)
def test_bad_arguments_are_refused(
    arguments: list[str], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([*arguments, f"--out={tmp_path / 'out'}"])
    assert caught.value.code == 2
    assert not (tmp_path / "out").exists()


def test_medians_come_from_our_files_only(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match="no file of these benchmarks"):
        report.load_medians(path)


def test_rows_have_names_of_their_own(tmp_path: pathlib.Path) -> None:
    row = measure.Row("a", "1/s", [measure.Sample(1.0, 1.0, 1.0)])
    with pytest.raises(ValueError, match="rows with the same name"):
        report.save([row, row], tmp_path / "results.json")
    assert not (tmp_path / "results.json").exists()


def test_a_row_has_a_floor_for_each_sample() -> None:
    samples = [measure.Sample(value, 2.0, 1.0) for value in (6.0, 8.0, 7.0)]
    floors = [measure.Sample(value, 2.0, 1.0) for value in (3.0, 2.0, 7.0)]
    row = measure.Row("a", "1/s", samples, "plain", floors)
    assert row.median == 7.0
    assert row.ratios == [2.0, 4.0, 1.0]
    assert row.cpu_share == 0.5
    assert measure.Row("a", "1/s", samples).ratios == []
    with pytest.raises(ValueError, match="samples are missing"):
        measure.Row("a", "1/s", samples, "plain", floors[1:])
    with pytest.raises(ValueError, match="samples are missing"):
        measure.Row("a", "1/s", [])


@pytest.mark.parametrize("strategy", pools.STRATEGIES)
def test_the_floor_decides_the_same(strategy: str) -> None:
    size = pools.Size(hosts=4, waiting=40)
    full = pools.FullPool(strategy, size, keep_taken=True)
    floor = plain.PlainPool(strategy, size)
    assert full.state.idle_count == 0
    assert full.state.waiting_count == 40
    assert full.decide(full.source.make(300)) > 250
    floor.decide(floor.source.make(300))
    assert full.taken == floor.taken
    pool_invariants.check(full.state)
