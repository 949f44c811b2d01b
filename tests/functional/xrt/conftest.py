# SPDX-License-Identifier: Apache-2.0

"""A board without hardware, and processes that use it."""

from __future__ import annotations

import json
import os
import pathlib
import struct
import subprocess
import sys
from typing import Any

import pytest

from tests.functional.xrt import child
from tests.functional.xrt import images
from tests.harness import xrt

_TIMEOUT_S = 120.0
_BOARDS = f"""
boards:
- name: {child.DEVICE}
  platform: {xrt.PLATFORM}
  shape: u50
"""


class Machine:
    """A host with a board.

    :ivar variables: of processes that use it.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self.runtime = directory / "xrt"
        self.variables = xrt.environment(self.runtime)

    def package(
        self,
        payload: bytes | None = None,
        manifest: bytes | None = None,
        kind: str = "xclbin",
    ) -> str:
        """Write a file of the library, which need not be right.

        :param payload: in it; None: an xclbin that fits the board.
        :param manifest: of it; None: that of the xclbin's kernel.
        """
        payload = images.image() if payload is None else payload
        manifest = images.manifest() if manifest is None else manifest
        sizes = len(kind), len(manifest), len(payload)
        contents = struct.pack("<8sIIQ", b"FPGAPKG1", *sizes)
        contents += kind.encode() + manifest + payload
        number = len(list(self._directory.glob("*.package")))
        path = self._directory / f"{number}.package"
        path.write_bytes(contents)
        return str(path)

    def boards(self, board: str = "") -> str:
        """Write the board file.

        :param board: further lines of the board.
        """
        path = self._directory / "boards.yaml"
        path.write_text(_BOARDS + board)
        return str(path)

    def begin(
        self, *steps: tuple[Any, ...], board: str = ""
    ) -> subprocess.Popen[str]:
        """Start a process.

        :param steps: what it shall do: methods of the child, with arguments.
        :param board: further lines of the board in the board file.
        """
        order = {
            "settings": {
                "state_dir": str(self._directory / "state"),
                "boards_file": self.boards(board),
            },
            "steps": steps,
        }
        return subprocess.Popen(
            [sys.executable, "-m", child.__name__, json.dumps(order)],
            env={**os.environ, **self.variables},
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, *steps: tuple[Any, ...], board: str = "") -> list[Any]:
        """Do the same, and return the outcomes."""
        return outcomes(self.begin(*steps, board=board))


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """Give a host with a board."""
    return Machine(tmp_path)


def outcomes(process: subprocess.Popen[str]) -> list[Any]:
    """Wait for a process, and return its outcomes."""
    output, _ = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0
    *_, last = output.splitlines()
    assert last.startswith(child.MARK), output
    return list(json.loads(last.removeprefix(child.MARK)))
