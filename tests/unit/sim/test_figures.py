#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""``fpgapool-sim figures``: Figure 5, and what the command refuses."""

from __future__ import annotations

import csv
import dataclasses
import pathlib

import pytest

from fpgapool.cmd import sim
from fpgapool.sim import figures
from fpgapool.sim.figures import figure5
from tests.unit.sim import commands


@pytest.fixture
def few_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the paper's claims are about."""
    monkeypatch.setattr(figure5, "QUEUES", (2, *figure5.NAMED_QUEUES))


@pytest.mark.usefixtures("few_queues")
def test_figure_5(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out_dir = tmp_path / "new" / "pictures"
    assert sim.main(["figures", "5", "--out", str(out_dir)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Figure 5 holds by the paper's formula")
    assert "27 % better than geometric ones with 7 queues" in said
    assert "7 % with 20" in said
    assert "for the power law the optimum is geometric" in said
    assert {path.name for path in out_dir.iterdir()} == {
        "figure5.png",
        "figure5.csv",
    }
    png = (out_dir / "figure5.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    with (out_dir / "figure5.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Sizes, formulas and structures; two of the queues with E free, too.
    assert len(rows) == 2 * 2 * 3 * (3 + 2)
    services = {
        (row["formula"], row["structure"]): float(
            row["mean_completion_services"]
        )
        for row in rows
        if row["sizes"] == "exponential"
        and row["queues"] == "7"
        and row["first_threshold"] == "smallest size"
    }
    for formula, gain in (("paper", 0.27), ("cobham", 0.14)):
        hybrid, geometric = (
            services[formula, structure]
            for structure in ("hybrid", "geometric")
        )
        assert 1 - hybrid / geometric == pytest.approx(gain, abs=0.005)


@pytest.mark.usefixtures("few_queues")
def test_claim_that_does_not_hold(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = figure5._point

    def worse(*arguments) -> figure5.Point:
        found = point(*arguments)
        if found.structure == "hybrid":
            return dataclasses.replace(found, services=1.1 * found.services)
        return found

    monkeypatch.setattr(figure5, "_point", worse)
    assert figure5.make(tmp_path).startswith("Figure 5 does not hold")


def test_all_makes_each_once(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Fake:
        def __init__(self, name: str) -> None:
            self._name = name

        def make(self, out_dir: pathlib.Path) -> str:
            assert out_dir == tmp_path
            return f"[{self._name}] holds"

    monkeypatch.setattr(
        figures, "FIGURES", {name: Fake(name) for name in ("5", "7")}
    )
    for chosen in (["all"], ["7", "5", "7"], ["5", "all"]):
        assert sim.main(["figures", *chosen, "--out", str(tmp_path)]) == 0
        assert capsys.readouterr().out.splitlines()[:2] == [
            "[5] holds",
            "[7] holds",
        ]


def test_unknown_figure(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out_dir = tmp_path / "out"
    said = commands.refused(capsys, "figures", "5", "4", "--out", out_dir)
    assert said.startswith("figures: 4: there is no such figure; known: 5")
    assert said.endswith(", all")
    assert not out_dir.exists()


def test_directory_that_cannot_be(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_text("")
    said = commands.refused(capsys, "figures", "5", "--out", path)
    assert said == f"{path}: File exists"
