# SPDX-License-Identifier: Apache-2.0

"""Type checkers of programs see the types of the installed wheel."""

import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

from tests.harness import distributions

PROGRAM = """\
import concurrent.futures
from fpgapool import client

output, report = client.run_buffer("copy", b"abc", priority=1)
data: bytearray = output
place: str | None = report.host
with client.acc_open("copy", 3) as session:
    view: memoryview = client.acc_run(session, 3)
client.arrays.fft([1j], norm="ortho", timeout_s=3, priority=1)
client.run_array("fft", [1j], frame_samples=1, priority=1)
for each in client.map("sha", [b"abc"], sessions=2, algorithm="sha1"):
    print(each)
future: concurrent.futures.Future[bytes] = client.submit("copy", b"abc")
client.run_file("copy", "a", "b", prioritty=1)  # wrong
client.run_file("copy", "a", "b", priority="high")  # wrong
number: int = client.accelerators()  # wrong
client.arrays.fft([1j], frame_sample=1)  # wrong
client.arrays.dtw([1.0], [1.0], window_samples="1")  # wrong
client.map("sha", [b"abc"], sessions="2")  # wrong
client.run_array("fft")  # wrong
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give the interpreter of an environment that has the wheel alone."""
    where = tmp_path_factory.mktemp("types")
    sources = where / "sources"
    sources.mkdir()
    distributions.copy_sources(sources)
    wheel = distributions.build_wheel(sources, where)
    venv = where / "venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", venv], check=True
    )
    target = sysconfig.get_path("purelib", vars={"base": str(venv)})
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check"),
            *("install", "--quiet", "--no-deps", "--no-compile"),
            *("--target", target, wheel),
        ],
        check=True,
    )
    return venv / "bin" / "python"


@pytest.mark.long
def test_the_types_are_seen(
    python: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "program.py"),
            *("--python-executable", python),
            *("--cache-dir", str(tmp_path / "cache")),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    errors = re.findall(r"(?m)^program\.py:(\d+): error: (.*)", done.stdout)
    wrong = [
        number
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if line.endswith("# wrong")
    ]
    assert [int(line) for line, _ in errors] == wrong, done.stdout
    assert '"prioritty"' in errors[0][1]
    assert '"frame_sample"' in errors[3][1]
