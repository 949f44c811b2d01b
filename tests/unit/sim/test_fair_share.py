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
        commands.make_scenario(jobs=jobs, policies={"fifo": {}}),
    )
    found = {}
    for flag in ([], ["--fair-share"]):
        output = tmp_path / "out.json"
        arguments = ["run", str(scenario), "--output", str(output), *flag]
        assert not sim.main(arguments)
        found[bool(flag)] = mean_finish_s(output, few)
    capsys.readouterr()
    assert found[True] < found[False] / 2
