# SPDX-License-Identifier: Apache-2.0

"""Broken traces: each is read, or refused with a short message."""

from __future__ import annotations

import pathlib
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from fpgapool.sim import errors
from fpgapool.sim.inputs.traces import mapping
from fpgapool.sim.inputs.traces import reading
from tests.property import fuzzing
from tests.unit.sim import logs

pytestmark = pytest.mark.security

SAMPLES = {
    **logs.SAMPLES,
    "csv": "arrival_s,host,run_s,accelerator,id,priority,claimed_bytes\n"
    "0,a,1,x,one,1,5\n2026-01-31T08:00:00,b,2,x,two,,\n",
}
_JUNK = st.sampled_from(
    [
        *(
            "",
            "-1",
            "nan",
            "1e999",
            "9" * 5000,
            "\0",
            "\n",
            "|",
            ",",
            ";",
            '"',
        ),
        *("{", "[" * 5000, "0.5", "\ud800", "\u0663", "x" * 10**6, "-"),
        *("0001-01-01T00:00:00+23:59", "9999-12-31", "1-1:1:1"),
    ]
)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, str]:
    """Give a format, and a sample of one of which some words are junk."""
    name = draw(st.sampled_from(sorted(SAMPLES)))
    parts = re.split(r"(\w+)", SAMPLES[name])
    for _ in range(draw(st.integers(0, 3))):
        parts[draw(st.integers(0, len(parts) - 1))] = draw(_JUNK)
    wanted = draw(st.just(name) | st.sampled_from(sorted(SAMPLES)))
    return wanted, "".join(parts)


@fuzzing.examples(200)
@hypothesis.given(trace=spoilt(), sessions=st.integers(1, 1000))
def test_broken_traces_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    trace: tuple[str, str],
    sessions: int,
) -> None:
    path: pathlib.Path = tmp_path_factory.getbasetemp() / "trace"
    path.write_bytes(trace[1].encode(errors="surrogatepass"))
    options = mapping.Options(
        weights={"x": 1.0}, sessions_per_job=sessions, load=0.5
    )
    said, jobs = f"{path}: ", []
    try:
        log = reading.read(path, trace[0])
        jobs = mapping.make_jobs(log, 2, 4, {"x": 1e8}, options).jobs
    except errors.InputError as error:
        said = str(error)
    assert said.startswith(f"{path}: ")
    assert len(said) < 1000
    assert all(0 <= job.arrival_s <= 1e9 for job in jobs)
    assert all(job.size_bytes > 0 for job in jobs)
