# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim run --fair-share``."""

import json
import pathlib

import pytest

from fpgapool.cmd import sim
from tests.unit.sim import commands


def mean_finish_s(output: pathlib.Path, ids: range) -> float:
    jobs = json.loads(output.read_text())["results"]["fifo"]["jobs"]
    finished = [job["finish_s"] for job in jobs if job["id"] in ids]
    assert len(finished) == len(ids)
    return sum(finished) / len(finished)


def test_tenants_share_the_slots(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who comes second with little work is done long before the flood."""
    flood, few = range(60), range(100, 104)
    jobs = [
        commands.make_job(number, tenant=tenant, host=number % 3)
        for ids, tenant in ((flood, "a"), (few, "b"))
        for number in ids
    ]
    scenario = commands.write(
        tmp_path / "scenario.json",
        commands.make_scenario(jobs=jobs, strategies={"fifo": {}}),
    )
    found = {}
    for flag in ([], ["--fair-share"]):
        output = tmp_path / "out.json"
        arguments = ["run", str(scenario), "--output", str(output), *flag]
        assert not sim.main(arguments)
        found[bool(flag)] = mean_finish_s(output, few)
    capsys.readouterr()
    assert found[True] < found[False] / 2
