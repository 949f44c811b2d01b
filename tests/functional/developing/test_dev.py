# SPDX-License-Identifier: Apache-2.0

"""fpgapool-dev: what it makes passes its tests, and what is wrong shows."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from tests.harness import cases
from tests.harness import waiting


def run(
    directory: pathlib.Path, *command: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory,
        # What runs here says nothing to those who await these tests.
        env={k: v for k, v in os.environ.items() if "PYTEST" not in k},
        capture_output=True,
        text=True,
        check=False,
        timeout=waiting.COMMAND_LIMIT_S,
    )


@pytest.mark.parametrize(
    "kind",
    cases.some(
        ("core", "opencl", "driver", "strategy"),
        # It does what a core does, and compiles for seconds.
        lambda kind: kind != "opencl",
    ),
)
def test_what_is_new_passes_its_tests(
    tmp_path: pathlib.Path, kind: str
) -> None:
    """Those of a core and of a kernel try it in a pool."""
    made = run(tmp_path, "fpgapool.cmd.dev", "new", kind, "my_own")
    assert made.returncode == 0, made.stderr
    done = run(tmp_path / "my_own", "pytest", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    left = {path.name for path in tmp_path.rglob("*")}
    assert not {name for name in left if "keleton" in name}


def test_a_wrong_core_fails_where_it_is_wrong(tmp_path: pathlib.Path) -> None:
    made = run(tmp_path, "fpgapool.cmd.dev", "new", "core", "wrong")
    assert made.returncode == 0, made.stderr
    directory = tmp_path / "wrong"
    source = (directory / "wrong.py").read_text()
    right = "(data + numpy.uint8(self._amount)).data"
    assert right in source
    # The first byte of each piece is a number of its own.
    wrong = "(data + numpy.uint8(self._amount)).data\n" + textwrap.indent(
        "if len(data) > 3:\n    chunk_out[0] = len(data) % 251", " " * 8
    )
    (directory / "wrong.py").write_text(source.replace(right, wrong))
    (directory / "wrong.vectors.json").write_text(
        json.dumps(
            [
                {"params": {"amount": 2}, "input": "0102", "output": "0304"},
                {"params": {"amount": 2}, "input": "0102", "output": "0305"},
            ]
        )
    )
    done = run(
        directory,
        *("fpgapool.cmd.dev", "try", "wrong.py"),
        *("--size-mib=0.1", "-f", "json"),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["accelerator"], found["passed"]) == ("wrong", False)
    outcomes = {step["name"]: step["outcome"] for step in found["steps"]}
    assert outcomes == {
        **dict.fromkeys(("core", "profile", "pool"), "passed"),
        **dict.fromkeys(("vectors", "cuts"), "failed"),
        **dict.fromkeys(("reference", "rate"), "passed"),
    }
    details = {step["name"]: step["detail"] for step in found["steps"]}
    # The third: the core has one of its own.
    assert (
        "vector 3: the output is wrong, starting at byte 1: 0304"
        in (details["vectors"])
    )
    assert "depends on how the input is cut" in details["cuts"]


def test_a_pool_that_is_not_ready_in_time(tmp_path: pathlib.Path) -> None:
    made = run(tmp_path, "fpgapool.cmd.dev", "new", "core", "late")
    assert made.returncode == 0, made.stderr
    done = run(
        tmp_path / "late",
        *("fpgapool.cmd.dev", "try", "late.py", "--start-timeout-s=0.01"),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the pool did not start:" in done.stdout
    assert "not all slots were ready within 0.01 s" in done.stdout
    assert "longer limit" in done.stdout
    assert "--start-timeout-s" in done.stdout
