# SPDX-License-Identifier: Apache-2.0

"""What the cheat sheet has for files, pipes and Python does run."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from tests.functional.allinone import harness

ROOT = pathlib.Path(__file__).parents[3]
SHEET = ROOT / "doc/source/reference/cheat-sheet.rst"
CONTENT = bytes(range(256)) * 1000

#: What the examples take for granted, and what they must have made.
_BEFORE = """\
import numpy as np
data = open("FILE", "rb").read()
array = np.sin(np.arange(1024)).astype(np.complex64)
arrays = [array] * 3
"""
_AFTER = """
import hashlib
assert digest == hashlib.sha256(data).digest(), digest
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[harness.Pool]:
    with harness.running_pool() as running:
        yield running


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "FILE").write_bytes(CONTENT)
    (tmp_path / "key.hex").write_text(32 * "0f")
    return tmp_path


def _run(
    pool: harness.Pool, directory: pathlib.Path, command: list[str]
) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env={
            **os.environ,
            "FPGAPOOL_SOCKET": pool.front_door(),
            "PATH": f"{pathlib.Path(sys.executable).parent}:"
            + os.environ["PATH"],
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=harness.LIMIT_S,
    )
    assert done.returncode == 0, (command, done.stderr)


def test_python(pool: harness.Pool, directory: pathlib.Path) -> None:
    found = re.search(
        r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", SHEET.read_text()
    )
    assert found
    program = directory / "sheet.py"
    program.write_text(_BEFORE + textwrap.dedent(found[1]) + _AFTER)
    _run(pool, directory, [sys.executable, str(program)])
    digest = hashlib.sha256(CONTENT).digest()
    assert (directory / "FILE.sha").read_bytes() == digest


def test_files_and_pipes(pool: harness.Pool, directory: pathlib.Path) -> None:
    lines = re.findall(r"(?m)^    (fpgapool-run .*)$", SHEET.read_text())
    here = [line for line in lines if "--os-cloud" not in line]
    assert len(here) >= 6
    for line in here:
        _run(pool, directory, ["bash", "-c", line])
    assert (directory / "FILE").read_bytes() == CONTENT
    _run(pool, directory, ["sha256sum", "--check", "FILE.sha256"])
    _run(pool, directory, ["gzip", "--test", "FILE.gz"])
