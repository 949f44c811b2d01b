# SPDX-License-Identifier: Apache-2.0

"""All cells run, in an environment with Jupyter's kernel and pandas."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig

import nbclient
import nbformat
import pytest

from tests.functional.allinone import harness
from tests.harness import waiting

EXAMPLES = pathlib.Path(__file__).parents[2] / "doc" / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels find the commands, and a place for sockets."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    monkeypatch.setenv("PATH", path)


def _printed(cell: nbformat.NotebookNode) -> str:
    return "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    )


def _run(path: pathlib.Path) -> list[nbformat.NotebookNode]:
    """Run a notebook, and return its cells of code."""
    notebook = nbformat.read(path, as_version=4)
    with harness.short_directory() as directory:
        nbclient.NotebookClient(
            notebook,
            timeout=waiting.COMMAND_LIMIT_S,
            resources={"metadata": {"path": str(directory)}},
        ).execute(env={**os.environ, "XDG_RUNTIME_DIR": str(directory)})
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_arrays(kernel: None) -> None:
    printed = [_printed(cell) for cell in _run(NOTEBOOKS[0])]
    assert "'fft': 4" in printed[1]
    assert printed[2] == "300"
    assert printed[3].startswith("noise: 1.0")
    assert printed[4] == "[5, 50, 500]"
    assert "for a slot of node" in printed[5]


def test_planning(kernel: None) -> None:
    cells = _run(NOTEBOOKS[1])
    pictures = [
        output
        for cell in cells
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 2


def test_they_are_kept_without_outputs() -> None:
    assert [path.name for path in NOTEBOOKS] == [
        "arrays.ipynb",
        "planning.ipynb",
    ]
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            assert not cell.get("outputs"), path
            assert cell.get("execution_count") is None, path


def test_frames_of_pandas() -> None:
    with harness.running_pool(*harness.SMALL) as pool:
        done = subprocess.run(
            [sys.executable, EXAMPLES / "use_pandas.py"],
            env={**os.environ, "FPGAPOOL_SOCKET": pool.front_door()},
            capture_output=True,
            text=True,
            check=False,
            timeout=waiting.COMMAND_LIMIT_S,
        )
    assert done.stdout.split() == [
        *("north", "8", "south", "30", "dtype:", "int64"),
    ], done.stderr
