# SPDX-License-Identifier: Apache-2.0

"""The wheel with compiled decisions decides as the sources do."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.harness import distributions
from tests.harness import native

pytestmark = pytest.mark.long

#: Tests of decisions, and of what sends them to other processes.
TESTS = (
    "tests/unit/core",
    "tests/unit/strategies",
    "tests/unit/conductor",
    "tests/unit/sim",
    "tests/property/test_ordered.py",
    "tests/property/test_pool.py",
    "tests/property/test_what_if.py",
)

#: Simulates with each strategy, and prints where the core is and what it did.
PROGRAM = """
from fpgapool.core import state
from fpgapool.sim import simulation
from tests.benchmarks import sim_clusters

print(state.__file__)
for name in sorted(simulation.installed()):
    made = sim_clusters.make(sim_clusters.Size(20, 20), name)
    for fair in (False, True):
        print(name, simulation.run(made, name, seed=1, fair_share=fair))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give the directory with the installed wheel."""
    target = tmp_path_factory.mktemp("native") / "installed"
    native.install(target)
    return target


def _run(*arguments: str, paths: tuple[pathlib.Path, ...]) -> str:
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=distributions.ROOT,
        env=native.environment(*paths),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_it_passes_the_tests_of_decisions(installed: pathlib.Path) -> None:
    # The tests and what they read are in the sources, behind what is tested.
    _run(
        *("-m", "pytest", "--quiet", "--import-mode=append", "-m", "not long"),
        *("-p", "no:cacheprovider", "--timeout=600", *TESTS),
        paths=(installed,),
    )


def test_equal_runs_have_equal_outcomes(installed: pathlib.Path) -> None:
    where, compiled = _run("-c", PROGRAM, paths=(installed,)).split("\n", 1)
    assert where.startswith(str(installed))
    assert where.endswith(".so")
    where, interpreted = _run("-c", PROGRAM, paths=()).split("\n", 1)
    assert where == str(distributions.ROOT / "fpgapool/core/state.py")
    # All numbers to the last bit.
    assert compiled == interpreted
