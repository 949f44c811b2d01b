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

"""The worked examples: slots exactly, times to a millionth."""

import pathlib

import pytest

from tests import fluid

CASES = sorted((pathlib.Path(__file__).parents[2] / "cases").glob("*.json"))
SCENARIOS = {path.stem: fluid.load(path) for path in CASES}


def test_there_are_examples() -> None:
    assert len(SCENARIOS) >= 5


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        (name, policy)
        for name, scenario in SCENARIOS.items()
        for policy in scenario["expected"]
    ],
)
def test_example(name: str, policy: str) -> None:
    scenario = SCENARIOS[name]
    expected = scenario["expected"][policy]["jobs"]
    found = fluid.run_policy(scenario, policy)
    assert len(found) == len(expected)
    for job in expected:
        ran = found[job["id"]]
        place = {key: ran[key] for key in ("id", "host", "slot", "local")}
        assert place == {key: job[key] for key in place}
        times = (ran["start_s"], ran["finish_s"])
        assert times == pytest.approx(
            (job["start_s"], job["finish_s"]), rel=1e-6, abs=1e-9
        )
