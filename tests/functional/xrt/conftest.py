# SPDX-License-Identifier: Apache-2.0

"""A board without hardware, and processes that use it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.functional.xrt import child
from tests.functional.xrt import images
from tests.harness import xrt

_TIMEOUT_S = 120.0


@pytest.fixture
def board(tmp_path: pathlib.Path) -> pathlib.Path:
    """Give the directory of a runtime with a board."""
    return tmp_path / "xrt"


@pytest.fixture
def begin(
    board: pathlib.Path, tmp_path: pathlib.Path
) -> Callable[..., subprocess.Popen[str]]:
    """Give what starts a process that loads and runs an xclbin."""
    variables = {**os.environ, **xrt.environment(board)}
    path = tmp_path / "copy.xclbin"

    def start(
        image: bytes = images.image(), **order: Any
    ) -> subprocess.Popen[str]:
        path.write_bytes(image)
        usual = {
            "image": str(path),
            "kernel": "copy",
            "step": {},
            "size_bytes": 100_000,
            "instance": "",
        }
        return subprocess.Popen(
            [sys.executable, "-m", child.__name__, json.dumps(usual | order)],
            env=variables,
            stdout=subprocess.PIPE,
            text=True,
        )

    return start


def outcome_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a process, and return its outcome."""
    output, _ = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0
    *_, last = output.splitlines()
    assert last.startswith(child.MARK), output
    return json.loads(last.removeprefix(child.MARK))
