# SPDX-License-Identifier: Apache-2.0

"""The figure on recorded demand, with small logs in the place of the real."""

import gzip
import pathlib

import pytest

from reproduction.figures import real_traces
from tests.unit.reproduction import figure_runs

FIGURE = real_traces.FIGURES[0]


@pytest.fixture(autouse=True)
def few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_traces, "JOBS", 60)
    monkeypatch.delenv("FPGAPOOL_TRACES", raising=False)


def _write_traces(directory: pathlib.Path) -> None:
    """Write a log of jobs of 1 to 600 s, and requests for nine models."""
    swf = [
        f"{n} {13 * n} 0 {1 + 37 * n % 600} 1 -1 -1 1 -1 -1 1 {n % 7} {n % 5}"
        " 1 1 1 -1 -1"
        for n in range(60)
    ]
    header = "gmt_create,exec_time_seconds,checkpoint_model_version_id,groupId"
    requests = [
        f"2026-01-01 00:{n // 2:02d}:00,{1 + n % 13},m{n * n % 9},g{n % 5}"
        for n in range(60)
    ]
    for name, lines in (
        ("LCG.swf.gz", swf),
        ("gentd26_requests.csv.gz", [header, *requests]),
    ):
        text = "\n".join([*lines, ""])
        (directory / name).write_bytes(gzip.compress(text.encode()))


def test_without_traces_the_papers_loads_are_left(
    tmp_path: pathlib.Path,
) -> None:
    said = FIGURE.make(tmp_path, figure_runs.simulate)
    assert "The real traces are left out" in said
    rows = figure_runs.rows_of(tmp_path / "real-traces.csv")
    assert len(rows) == 4 * len(real_traces.STRATEGIES)
    claims = figure_runs.rows_of(tmp_path / "real-traces-claims.csv")
    assert len(claims) == 5


def test_auto_serves_jobs_of_any_scale_in_the_same_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_traces(tmp_path)
    monkeypatch.setenv("FPGAPOOL_TRACES", str(tmp_path))
    FIGURE.make(tmp_path, figure_runs.simulate)
    claims = {
        claim["claim"]: claim["holds"]
        for claim in figure_runs.rows_of(tmp_path / "real-traces-claims.csv")
    }
    assert (
        claims["auto serves LCG's jobs in the same order at both scales"]
        == "yes"
    )
