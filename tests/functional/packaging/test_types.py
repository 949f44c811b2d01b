# SPDX-License-Identifier: Apache-2.0

"""Type checkers of programs see the types of the installed library."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

PROGRAM = """\
from fpgapool import client

output, report = client.run_buffer("copy", b"abc", priority=1)
data: bytearray = output
place: str | None = report.host
with client.acc_open("copy", 3) as session:
    view: memoryview = client.acc_run(session, 3)
client.run_file("copy", "a", "b", prioritty=1)
client.run_file("copy", "a", "b", priority="high")
wrong: int = client.accelerators()
"""


@pytest.mark.long
def test_the_types_are_seen(tmp_path: pathlib.Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "program.py"),
            *("--cache-dir", str(tmp_path / "cache")),
        ],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    errors = re.findall(r"(?m)^program\.py:(\d+): error: (.*)", done.stdout)
    assert [int(line) for line, _ in errors] == [8, 9, 10], done.stdout
    assert '"prioritty"' in errors[0][1]
