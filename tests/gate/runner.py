# SPDX-License-Identifier: Apache-2.0

"""Runs the jobs of a plan, and leaves no process of theirs behind."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping

from tests.gate import plan
from tests.services import process as processes

_END_LIMIT_S = 30.0
_REMINDER_S = 60.0


class Runner:
    """Runs jobs; used as a context manager, which ends what still runs.

    :param say: prints a line or several.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        environment: Mapping[str, str],
        say: Callable[[str], object],
    ) -> None:
        self._directory = directory
        self._environment = environment
        self._say = say
        # Its guardian ends the processes even if this one is killed.
        self._workspace = processes.Workspace()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: queue.SimpleQueue[tuple[plan.Job, int]] = (
            queue.SimpleQueue()
        )
        self._began_s = time.monotonic()
        self.states: dict[str, plan.State] = {}
        #: Exit statuses of jobs that have ended.
        self.statuses: dict[str, int] = {}
        #: When jobs began and ended, in seconds since the gate began.
        self.begins_s: dict[str, float] = {}
        self.ends_s: dict[str, float] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for started in self._running.values():
            _signal_group(started, signal.SIGINT)
        deadline_s = time.monotonic() + _END_LIMIT_S
        with contextlib.suppress(queue.Empty):
            while self._running:
                left_s = max(0.0, deadline_s - time.monotonic())
                job, _ = self._ended.get(timeout=left_s)
                self._running.pop(job.name, None)
        # What has not ended in order does it now.
        self._workspace.close()

    def elapsed_s(self) -> float:
        """Return the time since the gate began."""
        return time.monotonic() - self._began_s

    def run(self, jobs: Collection[plan.Job]) -> None:
        """Run jobs until none is left that may run."""
        while True:
            begin, skip = plan.next_jobs(jobs, self.states)
            for job in skip:
                self.states[job.name] = plan.State.SKIPPED
            for job in begin:
                self._begin(job)
            if skip:
                continue
            if plan.State.RUNNING not in self.states.values():
                return
            self._await_an_end()

    def _log_path(self, job: plan.Job) -> pathlib.Path:
        return self._directory / f"{job.name}.log"

    def _begin(self, job: plan.Job) -> None:
        self.states[job.name] = plan.State.RUNNING
        self.begins_s[job.name] = self.elapsed_s()
        await_end = (
            self._start(job, job.command)
            if isinstance(job.command, tuple)
            else functools.partial(self._call, job, job.command)
        )

        def report_end() -> None:
            self._ended.put((job, await_end()))

        threading.Thread(target=report_end, daemon=True).start()

    def _start(
        self, job: plan.Job, command: tuple[str, ...]
    ) -> Callable[[], int]:
        """Start a process; return what awaits its end."""
        with self._log_path(job).open("wb") as log:
            started = subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._workspace.watch(job.name, started.pid)
        self._running[job.name] = started

        def await_end() -> int:
            # Its number is not used again before the other wait.
            os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
            # What it has left behind in its group ends with it.
            _signal_group(started, signal.SIGKILL)
            return started.wait()

        return await_end

    def _call(self, job: plan.Job, function: Callable[[], object]) -> int:
        with self._log_path(job).open("w") as log:
            try:
                function()
            except Exception:
                log.write(traceback.format_exc())
                return 1
        return 0

    def _await_an_end(self) -> None:
        try:
            job, status = self._ended.get(timeout=_REMINDER_S)
        except queue.Empty:
            names = [
                name
                for name, state in self.states.items()
                if state is plan.State.RUNNING
            ]
            self._say(f".. {self.elapsed_s():.0f} s: {', '.join(names)}")
            return
        started = self._running.pop(job.name, None)
        if started is not None:
            self._workspace.forget(job.name, started.pid)
        self._end(job, status)

    def _end(self, job: plan.Job, status: int) -> None:
        self.ends_s[job.name] = self.elapsed_s()
        self.statuses[job.name] = status
        passed = status == 0
        self.states[job.name] = (
            plan.State.PASSED if passed else plan.State.FAILED
        )
        output = self._log_path(job).read_text(errors="replace").strip()
        took_s = self.ends_s[job.name] - self.begins_s[job.name]
        verb = "passed" if passed else f"FAILED, status {status},"
        self._say(f"== {job.name} {verb} in {took_s:.1f} s")
        if output:
            self._say(output.splitlines()[-1] if passed else output)


def _signal_group(started: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, number)
