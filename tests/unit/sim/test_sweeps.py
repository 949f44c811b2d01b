# SPDX-License-Identifier: Apache-2.0

"""What a sweep consists of, and what it remembers."""

import pathlib

import pytest

from fpgapool.sim import errors
from fpgapool.sim.experiments import sweeps
from tests.unit.sim import commands

SPECIFICATION = """
fixed: {hosts: 4, boards: 2, jobs_per_host: 2, tenant: [a=1, b=2]}
vary:
  load: [0.5, 0.9]
  wakeups: [false, true]
seeds: 2
strategies: [fifo, wra]
"""


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "sweep.yaml"
    made.write_text(SPECIFICATION)
    return made


def read(path: pathlib.Path) -> tuple[sweeps.Specification, list[sweeps.Task]]:
    specification = sweeps.read(path)
    return specification, sweeps.tasks(specification, str(path))


def test_all_combinations(path: pathlib.Path) -> None:
    _, tasks = read(path)
    assert len({task.key for task in tasks}) == len(tasks) == 16
    assert tasks[0].key == ("0.5", "False", "1", "fifo")
    assert tasks[-1].key == ("0.9", "True", "2", "wra")
    assert tasks[-1].options == (
        "--hosts=4",
        "--boards=2",
        "--jobs-per-host=2",
        "--tenant=a=1",
        "--tenant=b=2",
        "--load=0.9",
        "--wakeups",
    )
    scenario = tasks[-1].scenario()
    assert list(scenario.strategies) == ["wra"]
    assert scenario.wakeups
    assert {job.tenant for job in scenario.jobs} <= {"a", "b"}


def test_strategies_are_compared_on_the_same_jobs(path: pathlib.Path) -> None:
    _, tasks = read(path)
    assert tasks[0].scenario().jobs == tasks[1].scenario().jobs
    assert tasks[0].scenario().jobs != tasks[2].scenario().jobs


def test_a_run_is_repeatable(path: pathlib.Path) -> None:
    _, tasks = read(path)
    row = sweeps.run(tasks[0])
    assert len(row) == len(sweeps.METRICS)
    assert "wait_p95_s" in sweeps.METRICS
    assert sweeps.run(tasks[0]) == row
    assert sweeps.run(tasks[1]) != row


def test_seeds_by_name(path: pathlib.Path) -> None:
    path.write_text(SPECIFICATION.replace("seeds: 2", "seeds: [7, 3]"))
    assert sweeps.read(path).seed_list == [7, 3]


def test_points_are_what_differs_in_its_seed_only(path: pathlib.Path) -> None:
    _, tasks = read(path)
    points = list(sweeps.points(tasks))
    assert len(points) == 8
    for first, group in points:
        assert group[0] is first
        assert [task.seed for task in group] == [1, 2]
        assert {task.strategy for task in group} == {first.strategy}


def test_what_was_done_is_remembered(path: pathlib.Path) -> None:
    specification, tasks = read(path)
    directory = path.parent / "new" / "out"
    row = [0.1 + number for number in range(len(sweeps.METRICS))]
    with sweeps.open_journal(directory, specification) as journal:
        assert journal.rows == {}
        journal.add(tasks[0].key, row)
        journal.add(tasks[3].key, row)
    with sweeps.open_journal(directory, specification) as journal:
        assert journal.rows == {tasks[0].key: row, tasks[3].key: row}


def test_a_line_without_its_end_is_done_again(path: pathlib.Path) -> None:
    specification, tasks = read(path)
    row = [1.0] * len(sweeps.METRICS)
    with sweeps.open_journal(path.parent, specification) as journal:
        for task in tasks[:2]:
            journal.add(task.key, row)
    text = journal.path.read_text()
    journal.path.write_text(text[:-3])
    with sweeps.open_journal(path.parent, specification) as journal:
        assert list(journal.rows) == [tasks[0].key]
        journal.add(tasks[1].key, row)
    assert journal.path.read_text() == text


def test_more_seeds_and_strategies_can_be_added(path: pathlib.Path) -> None:
    specification, tasks = read(path)
    with sweeps.open_journal(path.parent, specification) as journal:
        journal.add(tasks[0].key, [1.0] * len(sweeps.METRICS))
    path.write_text(
        SPECIFICATION.replace("seeds: 2", "seeds: 9").replace("wra", "ra")
    )
    with sweeps.open_journal(path.parent, sweeps.read(path)) as journal:
        assert list(journal.rows) == [tasks[0].key]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("0.9", "0.8", "contains the results of another sweep"),
        ("hosts: 4", "hosts: 5", "contains the results of another sweep"),
    ],
)
def test_results_of_another_sweep(
    path: pathlib.Path, old: str, new: str, reason: str
) -> None:
    sweeps.open_journal(path.parent, sweeps.read(path)).close()
    before = (path.parent / sweeps.RESULTS).read_bytes()
    path.write_text(SPECIFICATION.replace(old, new))
    with pytest.raises(errors.InputError, match=reason):
        sweeps.open_journal(path.parent, sweeps.read(path))
    assert (path.parent / sweeps.RESULTS).read_bytes() == before


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,b\n", "line 2: has the wrong number of columns"),
        (
            f"0.5,False,1,fifo,x{',1' * (len(sweeps.METRICS) - 1)}\n",
            "line 2: could not convert",
        ),
    ],
)
def test_results_that_make_no_sense(
    path: pathlib.Path, line: str, reason: str
) -> None:
    specification = sweeps.read(path)
    sweeps.open_journal(path.parent, specification).close()
    results = path.parent / sweeps.RESULTS
    results.write_text(results.read_text() + line)
    with pytest.raises(errors.InputError, match=reason):
        sweeps.open_journal(path.parent, specification)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds: 2", "seeds: 0", "seeds: expected `int` >= 1"),
        ("seeds: 2", "seeds: []", "seeds: expected `array` of length >= 1"),
        (
            "seeds: 2",
            "seeds: 100001",
            "seeds: expected `int` <= 100000",
        ),
        ("seeds: 2", "seeds: 99999", "799992 runs exceed the limit of 100000"),
        ("seeds: 2", "seeds: [3, 3]", "seeds: has the same value twice"),
        ("seeds: 2", "", "object missing required field `seeds`"),
        ("seeds: 2", "seed: 2", "unknown member seed"),
        ("[fifo, wra]", "[]", "strategies: expected `array` of length >= 1"),
        (
            "[fifo, wra]",
            "[x]",
            "unknown strategy 'x'; known strategies: affinity, auto, edf, era",
        ),
        ("[0.5, 0.9]", "[]", "vary.load: expected `array` of length >= 1"),
        ("[0.5, 0.9]", "[0.5, 0.5]", "load: has the same value twice"),
        ("[0.5, 0.9]", "[0.5, -1]", "--load: must be a number above 0"),
        ("[0.5, 0.9]", "[.nan]", "--load: must be a number above 0"),
        ("  load", "  laod", "unrecognized arguments: --laod=0.5"),
        (
            "  load",
            "  boards",
            "vary.boards: this option is given twice",
        ),
        (
            "  load",
            "  strategy",
            "vary.strategy: a sweep sets this option itself",
        ),
        (
            "hosts: 4",
            "hosts: x",
            "--hosts: must be an integer from 1 to 100000, not x",
        ),
        ("seeds: 2", "engine: x\nseeds: 2", "engine: unknown engine 'x'"),
        ("seeds: 2", "seeds: [", "line "),
        (SPECIFICATION, "", "expected `object`, got `null`"),
    ],
)
def test_bad_specifications(
    path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    said: str,
) -> None:
    assert old in SPECIFICATION
    path.write_text(SPECIFICATION.replace(old, new))
    out = path.parent / "out"
    message = commands.refused(capsys, "sweep", path, "--out", out)
    assert said in message
    assert not out.exists()


def test_files_that_cannot_be_used(
    path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = path.parent / "missing.yaml"
    said = commands.refused(capsys, "sweep", missing, "--out", path.parent)
    assert said == f"{missing}: No such file or directory"
    said = commands.refused(capsys, "sweep", path, "--out", path)
    assert said == f"{path}: File exists"
    said = commands.refused(
        capsys, "sweep", path, "--out", path.parent, "--processes", "0"
    )
    assert said == "--processes: must be an integer from 1 to 1024, not 0"
