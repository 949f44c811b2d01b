# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim`` as a program: generate, run, and what it refuses."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.harness import waiting
from tests.unit.sim import commands


def simulate(*arguments: str | pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "fpgapool.cmd.sim", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=waiting.COMMAND_LIMIT_S,
        check=False,
    )


@pytest.mark.long
def test_from_a_workload_to_results(tmp_path: pathlib.Path) -> None:
    """In two processes each: the files are the same, byte for byte."""
    contents = []
    for name in ("a", "b"):
        scenario = tmp_path / f"{name}.json"
        results = tmp_path / f"{name}-results.json"
        made = simulate(
            "generate",
            *"--hosts 8 --boards 4 --jobs-per-host 5 --seed 3".split(),
            *("--output", scenario),
        )
        assert made.returncode == 0
        assert commands.without_progress(made.stderr) == []
        assert "40 jobs" in made.stdout
        ran = simulate(
            "run",
            scenario,
            *"--strategy fifo wra --seed 5 --output".split(),
            results,
        )
        assert ran.returncode == 0
        assert commands.without_progress(ran.stderr) == []
        assert "improvement over fifo" in ran.stdout
        contents.append((scenario.read_bytes(), results.read_bytes()))
    assert contents[0] == contents[1]
    found = json.loads(contents[0][1])["results"]
    assert [len(each["jobs"]) for each in found.values()] == [40, 40]


def test_bad_input_is_said_in_a_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"format": "fpgapool-scenario/1", "jobs": NaN}')
    ran = simulate("run", path)
    assert (ran.returncode, ran.stdout) == (2, "")
    [line] = commands.without_progress(ran.stderr)
    assert line.startswith(f"fpgapool-sim: {path}: ")
