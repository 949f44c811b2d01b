# SPDX-License-Identifier: Apache-2.0

"""The scenarios of the manual do what it says."""

import pathlib
import re
import textwrap
import typing

import pytest

from fpgapool.sim import elastic
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/user/simulator.rst"
_BLOCK = re.compile(
    r"(?m)^(?P<title>\w.*)\n(?:={3,}|-{3,})\n"
    r"|^\.\. code-block:: json\n\n(?P<text>(?:   .*\n|\n)+)"
)


def _examples() -> dict[str, str]:
    """Return the scenarios by the titles of their sections."""
    found, title = {}, ""
    for block in _BLOCK.finditer(PAGE.read_text()):
        if block["text"] is None:
            title = block["title"]
        else:
            assert title not in found, "the section has two scenarios"
            found[title] = textwrap.dedent(block["text"])
    return found


EXAMPLES = _examples()
#: By section: when jobs begin and end under the first strategy, as it says.
SAID: dict[str, dict[int, tuple[float | None, float]]] = {
    "Claims": {0: (None, 11.0), 1: (5.0, 6.0)},
    "Sets": {
        0: (0.0, 2.0),
        1: (2.0, 3.0),
        2: (2.0, 3.0),
        3: (3.0, 4.0),
    },
    "Chains": {0: (1.0, 9.0), 1: (10.0, 14.0)},
    "Slots that change hands": {0: (None, 12.0), 1: (3.0, 5.0)},
    "Reservations": {0: (None, 6.0), 1: (1.0, 3.0)},
    "Outages": {0: (None, 12.0)},
    "Users of a tenant": {4: (None, 2.0)},
    "Budgets of tenants": {1: (10.0, 12.0), 2: (4.5, 5.5)},
}


def _read(title: str, directory: pathlib.Path) -> scenarios.Scenario:
    path = directory / "s.json"
    path.write_text(EXAMPLES[title])
    return scenario_files.read(path)


def test_all_that_is_said_is_there() -> None:
    assert EXAMPLES.keys() >= SAID.keys()


@pytest.mark.parametrize("title", EXAMPLES)
def test_it_runs(title: str, tmp_path: pathlib.Path) -> None:
    scenario = _read(title, tmp_path)
    for name in scenario.strategies:
        if scenario.jobs:
            outcomes = simulation.run(scenario, name)
            assert len(outcomes) == len(scenario.jobs)
        if scenario.groups:
            found, _ = elastic.run(scenario, name)
            assert len(found.groups) == len(scenario.groups)


@pytest.mark.parametrize("title", SAID)
def test_jobs_end_when_it_says(title: str, tmp_path: pathlib.Path) -> None:
    scenario = _read(title, tmp_path)
    outcomes = {
        one.id: one
        for one in simulation.run(scenario, next(iter(scenario.strategies)))
    }
    for job_id, (start_s, finish_s) in SAID[title].items():
        one: typing.Any = outcomes[job_id]
        assert one.finish_s == pytest.approx(finish_s, abs=1e-6)
        if start_s is not None:
            assert one.start_s == pytest.approx(start_s, abs=1e-6)
