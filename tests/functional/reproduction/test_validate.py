# SPDX-License-Identifier: Apache-2.0

"""``python -m reproduction validate`` with a real pool and real clients."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.functional.allinone import harness
from tests.harness import waiting
from tests.unit.reproduction import figure_runs
from tests.unit.sim import commands

# In the gate: tests/unit/reproduction/test_validate.py and test_command.py.
pytestmark = pytest.mark.long

#: Three processes start one after the other, on a machine that is busy.
LIMIT_S = 240

COMMAND = [sys.executable, "-m", "reproduction", "validate", "--out"]


def test_a_few_jobs(tmp_path: pathlib.Path) -> None:
    """The pictures, the tables and the exit code tell the same."""
    out_dir = tmp_path / "out"
    with harness.short_directory() as temporary:
        ran = subprocess.run(
            [
                *COMMAND,
                str(out_dir),
                *"--modes=global --jobs=8 --runs=1 --seed=2".split(),
            ],
            env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        # Whether the goal is reached depends on what else this machine does.
        assert ran.returncode in (0, 1), ran.stderr
        assert commands.without_progress(ran.stderr) == []
        harness.Processes(temporary).wait_for_end()
        assert os.listdir(temporary) == []
    assert (out_dir / "figure6.png").read_bytes().startswith(b"\x89PNG")
    rows = figure_runs.rows_of(out_dir / "figure6.csv")
    (large,) = (
        row
        for row in rows
        if (row["min_bytes"], row["max_bytes"]) == ("400000000", "")
    )
    worst = max(
        abs(float(large[f"{engine}_difference"]))
        for engine in ("fluid", "chunk")
    )
    assert ran.returncode == int(worst > 0.08)
    assert f"global: {worst:.1%} for jobs of 400 MB and more" in ran.stdout
    check_jobs(figure_runs.rows_of(out_dir / "figure6-jobs.csv"))


def test_it_is_ended_while_the_pool_works(tmp_path: pathlib.Path) -> None:
    with harness.short_directory() as temporary:
        process = subprocess.Popen(
            [*COMMAND, str(tmp_path)],
            env={**os.environ, "TMPDIR": str(temporary)},
            stderr=subprocess.PIPE,
        )
        try:
            waiting.wait_until(
                lambda: list(temporary.glob("*/run/*.sock")),
                "the pool",
                LIMIT_S,
            )
        finally:
            process.terminate()
            _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 130
        assert commands.without_progress(said.decode()) == []
        harness.Processes(temporary).wait_for_end()
        assert os.listdir(temporary) == []
    assert os.listdir(tmp_path) == []


def check_jobs(jobs: list[dict[str, str]]) -> None:
    """The same jobs were done, and none faster than its slot can be."""
    by_who = {
        who: [job for job in jobs if job["who"] == who]
        for who in ("real", "fluid", "chunk")
    }
    given = [
        [
            (job["id"], job["origin"], job["accelerator"], job["size_bytes"])
            for job in some
        ]
        for some in by_who.values()
    ]
    assert len(given[0]) == 8
    assert given[0] == given[1] == given[2]
    for asked, done in zip(by_who["fluid"], by_who["real"], strict=True):
        assert float(done["arrival_s"]) >= float(asked["arrival_s"])
        worked_s = float(done["finish_s"]) - float(done["start_s"])
        # 1.2 GB/s is the highest peak rate; the emulator makes good for a
        # few ms that are lost.
        assert worked_s > float(done["size_bytes"]) / 1.2e9 - 0.02
        assert int(done["host"]) in range(3)
        assert int(done["slot"]) in range(4)
        assert done["local"] == str(done["host"] == done["origin"])
