# SPDX-License-Identifier: Apache-2.0

"""What tests tell, which of them run once more, and what is said of it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.gate import plan
from tests.gate import report

ROOT = pathlib.Path(__file__).parents[3]
PASSED = plan.State.PASSED
FAILED = plan.State.FAILED
SKIPPED = plan.State.SKIPPED


def a_test(
    name: str, outcome: str = "failed", **others: object
) -> report.Test:
    return report.Test(name, outcome, **others)  # type: ignore[arg-type]


FUNCTIONAL = "tests/functional/a/test_b.py::test_c"
INTEGRATION = "tests/integration/test_d.py::test_e[x y]"


def retried(*tests: report.Test, **states: plan.State) -> list[str]:
    """Return what runs once more after such failures."""
    all_states = {"tests": FAILED, "docs": PASSED, **states}
    return report.to_retry(
        all_states,
        {name: int(state is FAILED) for name, state in all_states.items()},
        {"tests": [a_test("tests/functional/x.py::y", "passed"), *tests]},
    )


def test_few_failures_may_be_chance() -> None:
    tests = [
        a_test(FUNCTIONAL),
        a_test(INTEGRATION),
        a_test(f"{FUNCTIONAL}[1]"),
    ]
    assert retried(*tests) == [one.name for one in tests]


def test_more_failures_are_none() -> None:
    most = [a_test(f"{FUNCTIONAL}[{n}]") for n in range(report.MOST_RETRIES)]
    assert len(retried(*most)) == 3
    assert retried(*most, a_test(INTEGRATION)) == []


@pytest.mark.parametrize(
    "certain",
    [
        a_test("tests/unit/test_a.py::test_b"),
        a_test("tests/property/test_a.py::test_b"),
        a_test("tests/nova_filters/test_a.py::test_b"),
        a_test("world 17"),
        a_test(FUNCTIONAL, security=True),
        # A file that could not be imported, or a process that crashed.
        a_test(" tests.functional.a.test_b"),
    ],
    ids=lambda one: one.name,
)
def test_some_failures_never_are(certain: report.Test) -> None:
    assert retried(certain) == []
    assert retried(a_test(FUNCTIONAL), certain) == []


def test_nothing_runs_again_where_a_job_failed() -> None:
    assert retried(a_test(FUNCTIONAL), docs=FAILED) == []
    assert retried(a_test(FUNCTIONAL), docs=SKIPPED) == []
    assert retried(a_test(FUNCTIONAL)) == [FUNCTIONAL]


@pytest.mark.parametrize("status", [2, 3, 4, 5, -9])
def test_pytest_that_failed_by_itself_is_no_chance(status: int) -> None:
    arguments = (
        {"tests": FAILED},
        {"tests": status},
        {"tests": [a_test(FUNCTIONAL)]},
    )
    assert report.to_retry(*arguments) == []
    assert report.unexplained(*arguments) == ["tests"]


def test_failure_without_a_failed_test_is_no_chance() -> None:
    arguments = ({"tests": FAILED}, {"tests": 1}, {"tests": []})
    assert report.unexplained(*arguments) == ["tests"]


MODULE = """
import pytest

@pytest.fixture
def bad():
    yield
    raise RuntimeError("at the end")

def test_good(): pass

@pytest.mark.parametrize("text", ["a b::c"])
def test_wrong(text):
    assert text == 1

@pytest.mark.security
def test_secret(): raise ValueError("told\\nin two lines")

def test_ends_badly(bad): pass

def test_fails_twice(bad): raise KeyError

@pytest.mark.skip
def test_not_run(): pass
"""


@pytest.mark.parametrize("more", [[], ["-p", "xdist", "-n1"]])
def test_what_pytest_writes_is_read(
    tmp_path: pathlib.Path, more: list[str]
) -> None:
    (tmp_path / "test_it.py").write_text(MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = security\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.gate.plugin"),
            *("--junit-xml=out.xml", *more),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        stdout=subprocess.DEVNULL,
        check=False,
    )
    told = {one.name: one for one in report.read(tmp_path / "out.xml")}
    assert {
        name.partition("::")[2]: (one.outcome, one.security)
        for name, one in told.items()
    } == {
        "test_good": ("passed", False),
        "test_wrong[a b::c]": ("failed", False),
        "test_secret": ("failed", True),
        "test_ends_badly": ("failed", False),
        "test_fails_twice": ("failed", False),
        "test_not_run": ("skipped", False),
    }
    assert told["test_it.py::test_secret"].reason == "ValueError: told"
