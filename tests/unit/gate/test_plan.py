# SPDX-License-Identifier: Apache-2.0

"""What waits for what, and what is not run any more after a failure."""

from __future__ import annotations

import pathlib

import pytest

from tests.gate import plan

RUNNING = plan.State.RUNNING
PASSED = plan.State.PASSED
FAILED = plan.State.FAILED
SKIPPED = plan.State.SKIPPED

DIRECTORY = pathlib.Path("out")
GATE = plan.plan(plan.Settings("python", DIRECTORY, lambda: None, cores=2))
#: Of ``make test-all``.
JOBS = plan.plan(
    plan.Settings("python", DIRECTORY, lambda: None, long=True, cores=2)
)


def names(jobs: list[plan.Job]) -> set[str]:
    return {job.name for job in jobs}


def play(*failing: str, endless: str = "") -> list[str]:
    """Return the jobs in the order of their begins.

    :param failing: what fails.
    :param endless: goes on; all others end at once.
    """
    states: dict[str, plan.State] = {}
    order = []
    while True:
        begin, skip = plan.next_jobs(JOBS, states)
        if not begin and not skip:
            return order
        states |= dict.fromkeys(names(skip), SKIPPED)
        for job in begin:
            states[job.name] = FAILED if job.name in failing else PASSED
            order.append(job.name)
        if endless in states:
            states[endless] = RUNNING


def named(name: str, jobs: list[plan.Job] = JOBS) -> plan.Job:
    (job,) = (job for job in jobs if job.name == name)
    return job


def test_everything_runs_once_if_all_passes() -> None:
    order = play()
    assert sorted(order) == sorted(names(JOBS))
    assert order[0] == "style"


def test_nothing_else_begins_before_the_style_was_checked() -> None:
    assert names(plan.next_jobs(JOBS, {})[0]) == {"style"}
    assert plan.next_jobs(JOBS, {"style": RUNNING}) == ([], [])


def test_nothing_else_runs_if_the_style_is_wrong() -> None:
    assert play("style") == ["style"]


@pytest.mark.parametrize("name", ["unit", "types", "cli"])
def test_nothing_long_begins_after_a_quick_failure(name: str) -> None:
    order = play(name)
    assert {"types", "unit"} < set(order)
    assert {"world", "functional", "docs"}.isdisjoint(order)
    assert {"alone", "nova-filters"}.isdisjoint(order)


@pytest.mark.parametrize("name", ["install-openstack", "servers"])
def test_tests_do_not_run_without_what_they_need(name: str) -> None:
    order = play(name)
    assert "functional" not in order
    assert "docs" in order


def test_what_is_left_tells_of_itself_after_a_long_failure() -> None:
    failing = ("functional", "docs", "nova-filters", "unit-2026.1")
    assert set(play(*failing)) == names(JOBS)


@pytest.mark.parametrize("other", sorted(names(JOBS) - {"alone"}))
def test_those_that_measure_have_the_machine_for_themselves(
    other: str,
) -> None:
    assert "alone" not in play(endless=other)


def test_what_failed_is_waited_for_by_what_comes_after_only() -> None:
    jobs = [
        plan.Job("first", ("true",)),
        plan.Job("second", ("true",), after=("first",)),
        plan.Job("third", ("true",), needs=("first",)),
        plan.Job("fourth", ("true",), after=("third",)),
    ]
    begin, skip = plan.next_jobs(jobs, {"first": FAILED})
    assert (names(begin), names(skip)) == ({"second"}, {"third"})
    states = {"first": FAILED, "second": RUNNING, "third": SKIPPED}
    assert names(plan.next_jobs(jobs, states)[0]) == {"fourth"}


def marks_of(job: plan.Job) -> str:
    assert isinstance(job.command, tuple)
    if "-m" not in job.command[3:]:
        return ""
    return job.command[job.command.index("-m", 3) + 1]


def test_long_tests_run_only_on_request() -> None:
    def marks(jobs: list[plan.Job]) -> dict[str, str]:
        return {job.name: marks_of(job) for job in jobs if job.junit}

    assert marks(GATE) == {
        "unit": "not long",
        "functional": "not alone and not long",
        "nova-filters": "not long",
    }
    assert marks(JOBS) == {
        "unit": "",
        "functional": "not alone",
        "nova-filters": "",
        "unit-2026.1": "",
        "unit-lowest": "",
        "ui": "",
        "spark": "",
        "alone": "alone",
    }


@pytest.mark.parametrize("versions", ["2026.1", "lowest"])
def test_unit_tests_run_with_other_versions_of_libraries(
    versions: str,
) -> None:
    job = named(f"unit-{versions}")
    assert isinstance(job.command, tuple)
    assert job.command[0] == f".venv-{versions}/bin/python"
    assert f"install-{versions}" in job.needs
    assert f"unit-{versions}" not in names(GATE)


def test_each_run_of_tests_is_told_in_a_file_of_its_own() -> None:
    jobs = [job for job in JOBS if job.junit is not None]
    assert len({job.junit for job in jobs}) == len(jobs) == 8
    for job in jobs:
        assert f"--junit-xml={job.junit}" in job.command
