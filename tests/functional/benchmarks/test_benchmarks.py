# SPDX-License-Identifier: Apache-2.0

"""Benchmarks of real processes run; those without are in tests/unit."""

import pathlib

import pytest

from tests.benchmarks import smoke
from tests.harness import cases

NAMES = smoke.names(services=True)
#: The one that needs the fewest servers.
GATE = "control_allinone"


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> dict[str, tuple[pathlib.Path, str]]:
    """Run those that are wanted; they share a broker and a database.

    :returns: of each, where its results are, and what was printed.
    """
    wanted = [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    ]
    found = {}
    for names in smoke.alike(wanted):
        directory = tmp_path_factory.mktemp("benchmarks")
        shown = smoke.run(directory, *names)
        found.update(dict.fromkeys(names, (directory, shown)))
    return found


@pytest.mark.parametrize("name", cases.some(NAMES, GATE.__eq__))
def test_a_tiny_run_of_each(
    name: str, played: dict[str, tuple[pathlib.Path, str]]
) -> None:
    smoke.check(name, *played[name])
