# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim figures`` with processes of its own."""

from __future__ import annotations

import pathlib

import pytest

from fpgapool.cmd import sim
from reproduction.figures import pairs

# In the gate: tests/unit/reproduction/test_figures.py and test_command.py.
pytestmark = pytest.mark.long


def test_processes_make_no_difference(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pairs, "MEANS_MB", (400, 800))
    monkeypatch.setattr(pairs, "SEEDS", (1, 2))
    said = []
    for processes in ("1", "2"):
        out_dir = tmp_path / processes
        arguments = ["figures", "7", "8", "--processes", processes]
        assert sim.main([*arguments, "--out", str(out_dir)]) == 0
        *sentences, _ = capsys.readouterr().out.splitlines()
        assert [each.split()[1] for each in sentences] == ["7", "8"]
        said.append(sentences)
    assert said[0] == said[1]
    for name in ("figure7.csv", "figure8.csv"):
        alone, together = (
            (tmp_path / processes / name).read_bytes()
            for processes in ("1", "2")
        )
        assert alone == together
