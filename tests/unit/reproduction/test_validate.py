# SPDX-License-Identifier: Apache-2.0

"""The command ``validate``: its jobs, what it compares and what it says."""

from __future__ import annotations

import csv
import pathlib
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from fpgapool.accelerators import base as profiles
from fpgapool.allinone import program
from fpgapool.allinone import wiring
from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from reproduction import __main__ as reproduction
from reproduction.validation import differences
from reproduction.validation import experiments
from reproduction.validation import system
from reproduction.validation import tenant
from tests.harness import waiting
from tests.unit.reproduction import commands

SCALE = 0.002


# -- the jobs --------------------------------------------------------------


def test_the_testbed_is_what_allinone_emulates() -> None:
    cluster = experiments.cluster()
    real = wiring.Cluster(hosts=cluster.hosts, boards=len(cluster.fpga_hosts))
    assert cluster.slots_per_device == experiments.SLOTS
    assert [real.boards_of(name) for name in real.host_names()] == [
        int(host in cluster.fpga_hosts) for host in range(cluster.hosts)
    ]
    assert (
        cluster.dma_bytes_per_s,
        cluster.nic_bytes_per_s,
        cluster.reconfiguration_s,
    ) == (
        wiring.DMA_BYTES_PER_S,
        wiring.NIC_BYTES_PER_S,
        wiring.PROGRAMMING_TIME_S,
    )


@pytest.mark.parametrize("name", tenant.KINDS)
def test_accelerators_are_what_the_pool_has(name: str) -> None:
    real = profiles.load_profile(name)
    simulated = experiments.cluster().accelerators[name]
    assert simulated.peak_bytes_per_s == real.peak_bytes_per_s
    assert simulated.return_ratio == real.return_ratio


@pytest.mark.parametrize("name", tenant.KINDS)
def test_cores_take_the_parameters_and_whole_units(name: str) -> None:
    """And return as much as their profile says, so as is simulated."""
    kind = tenant.KINDS[name]
    core = profiles.load_core(profiles.load_profile(name).core)(
        {
            key: value.hex() if isinstance(value, bytes) else value
            for key, value in kind.params.items()
        }
    )
    size_bytes = 4 * max(kind.unit_bytes, 65536)
    given = memoryview(bytearray(size_bytes))
    output = memoryview(bytearray(core.max_output_bytes(size_bytes)))
    returned_bytes = core.process(given, output, 0)
    ratio = experiments.RETURN_RATIOS[name]
    assert returned_bytes / size_bytes == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize("mode", experiments.MODES.values())
def test_jobs_of_a_mode(mode: experiments.Mode) -> None:
    scenario = experiments.make_scenario(mode, 2000, 3, SCALE)
    scenario_files.check(scenario, "test")
    jobs = scenario.jobs
    assert {job.host for job in jobs} == set(mode.hosts)
    assert {job.accelerator for job in jobs} == set(tenant.KINDS)
    sizes = np.array([job.size_bytes for job in jobs])
    assert sizes.min() > 0
    assert sizes.mean() == pytest.approx(experiments.MEAN_BYTES, rel=0.03)
    assert sizes.std() == pytest.approx(experiments.DEVIATION_BYTES, rel=0.1)
    assert sizes.sum() / jobs[-1].arrival_s == pytest.approx(
        mode.bytes_per_s, rel=0.1
    )
    for job in jobs:
        scaled_bytes = experiments.scaled_bytes(job, SCALE)
        # Not a byte is only there or only here.
        assert scaled_bytes == pytest.approx(job.size_bytes * SCALE)
        assert scaled_bytes % tenant.KINDS[job.accelerator].unit_bytes == 0
    assert experiments.make_scenario(mode, 2000, 3, SCALE) == scenario
    assert experiments.make_scenario(mode, 2000, 4, SCALE) != scenario


# -- differences -----------------------------------------------------------


def sample(
    sizes_mb: list[float], real_s: list[float], fluid_s: list[float]
) -> differences.Sample:
    return differences.Sample(
        np.array(sizes_mb) * 1e6,
        np.array(real_s),
        {"fluid": np.array(fluid_s), "chunk": np.array(real_s)},
    )


def test_differences_by_class() -> None:
    found = differences.compare(
        "local",
        [
            sample([100, 400, 900], [1, 2, 5], [1, 2, 6]),
            sample([399.9, 599], [1, 2], [3, 1]),
        ],
        0.5,
    )
    rows = {
        row.low_bytes / 1e6: (row.jobs, row.real_s, row.simulated_s["fluid"])
        for row in found.classes
    }
    assert rows == {
        0: (1, 1, 1),
        200: (1, 1, 3),
        400: (2, 2, 1.5),
        800: (1, 5, 6),
    }
    assert found.total.jobs == 5
    assert found.total.of("fluid") == pytest.approx(13 / 11 - 1)
    large = found.large
    assert (large.jobs, large.real_s, large.simulated_s["fluid"]) == (3, 3, 3)
    assert large.runs["fluid"] == (8 / 7 - 1, -0.5)
    assert (found.worst, found.reaches_goal) == (0, True)


@pytest.mark.parametrize(
    ("fluid_s", "reached"),
    [(1.079, True), (1.081, False), (0.921, True), (0.919, False)],
)
def test_goal(fluid_s: float, reached: bool) -> None:
    """In both directions, with the worst engine, and large jobs only."""
    some = sample([50, 500], [1, 1], [9, fluid_s])
    found = differences.compare("remote", [some], 0.5)
    assert found.reaches_goal is reached
    assert found.worst == pytest.approx(abs(fluid_s - 1))


def test_no_large_jobs() -> None:
    with pytest.raises(ValueError, match="no jobs"):
        differences.compare("local", [sample([300], [1], [1])], 0.5)


# -- the command, with a system that does what it is told ------------------


class Real:
    """A system whose jobs take so many times as long as simulated ones."""

    def __init__(self) -> None:
        self.slowness = 1.0
        self.busy = 0.3
        self.failure: BaseException | None = None
        self.scales: list[float] = []

    def run(
        self, scenario: scenarios.Scenario, scale: float, timeout_s: float
    ) -> system.Run:
        if self.failure is not None:
            raise self.failure
        self.scales.append(scale)
        outcomes = simulation.run(scenario, experiments.STRATEGY)
        assert timeout_s > max(each.finish_s for each in outcomes)
        times = {
            job.id: tenant.Times(
                job.id,
                job.arrival_s,
                done.start_s,
                job.arrival_s
                + (done.finish_s - job.arrival_s) * self.slowness,
                f"node{done.host + 1}",
                done.slot,
                done.local,
            )
            for job, done in zip(scenario.jobs, outcomes, strict=True)
        }
        return system.Run(times, self.busy)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Real:
    made = Real()
    monkeypatch.setattr(system, "run", made.run)
    return made


def validate(out_dir: pathlib.Path, *options: str) -> int:
    return reproduction.main(["validate", "--out", str(out_dir), *options])


def rows_of(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.long
def test_all_modes(
    real: Real, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out_dir = tmp_path / "new" / "dir"
    assert validate(out_dir, "--jobs=30", "--scale=0.004") == 0
    assert real.scales == [0.004] * 6
    said = capsys.readouterr().out
    for name in experiments.MODES:
        assert f"{name}: " in said
    assert said.count("within the goal of 8%; processors busy: 30%") == 3
    assert "held up" not in said
    png = (out_dir / "figure6.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    rows = rows_of(out_dir / "figure6.csv")
    totals = [
        row
        for row in rows
        if (row["min_bytes"], row["max_bytes"]) == ("0", "")
    ]
    assert [row["mode"] for row in totals] == ["local", "remote", "global"]
    assert [row["jobs"] for row in totals] == ["60"] * 3
    assert all(float(row["fluid_difference"]) == 0 for row in rows)
    assert any(float(row["chunk_difference"]) != 0 for row in rows)
    jobs = rows_of(out_dir / "figure6-jobs.csv")
    # Modes, runs, who; the real system is the fluid engine here.
    assert len(jobs) == 3 * 2 * 3 * 30
    by_who = {
        who: [{**row, "who": ""} for row in jobs if row["who"] == who]
        for who in ("real", "fluid", "chunk")
    }
    assert by_who["real"] == by_who["fluid"] != by_who["chunk"]
    assert {row["seed"] for row in jobs} == {"1", "2"}


def test_a_mode_misses_the_goal(
    real: Real, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real.slowness = 1.25
    real.busy = 0.95
    options = ("--jobs=30", "--modes=remote", "--runs=1", "--seed=7")
    assert validate(tmp_path, *options) == 1
    said = capsys.readouterr().out
    assert "MORE than the goal of 8%" in said
    assert "held up" in said
    (total,) = (
        row
        for row in rows_of(tmp_path / "figure6.csv")
        if (row["min_bytes"], row["max_bytes"]) == ("0", "")
    )
    assert float(total["fluid_difference"]) == pytest.approx(-0.2, abs=1e-4)


def test_the_real_system_fails(
    real: Real, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real.failure = errors.SystemFailed("the pool did not start")
    assert validate(tmp_path, "--jobs=30") == 1
    said = capsys.readouterr()
    assert said.err == "python -m reproduction: the pool did not start\n"
    assert not list(tmp_path.iterdir())


def test_interrupt(real: Real, tmp_path: pathlib.Path) -> None:
    real.failure = KeyboardInterrupt()
    assert validate(tmp_path, "--jobs=30") == 130


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--jobs=0"], "--jobs: must be an integer from 1 to 2000, not 0"),
        (
            ["--jobs=2001"],
            "--jobs: must be an integer from 1 to 2000, not 2001",
        ),
        (["--runs=-1"], "--runs: must be an integer from 1 to "),
        (
            ["--scale=nan"],
            "--scale: must be a number from 0.0001 to 0.1, not nan",
        ),
        (["--scale=1"], "--scale: must be a number from 0.0001 to 0.1, not 1"),
        (
            ["--modes=local,remot"],
            "--modes: unknown mode 'remot'; known: local, remote, global",
        ),
        (["--modes="], "--modes: unknown mode ''; known:"),
        (
            ["--jobs=1", "--seed=3", "--runs=9"],
            "--jobs: none of the local ones has 400 MB or more",
        ),
    ],
)
def test_what_makes_no_sense(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    reason: str,
) -> None:
    out_dir = tmp_path / "out"
    said = commands.refused(capsys, "validate", "--out", out_dir, *options)
    assert said.startswith(reason)
    assert not out_dir.exists()


@pytest.mark.usefixtures("real")
def test_out_is_a_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.touch()
    said = commands.refused(capsys, "validate", "--out", path)
    assert said.startswith(f"{path}: ")


# -- the processes ---------------------------------------------------------


def small_scenario() -> scenarios.Scenario:
    return experiments.make_scenario(experiments.MODES["local"], 3, 1, SCALE)


def test_orders() -> None:
    """Each host's jobs go to its own front door, scaled; one warms up."""
    mode = experiments.MODES["remote"]
    scenario = experiments.make_scenario(mode, 40, 1, SCALE)
    doors = {f"node{host + 1}": f"door{host}" for host in range(5)}
    orders = system._orders(scenario, SCALE, 30.0, doors)
    assert {
        host: (order.front_door, order.timeout_s, order.warm_slots)
        for host, order in orders.items()
    } == {"node4": ("door3", 30.0, 12), "node5": ("door4", 30.0, 0)}
    tasks = {
        task.id: (int(host.removeprefix("node")) - 1, task)
        for host, order in orders.items()
        for task in order.tasks
    }
    assert sorted(tasks) == list(range(40))
    for job in scenario.jobs:
        host, task = tasks[job.id]
        assert (host, task.accelerator) == (job.host, job.accelerator)
        assert task.size_bytes / SCALE == pytest.approx(job.size_bytes)
        assert task.arrival_s == job.arrival_s


def test_in_memory_unless_told_otherwise(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(system, "_MEMORY", tmp_path)
    assert system._parent_directory() == tmp_path
    monkeypatch.setattr(system, "_MEMORY", tmp_path / "missing")
    assert system._parent_directory() is None
    monkeypatch.setattr(system, "_MEMORY", tmp_path)
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert system._parent_directory() is None


def test_a_pool_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "_PROGRAM", "fpgapool.cmd.nonsense")
    with pytest.raises(errors.SystemFailed, match="pool did not start:\n"):
        system.run(small_scenario(), SCALE, 10.0)


@pytest.mark.parametrize("begun", [False, True])
def test_a_client_that_fails(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    program = tmp_path / "failing.py"
    program.write_text(
        "import sys\n"
        f"if {begun}:\n"
        "    sys.stdin.readline()\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.readline()\n"
        "sys.exit('it is broken')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(system, "_TENANT", "failing")
    monkeypatch.setattr(system, "_BEGIN_S", 0.0)
    order = tenant.Order("door", 1.0, [tenant.Task(0, "aes", 1, 0.0)])
    with (
        pytest.raises(
            errors.SystemFailed, match=r"on node1 failed:\n.*broken"
        ),
        system._tenants(tmp_path, {"node1": order}) as tenants,
    ):
        tenants.run()


def test_a_client_without_a_pool(tmp_path: pathlib.Path) -> None:
    """It says the code of what went wrong, in a line."""
    order = tenant.Order(
        str(tmp_path / "door"), 1.0, [tenant.Task(0, "aes", 1000, 0.0)]
    )
    ran = subprocess.run(
        [sys.executable, "-m", tenant.__name__],
        input=msgspec.json.encode(order) + b"\n",
        capture_output=True,
        timeout=waiting.COMMAND_LIMIT_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, b"")
    code = b"FRONT_DOOR_UNAVAILABLE: "
    assert ran.stderr.startswith(code)
    assert ran.stderr.count(code) == 1
    assert ran.stderr.count(b"\n") == 1


def test_busy_share() -> None:
    """Idle, waiting for disks and what gives way do not count."""
    before = [10] * 8
    after = [13, 20, 11, 15, 11, 10, 10, 10]
    assert system._busy_share(before, after) == pytest.approx(4 / 20)
    assert system._busy_share(before, before) in (0.0, 1.0)
    assert len(system._processor_times()) == 8
