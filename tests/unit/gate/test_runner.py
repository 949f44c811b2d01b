# SPDX-License-Identifier: Apache-2.0

"""Jobs run, tell what they have to, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
from collections.abc import Iterator

import pytest

from tests.gate import plan
from tests.gate import runner as runners

#: Leaves a process behind that would last, and tells its number.
FORKS = "sleep 1000 & echo $! > pid; "


class Ran:
    """A runner, and what it has said."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.said: list[str] = []
        self.directory = directory
        self.runner = runners.Runner(
            directory, {**os.environ}, self.said.append
        )

    def run(self, *jobs: plan.Job) -> None:
        with self.runner:
            self.runner.run(jobs)


@pytest.fixture
def ran(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ran]:
    monkeypatch.chdir(tmp_path)
    return Ran(tmp_path)


def shell(
    script: str, name: str = "job", **waits: tuple[str, ...]
) -> plan.Job:
    return plan.Job(name, ("sh", "-c", script), **waits)


def has_ended(pid: int) -> bool:
    """Wait for the end of a process."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], 60)[0])
        finally:
            os.close(descriptor)
    return True


def test_success_is_told_in_two_lines(ran: Ran) -> None:
    ran.run(shell("seq 100"))
    assert ran.said[0].startswith("== job passed in ")
    assert ran.said[1:] == ["100"]
    log = (ran.directory / "job.log").read_text()
    assert log.split() == [str(n) for n in range(1, 101)]


def test_failure_is_told_whole_and_in_one_piece(ran: Ran) -> None:
    ran.run(
        shell("seq 3; echo why >&2; exit 4", "bad"), shell("seq 9", "good")
    )
    at = next(n for n, text in enumerate(ran.said) if "bad FAILED" in text)
    assert "status 4" in ran.said[at]
    assert ran.said[at + 1] == "1\n2\n3\nwhy"
    assert ran.runner.statuses == {"bad": 4, "good": 0}


def test_jobs_follow_each_other(ran: Ran) -> None:
    ran.run(
        shell("cat made", "second", needs=("first",)),
        shell("echo done > made", "first"),
        shell("exit 1", "bad"),
        shell("touch never", "third", needs=("bad",)),
        shell("true", "fourth", needs=("third",)),
    )
    assert "done" in ran.said
    assert not (ran.directory / "never").exists()
    states = ran.runner.states
    assert states["second"] is plan.State.PASSED
    assert states["third"] is plan.State.SKIPPED
    assert states["fourth"] is plan.State.SKIPPED
    assert ran.runner.begins_s["second"] >= ran.runner.ends_s["first"]


def test_jobs_run_side_by_side(ran: Ran) -> None:
    os.mkfifo("pipe")
    ran.run(shell("echo hello > pipe", "one"), shell("cat pipe", "other"))
    assert "hello" in ran.said


def test_functions_run_too(ran: Ran) -> None:
    called = []

    def fail() -> None:
        raise RuntimeError("no server")

    ran.run(
        plan.Job("good", lambda: called.append(1)),
        plan.Job("bad", fail),
    )
    assert called == [1]
    assert ran.runner.states["good"] is plan.State.PASSED
    assert ran.runner.states["bad"] is plan.State.FAILED
    assert any("no server" in text for text in ran.said)


def test_job_killed_by_a_signal_has_failed_by_itself(ran: Ran) -> None:
    # Not with the status that means failed tests. What starts the tests may
    # ignore the signal, as nohup does.
    ran.run(shell("exec env --default-signal=HUP sh -c 'kill -HUP $$'"))
    assert ran.runner.statuses == {"job": -1}


def test_nothing_is_left_of_a_job_that_has_ended(ran: Ran) -> None:
    ran.run(shell(FORKS))
    assert has_ended(int((ran.directory / "pid").read_text()))


@pytest.mark.parametrize("deaf", ["", "trap '' INT; "])
def test_nothing_is_left_after_an_interrupt(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, deaf: str
) -> None:
    monkeypatch.setattr(runners, "_END_LIMIT_S", 0.5 if deaf else 60)
    os.mkfifo("begun")

    def interrupt() -> None:
        pathlib.Path("begun").read_text()
        raise KeyboardInterrupt

    monkeypatch.setattr(ran.runner, "_await_an_end", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ran.run(shell(f"{deaf}{FORKS} echo $$ > begun; wait"))
    assert has_ended(int((ran.directory / "pid").read_text()))
