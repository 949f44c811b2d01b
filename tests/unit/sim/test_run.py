# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim run``: results, comparisons, pictures and bad input."""

import contextlib
import csv
import importlib.machinery
import json
import pathlib
import subprocess
import sys
import types
import typing
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool.cmd import sim
from fpgapool.sim import files
from fpgapool.sim import simulation
from fpgapool.sim.engines import fluid
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import tables
from tests.harness import waiting
from tests.unit.sim import commands


def run(*arguments: str | pathlib.Path) -> None:
    assert sim.main(["run", *(str(each) for each in arguments)]) == 0


@pytest.fixture
def scenario(tmp_path: pathlib.Path) -> pathlib.Path:
    return commands.write(tmp_path / "s.json", commands.make_scenario())


def test_there_are_cases() -> None:
    assert len(commands.CASES) >= 5


@pytest.mark.parametrize("case", commands.CASES, ids=lambda path: path.stem)
def test_worked_examples(case: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Slots exactly, times and metrics to a millionth."""
    run(case, "--output", tmp_path / "out.json")
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    expected = json.loads(case.read_text())["expected"]
    assert results.keys() == expected.keys()
    for strategy, right in expected.items():
        found = results[strategy]
        assert found.keys() == right.keys()
        assert found["metrics"] == pytest.approx(right["metrics"], rel=1e-6)
        assert len(found["jobs"]) == len(right["jobs"])
        by_id = {job["id"]: job for job in found["jobs"]}
        for job in right["jobs"]:
            got = by_id[job["id"]]
            assert got.keys() == job.keys()
            for name in ("host", "slot", "local"):
                assert got[name] == job[name]
            for name in ("start_s", "finish_s"):
                assert got[name] == pytest.approx(
                    job[name], rel=1e-6, abs=1e-9
                )


@pytest.mark.parametrize("engine", sorted(simulation.ENGINES))
def test_a_seed_gives_the_same_file(
    engine: str, tmp_path: pathlib.Path
) -> None:
    case = json.loads(commands.LARGEST_CASE.read_text())
    del case["expected"]
    for strategy in case["strategies"].values():
        strategy.update(slot_choice="random", offer_order="random")
    source = commands.write(tmp_path / "s.json", case)
    outputs = []
    for seed in ("7", "7", "8"):
        path = tmp_path / f"{len(outputs)}.json"
        run(source, "--engine", engine, "--seed", seed, "--output", path)
        outputs.append(path.read_bytes())
    assert outputs[0] == outputs[1]
    assert outputs[0] != outputs[2]


def test_a_small_run_imports_no_slow_libraries(
    scenario: pathlib.Path,
) -> None:
    program = (
        "import sys; from fpgapool.cmd import sim; sim.main(sys.argv[1:]); "
        "print({'matplotlib', 'numba', 'scipy'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(scenario)],
        check=True,
        capture_output=True,
        text=True,
        timeout=waiting.COMMAND_LIMIT_S,
    )
    assert done.stdout.endswith("set()\n")


def test_details_stand_beside_the_results(
    scenario: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    run(scenario, "--strategy", "fifo", "--output", tmp_path / "o.json")
    found = json.loads((tmp_path / "o.json").read_text())
    assert found.keys() == {"results", "details"}
    details = found["details"]["fifo"]
    assert details["p50_s"] <= details["p99_s"]
    assert [host["host"] for host in details["hosts"]] == [0, 1, 2]
    assert details["hosts"][1]["utilisation"]["slots"] is None
    assert details["tenants"].keys() == {"", "a"}
    assert details["tenants"]["a"]["jobs"] == 1
    assert "energy" not in details


def test_energy_where_the_scenario_sets_power(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = commands.make_scenario()
    scenario["cluster"]["power"] = {"host_w": 100.0}
    run(
        commands.write(tmp_path / "s.json", scenario),
        "--output",
        tmp_path / "o.json",
    )
    found = json.loads((tmp_path / "o.json").read_text())
    for strategy, details in found["details"].items():
        makespan_s = found["results"][strategy]["metrics"]["makespan_s"]
        assert details["energy"]["total_j"] == pytest.approx(300 * makespan_s)
    assert "energy" in capsys.readouterr().out


def test_strategies_are_compared_with_the_first_one(
    scenario: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(scenario, "--strategy", "wra", "sjf", "--strategy", "fifo", "wra")
    said = capsys.readouterr().out
    assert "improvement over wra" in said
    rows = [line.split()[0] for line in said.splitlines() if line.strip()]
    named = [row for row in rows if row in ("wra", "sjf", "fifo")]
    # The comparison, waits, how jobs were treated, and what was used.
    assert named == ["wra", "sjf", "fifo"] * 4
    told = " ".join(said.split())
    assert "wait mean wait p95 wait p99" in told
    assert "DLR: share of bytes that stayed local" in told


def test_a_strategy_alone_shows_its_metrics(
    scenario: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(scenario, "--strategy", "fifo")
    said = capsys.readouterr().out
    for name in ("ACT", "TCT(95)", "p99", "SAR", "DLR", "makespan"):
        assert name in said
    for name in ("wait mean", "wait p95", "wait p99"):
        assert name in said
    assert "×" not in said


def test_a_strategy_that_the_scenario_does_not_name(
    scenario: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    run(scenario, "--strategy", "ra", "--output", tmp_path / "o.json")
    found = json.loads((tmp_path / "o.json").read_text())
    assert found["results"].keys() == {"ra"}


def test_pictures(scenario: pathlib.Path, tmp_path: pathlib.Path) -> None:
    content = commands.make_scenario()
    content["strategies"] = {
        "a/b": {"strategy": "fifo"},
        "a?b": {"strategy": "wra"},
    }
    directory = tmp_path / "new" / "plots"
    run(commands.write(scenario, content), "--plot", directory)
    assert {path.name for path in directory.iterdir()} == {
        "timeline-a_b.png",
        "timeline-a_b-2.png",
        "completion-times.png",
        "utilisation.png",
    }
    for path in directory.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("suffix", "start"),
    [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")],
)
def test_the_name_of_a_picture_decides_the_format(
    scenario: pathlib.Path, tmp_path: pathlib.Path, suffix: str, start: bytes
) -> None:
    directory = tmp_path / "new"
    target = directory / f"mine.{suffix}"
    run(scenario, "--strategy", "fifo", "--plot", target)
    assert {path.name for path in directory.iterdir()} == {
        f"mine-timeline-fifo.{suffix}",
        f"mine-completion-times.{suffix}",
        f"mine-utilisation.{suffix}",
    }
    for path in directory.iterdir():
        assert path.read_bytes().startswith(start)


# -- several seeds, and tables ---------------------------------------------


def _randomly(path: pathlib.Path) -> pathlib.Path:
    """Write a scenario whose results depend on the seed."""
    content = json.loads(commands.LARGEST_CASE.read_text())
    del content["expected"]
    content["strategies"] = {"fifo": {"slot_choice": "random"}}
    return commands.write(path, content)


def test_seeds_give_means_and_intervals(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = _randomly(tmp_path / "s.json"), tmp_path / "o.json"
    run(source, "--seeds=3", "--seed=4", "--output", output)
    said = capsys.readouterr().out
    together = json.loads(output.read_text())
    alone = []
    for seed in (4, 5, 6):
        run(source, f"--seed={seed}", "--output", output)
        alone.append(json.loads(output.read_text())["results"]["fifo"])
    assert together["results"]["fifo"] == alone[0]
    for found, right in zip(together["seeds"]["fifo"], alone, strict=True):
        assert found.pop("treatment").keys() >= {"slowdown_mean", "jain"}
        waits = ("wait_mean_s", "wait_p95_s", "wait_p99_s")
        assert all(found.pop(name) >= 0 for name in waits)
        assert found == right["metrics"]
    values = [each["metrics"]["act_s"] for each in alone]
    mean, half = gains.confidence(values)
    assert half > 0
    assert f"{mean:.2f} s" in said
    assert f"± {half:.2f} s" in said
    assert "95 % confidence interval over 3 seeds" in said


@pytest.mark.parametrize("name", ["r.xlsx", "r.json.txt", "r.CSV"])
def test_results_have_no_other_format(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = commands.write(tmp_path / "s.json", commands.make_scenario())
    output = tmp_path / name
    said = commands.refused(capsys, "run", source, "--output", output)
    assert said == (
        f"{output}: {output.suffix} is of no format; "
        "name a .json, .csv or .parquet file"
    )
    assert not output.exists()


def test_a_table_has_a_line_for_each_job_of_each_run(
    tmp_path: pathlib.Path,
) -> None:
    content = commands.make_scenario()
    content["jobs"][1]["name"] = "j,1"
    source = commands.write(tmp_path / "s.json", content)
    output = tmp_path / "o.csv"
    run(source, "--seeds=2", "--warm-up-s=0.1", "--output", output)
    with output.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(tables.COLUMNS)
    assert [(line["strategy"], line["seed"]) for line in lines] == [
        (name, seed)
        for name in ("fifo", "wra")
        for seed in ("0", "1")
        for _ in content["jobs"]
    ]
    assert [line["warm_up"] for line in lines[:3]] == [
        "True",
        "False",
        "False",
    ]
    second = lines[1]
    assert (second["id"], second["name"], second["tenant"]) == (
        "1",
        "j,1",
        "a",
    )
    assert float(second["wait_s"]) == pytest.approx(
        float(second["start_s"]) - float(second["arrival_s"])
    )
    assert float(second["completion_s"]) == pytest.approx(
        float(second["finish_s"]) - 0.25
    )
    assert float(second["slowdown"]) >= 1
    assert second["energy_j"] == ""


class _Arrow(types.ModuleType):
    """What stands in for pyarrow; it keeps what a table is made of."""

    def __init__(self) -> None:
        super().__init__("pyarrow")
        self.__spec__ = importlib.machinery.ModuleSpec("pyarrow", None)
        self.written: list[dict[str, list[object]]] = []
        for kind in ("string", "int64", "float64", "bool_"):
            setattr(self, kind, lambda kind=kind: kind)
        self.schema = dict
        self.parquet = types.ModuleType("pyarrow.parquet")
        self.parquet.ParquetWriter = self.writer  # type: ignore[attr-defined]

    def table(
        self, columns: dict[str, list[object]], schema: dict[str, str]
    ) -> dict[str, list[object]]:
        assert columns.keys() == schema.keys()
        return columns

    @contextlib.contextmanager
    def writer(
        self, stream: typing.BinaryIO, schema: dict[str, str]
    ) -> Iterator[typing.Any]:
        stream.write(b"PAR1")
        yield types.SimpleNamespace(write_table=self.written.append)


def test_a_table_in_parquet(
    scenario: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrow = _Arrow()
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", arrow.parquet)
    run(scenario, "--output", tmp_path / "o.parquet")
    assert (tmp_path / "o.parquet").read_bytes() == b"PAR1"
    fifo, wra = arrow.written
    assert fifo["id"] == wra["id"] == [0, 1, 2]
    assert set(wra["strategy"]) == {"wra"}
    assert fifo["local"][0] is True
    assert fifo["energy_j"] == [None] * 3


def test_parquet_without_its_library(
    scenario: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda _: None)
    path = tmp_path / "o.parquet"
    said = commands.refused(capsys, "run", scenario, "--output", path)
    assert said == (
        f"{path}: pyarrow is not installed; install it with: "
        "pip install 'fpgapool[parquet]', or name a .csv file"
    )


def test_a_warm_up_that_is_too_long(
    scenario: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = commands.refused(capsys, "run", scenario, "--warm-up-s", "0.51")
    assert said == (
        "--warm-up-s: no job arrives at 0.51 s or later; the last one "
        "arrives at 0.5 s"
    )


# -- bad input -------------------------------------------------------------


def _of(place: str, value: object) -> Callable[[dict[str, typing.Any]], None]:
    """Set, or with None remove, a member of the first job."""

    def change(scenario: dict[str, typing.Any]) -> None:
        if value is None:
            del scenario["jobs"][0][place]
        else:
            scenario["jobs"][0][place] = value

    return change


def _of_cluster(
    place: str, value: object, **others: object
) -> Callable[[dict[str, typing.Any]], None]:
    """Set members of the cluster."""
    return lambda scenario: scenario["cluster"].update(
        {place: value, **others}
    )


def _of_reservation(
    **members: object,
) -> Callable[[dict[str, typing.Any]], None]:
    """Reserve a slot."""
    reserved = {"accelerator": "aes", "slots": 1, "start_s": 1, "end_s": 2}
    return lambda scenario: scenario.update(reservations=[reserved | members])


_GROUP = {
    "name": "g",
    "slots": 1,
    "clients": [{"name": "c", "task_s": 1, "arrivals_s": [0]}],
}


def _twice(scenario: dict[str, typing.Any]) -> None:
    scenario["jobs"][2]["id"] = scenario["jobs"][0]["id"]


def _no_rate(scenario: dict[str, typing.Any]) -> None:
    del scenario["cluster"]["accelerators"]["aes"]["peak_bytes_per_s"]


def _thresholds(scenario: dict[str, typing.Any]) -> None:
    scenario["strategies"]["wra"]["thresholds_bytes"] = [2e6, 1e6]


def _strategy(scenario: dict[str, typing.Any]) -> None:
    scenario["strategies"]["wra"]["strategy"] = "best"


def _range(scenario: dict[str, typing.Any]) -> None:
    scenario["strategies"]["wra"]["slot_choice"] = "whichever"


BAD = {
    "missing": (_of("size_bytes", None), "jobs[0]", "size_bytes"),
    "unknown": (_of("colour", "red"), "jobs[0]", "colour"),
    "negative": (_of("size_bytes", -1), "jobs[0].size_bytes", "> 0"),
    "nan": (_of("size_bytes", float("nan")), "line 1 column", "'NaN"),
    "infinite": (_of("size_bytes", float("inf")), "line 1", "'Infinity"),
    "large": (_of("size_bytes", 2e18), "jobs[0].size_bytes", "<= 1e+18"),
    "huge": (_of("arrival_s", 10**400), "jobs[0].arrival_s", "out of range"),
    "hosts": (_of_cluster("hosts", 10**9), "cluster.hosts", "<= 100000"),
    "slots": (
        _of_cluster("slots_per_device", 1001),
        "cluster.slots_per_device",
        "<= 1000",
    ),
    "all slots": (
        _of_cluster(
            "host_overrides",
            {str(host): {"slots_per_device": 1000} for host in range(1001)},
            hosts=1001,
            fpga_hosts=list(range(1001)),
        ),
        "cluster: has 1001000 slots; at most 1000000",
        "",
    ),
    "rate": (
        _of_cluster("dma_bytes_per_s", 1e16),
        "cluster.dma_bytes_per_s",
        "<= 1000000000000000.0",
    ),
    "no time": (_of_cluster("nic_bytes_per_s", 1e-9), "cluster.nic", ">= 0"),
    "peak": (
        _of_cluster("accelerators", {"a.b": {"peak_bytes_per_s": 0}}),
        "cluster.accelerators.a.b.peak_bytes_per_s",
        ">= 0.001",
    ),
    "platform": (
        _of_cluster(
            "accelerators",
            {
                name: {
                    "peak_bytes_per_s": 1e9,
                    "platforms": {
                        "u50": {"peak_bytes_per_s": 1e9},
                        "u280": {"peak_bytes_per_s": peak},
                    },
                }
                for name, peak in (("aes", 1e9), ("sha", 1e300))
            },
        ),
        "cluster.accelerators.sha.platforms.u280.peak_bytes_per_s",
        "<= ",
    ),
    "misspelt": (
        lambda each: each["strategies"].update(ra={"remote_limitt": 1}),
        "strategies.ra: unknown option remote_limitt",
        "did you mean remote_limit?",
    ),
    "nothing like an option": (
        lambda each: each["strategies"].update(ra={"colour": 1}),
        "strategies.ra: unknown option colour",
        "",
    ),
    "nearly a member": (
        _of("placement", "spread"),
        "jobs[0]: unknown member placement",
        "did you mean set_placement?",
    ),
    "no member": (
        lambda each: each.update(users={"lab": {"limit": 1}}),
        "users.lab: unknown member limit",
        "known members: sessions_per_user, user_turns",
    ),
    "queues": (
        lambda each: each["strategies"].update(wa={"queues": 10**9}),
        "strategies.wa.queues",
        "<= 1000",
    ),
    "early": (_of("arrival_s", -1), "jobs[0].arrival_s", ">= 0"),
    "host": (
        _of("host", 3),
        "jobs[0].host",
        "no host 3; hosts are numbered 0 to 2",
    ),
    "twice": (_twice, "jobs[2].id", "0 is used twice"),
    "accelerator": (_of("accelerator", "x"), "jobs[0].accelerator", "aes"),
    "no rate": (_no_rate, "cluster.accelerators", "peak_bytes_per_s"),
    "thresholds": (
        _thresholds,
        "strategies.wra.thresholds_bytes[1]",
        "1e+06 is not above 2e+06",
    ),
    "strategy": (_strategy, "strategies.wra", "known strategies: "),
    "option": (_range, "strategies.wra", "whichever"),
    "no jobs": (lambda each: each.update(jobs=[]), "jobs", "one"),
    "no strategy": (
        lambda each: each.update(strategies={}),
        "strategies",
        "at least one is required",
    ),
    "format": (
        lambda each: each.update(format="x"),
        "format",
        "unknown value 'x'; known values: fpgapool-scenario/1",
    ),
    "placement": (
        _of("set_placement", "board"),
        "jobs[0].set_placement",
        "unknown value 'board'; did you mean same_board? known values: "
        "same_board, same_host, spread",
    ),
    "no word": (
        _of("set_placement", 1),
        "jobs[0].set_placement",
        "expected `str | null`, got `int`; known values: same_board, ",
    ),
    "preempt": (
        lambda each: each["strategies"].update(fifo={"preempt": "find"}),
        "strategies.fifo.preempt",
        "did you mean fine? known values: fine, none",
    ),
    "deadline": (
        lambda each: each["strategies"].update(
            fifo={"deadline_action": "stop"}
        ),
        "strategies.fifo.deadline_action",
        "known values: continue, early, kill",
    ),
    "estimate": (
        lambda each: each["strategies"].update(
            fifo={"elasticity": {"name": "nnls", "estimate": "nnl"}}
        ),
        "strategies.fifo.elasticity.estimate",
        "did you mean nnls? known values: as_printed, measured, nnls, ",
    ),
    "action": (
        lambda each: each.update(
            budgets={"a": {"period_s": 1, "slot_s": 1, "action": "idle"}}
        ),
        "budgets.a.action",
        "did you mean idle_only? known values: idle_only, refuse",
    ),
    "repeat": (
        _of_reservation(repeat="daily"),
        "reservations[0].repeat",
        "known values: day, never, week",
    ),
    "repeat without times": (
        _of_reservation(repeat="day"),
        "reservations[0].repeat",
        "requires times: 2 or more",
    ),
    "times without repeat": (
        _of_reservation(times=2),
        "reservations[0].times",
        "requires repeat: day or repeat: week",
    ),
    "reserved accelerator": (
        _of_reservation(accelerator="x"),
        "reservations[0].accelerator",
        "unknown accelerator 'x'; known accelerators: aes, sha",
    ),
    "priorities": (
        lambda each: each.update(max_priorities={"b": 1}),
        "max_priorities.b",
        "no job is of the tenant 'b'",
    ),
    "tasks without groups": (
        _of_cluster("tasks_per_s", 1),
        "cluster.tasks_per_s",
        "requires groups",
    ),
    "power of cores": (
        _of_cluster("power", {"core_active_w": 1}),
        "cluster.power.core_active_w",
        "requires cluster.cores_per_host",
    ),
    "options of no policy": (
        lambda each: each.update(
            strategies={"fifo": {"elasticity": {"period_s": 10}}},
            groups=[_GROUP],
        ),
        "strategies.fifo.elasticity.period_s",
        "requires a policy other than none",
    ),
}


@pytest.mark.parametrize(
    ("change", "place", "reason"), BAD.values(), ids=BAD.keys()
)
def test_bad_scenario(
    change: Callable[[dict[str, typing.Any]], None],
    place: str,
    reason: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = commands.make_scenario()
    change(scenario)
    said = commands.complaint(capsys, tmp_path, scenario)
    assert said.startswith(place)
    assert reason in said


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "line 1 column 1"),
        (b'{\n "format": ', "line 2 column 12"),
        (b'{"name": "\xff"}', "byte 10"),
        (b"[]", "expected `object`"),
    ],
)
def test_no_scenario_at_all(
    content: bytes,
    place: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(content)
    assert place in commands.refused(capsys, "run", path)


@pytest.mark.parametrize(
    ("strategies", "place"),
    [
        ('{"wra": {"remote_limit": 1}, "wra": {}}', "strategies.wra"),
        # The first one is wrong, besides.
        ('{"wra": {"remote_limit": "x"}, "wra": {}}', "strategies.wra"),
        ('{"ra": {"queues": 2, "queues": 3}}', "strategies.ra.queues"),
        ('[{}, [{"a": 1, "b": 2, "a": 1}]]', "strategies[1][0].a"),
        ('{}, "jobs": []', "jobs"),
    ],
)
def test_keys_that_are_given_twice(
    strategies: str,
    place: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """JSON would take the last value of each."""
    path = tmp_path / "s.json"
    path.write_text(f'{{"jobs": [], "strategies": {strategies}}}')
    said = commands.refused(capsys, "run", path)
    assert said == f"{path}: {place}: is a duplicate"


def test_a_file_that_is_nested_too_deeply(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    said = commands.refused(capsys, "run", path)
    assert said == f"{path}: is nested too deeply"


def test_neither_a_scenario_nor_json(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"format": 1}, {')
    said = commands.refused(capsys, "run", path)
    assert said == (
        f"{path}: line 1 column 15: JSON is malformed: trailing characters, "
        "at ' {'"
    )


def test_a_file_that_is_too_large(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 2**20)
    for path in (pathlib.Path("/dev/zero"), tmp_path / "s.json"):
        if not path.exists():
            path.write_bytes(b" " * (2**20 + 1))
        said = commands.refused(capsys, "run", path)
        assert said == f"{path}: is larger than 1 MiB"


def test_results_are_finite(
    scenario: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Endless(fluid.FluidEngine):
        def advance(self, limit_s: float) -> tuple[float, list[int]]:
            time_s, done = super().advance(limit_s)
            return (float("inf") if done else time_s), done

    monkeypatch.setitem(simulation.ENGINES, "fluid", Endless)
    out = scenario.parent / "o.json"
    said = commands.refused(capsys, "run", scenario, "--output", out)
    assert said == (
        f"{scenario}: strategies.fifo: job 0 would never end: its results "
        "are not finite"
    )
    assert not out.exists()


def test_missing_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    said = commands.refused(capsys, "run", path)
    assert said == f"{path}: No such file or directory"


def test_unknown_strategy_names_the_known_ones(
    scenario: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nothing runs before all of them are known."""
    monkeypatch.setattr(simulation, "run", None)
    said = commands.refused(
        capsys, "run", scenario, "--strategy", "fifo", "best"
    )
    assert said == (
        f"{scenario}: strategies.best: unknown strategy 'best'; known "
        "strategies: "
        f"{', '.join(sorted(simulation.installed()))}; in the scenario: "
        "fifo, wra"
    )


@pytest.mark.parametrize(
    ("output", "reason"),
    [("", "is a directory"), ("none/o.json", "there is no directory")],
)
def test_output_that_cannot_be_written(
    output: str,
    reason: str,
    scenario: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulation, "run", None)
    path = scenario.parent / output
    said = commands.refused(capsys, "run", scenario, "--output", path)
    assert said.startswith(f"{path}: {reason}")


def test_plot_into_a_file(
    scenario: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = commands.refused(capsys, "run", scenario, "--plot", scenario)
    assert said == f"{scenario}: File exists"


def test_jobs_that_nobody_serves(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A board host's job may wait for ever: a result would be wrong."""
    content = commands.make_scenario()
    content["strategies"] = {
        "ra": {
            "remote_limit": 0,
            "wait_s_per_byte": 1e9,
            "slot_choice": "index",
        }
    }
    path = commands.write(tmp_path / "s.json", content)
    out = tmp_path / "o.json"
    out.write_text("old")
    said = commands.refused(capsys, "run", path, "--output", out)
    assert "would wait forever" in said
    assert out.read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "o.json",
        "s.json",
    ]


@pytest.mark.parametrize("seed", ["-1", "1.5", "x"])
def test_bad_seed(
    seed: str, scenario: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        sim.main(["run", str(scenario), f"--seed={seed}"])
    assert stopped.value.code == 2
    assert "--seed" in capsys.readouterr().err
