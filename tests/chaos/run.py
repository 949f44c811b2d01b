# SPDX-License-Identifier: Apache-2.0

"""One run: load, faults, calm, and the judgement of all of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from tests.chaos import budgets
from tests.chaos import clients
from tests.chaos import crowd as crowds
from tests.chaos import faults
from tests.chaos import faulty
from tests.chaos import grouptasks
from tests.chaos import judge
from tests.chaos import measure
from tests.chaos import plan
from tests.chaos import pool as pools
from tests.chaos import report
from tests.harness import waiting

#: How long clients and pool may take to bring all to its end.
QUIET_LIMIT_S = 90.0
_POLL_S = 0.5
_COLLECTED_S = 10.0


@dataclasses.dataclass(frozen=True)
class Options:
    """What a run is like.

    :ivar duration_s: after the warm-up; the last fault is ended in order.
    :ivar calm_s: how long it is calm at least after each fault.
    :ivar quiet_every: after how many faults everything is brought to its
        end and compared.
    :ivar second_share: how often two faults happen at a time.
    :ivar lasts_s: how long a fault lasts, at least and at most.
    :ivar recovery_limit_s: how long is waited until the pool is as before.
    """

    seed: int
    duration_s: float
    clients: int
    kinds: Sequence[faults.Kind]
    conductors: int = 2
    warm_up_s: float = 20.0
    calm_s: float = 8.0
    quiet_every: int = 4
    second_share: float = plan.SECOND_SHARE
    lasts_s: tuple[float, float] = plan.LASTS_S
    recovery_limit_s: float = 60.0


class Run:
    """A run on a pool that is up.

    :param say: is told how things stand.
    """

    def __init__(
        self,
        options: Options,
        pool: pools.Pool,
        crowd: crowds.Crowd,
        books: budgets.Books,
        say: Callable[[str], object],
    ) -> None:
        self.options = options
        self.pool = pool
        self.books = books
        self._crowd = crowd
        self._stage = faults.Stage(pool, crowd)
        self._say = say
        self._judged = 0
        self._judged_batches = 0
        # Sessions may be lost, and for how long the last fault lasted.
        self._may_lose = False
        self._lasted_s = 0.0
        # Faults, alone, that long streams had to move for.
        self._moves = 0
        #: What has to have been sent again for the run to say something.
        self.least = judge.Resent.least(0, options.duration_s)
        #: What does not hold.
        self.problems: list[str] = []
        self.windows: list[measure.Window] = []
        #: After the warm-up, and whenever everything was at its end.
        self.uses: list[dict[str, judge.Use]] = []

    def play(self) -> None:
        """Do all of it; what does not hold is in :attr:`problems`."""
        options = self.options
        self._wait(options.warm_up_s)
        self._quiet()
        self._go_on()
        started_s = time.monotonic()
        self._control()
        kinds = [
            kind
            for kind in options.kinds
            if self.pool.sandboxes or not kind.needs_sandbox
        ]
        blows = plan.blows(
            options.seed, kinds, options.second_share, options.lasts_s
        )
        for number, blow in enumerate(blows, start=1):
            left_s = started_s + options.duration_s - time.monotonic()
            if left_s < blow.lasts_s + blow.apart_s + options.calm_s:
                break
            self._play(blow)
            if number % options.quiet_every == 0:
                self._quiet()
                self._go_on()
        self._quiet()
        self._end_groups()
        self.least = judge.Resent.least(
            self._moves, time.monotonic() - started_s
        )
        for problem in judge.untried(self.resent(), self.least):
            self._problem(problem)
        self._check_growth()
        for daemon in self.pool.all_daemons():
            for bug in judge.bugs(daemon.log()):
                self._problem(f"{daemon.name}: {bug}")
            for refusal in judge.refusals(daemon.log()):
                self._problem(f"{daemon.name} refused {refusal}")

    def rows(self) -> list[measure.Row]:
        """Return what was measured."""
        return measure.rows(
            self._crowd.ready_s(), self._crowd.outcomes(), self.windows
        )

    def outcomes(self) -> list[clients.Outcome]:
        """Return what has become of jobs."""
        return self._crowd.outcomes()

    def batches(self) -> list[grouptasks.Batch]:
        """Return what has become of the tasks of groups."""
        return self._crowd.batches()

    def resent(self) -> judge.Resent:
        """Return how often streams sent something again."""
        return judge.Resent.of(self._crowd.outcomes())

    def got_bytes(self) -> int:
        """Return what clients of sessions got and must be charged."""
        return budgets.due_bytes(self._crowd.outcomes())

    def _wait(self, time_s: float) -> None:
        threading.Event().wait(time_s)

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self._say(f"PROBLEM: {text}")

    def _control(self) -> None:
        """Measure a time without faults, like those with them."""
        begin_s = time.monotonic()
        self._wait(2 * self.options.calm_s)
        self._close_window(measure.NO_FAULT, begin_s, begin_s, 0.0)
        self._judge()

    def _play(self, blow: plan.Blow) -> None:
        before_s = time.monotonic()
        before_per_s = measure.rate_per_s(
            self._crowd.ready_s(), before_s - self.options.calm_s, before_s
        )
        self._say(f"{blow.title}, {before_per_s:.1f} opens/s before")
        with self._struck(blow) as lasts:
            if lasts:
                self._wait(blow.lasts_s)
        end_s = time.monotonic()
        self._moves += len(blow.kinds) == 1 and blow.kinds[0].moves
        self._check_alive()
        self._recover(
            measure.Window(blow.title, before_s, end_s, 0.0, before_per_s)
        )
        self._may_lose = any(k.component == faults.CLIENT for k in blow.kinds)
        self._lasted_s = end_s - before_s
        self._judge()

    @contextlib.contextmanager
    def _struck(self, blow: plan.Blow) -> Iterator[bool]:
        """Have faults begin and end; gives whether one does not by itself."""
        lasts = False
        rng = random.Random(blow.seed)
        with contextlib.ExitStack() as undone:
            for number, kind in enumerate(blow.kinds):
                if number:
                    self._wait(blow.apart_s)
                undo = kind.strike(self._stage, rng)
                undone.callback(undo)
                lasts = lasts or undo is not faults.nothing
            yield lasts

    def _check_alive(self) -> None:
        for daemon in self.pool.all_daemons():
            if not daemon.running:
                self._problem(
                    f"{daemon.name} has ended by itself:\n{daemon.log_tail()}"
                )
                daemon.start()

    def _recover(self, window: measure.Window) -> None:
        """Wait until the pool gives out slots as before, and for calm."""
        deadline_s = window.end_s + self.options.recovery_limit_s
        while True:
            self._wait(_POLL_S)
            now_s = time.monotonic()
            seen = dataclasses.replace(window, calm_s=now_s)
            recovery_s = measure.recovered_after_s(self._crowd.ready_s(), seen)
            if recovery_s is not None or now_s > deadline_s:
                break
        self._wait(window.end_s + self.options.calm_s - time.monotonic())
        closed = self._close_window(
            window.title, window.begin_s, window.end_s, window.before_per_s
        )
        ready_s = self._crowd.ready_s()
        gap_s = measure.longest_gap_s(ready_s, closed.begin_s, closed.calm_s)
        recovery = "not seen" if recovery_s is None else f"{recovery_s:.1f} s"
        self._say(f"    down {gap_s:.1f} s, recovery {recovery}")
        if recovery_s is None and not self._crowd.wait_ready(
            1, waiting.LIMIT_S
        ):
            self._problem(f"no slot is given out any more: {window.title}")

    def _close_window(
        self, title: str, begin_s: float, end_s: float, before_per_s: float
    ) -> measure.Window:
        window = measure.Window(
            title, begin_s, end_s, time.monotonic(), before_per_s
        )
        self.windows.append(window)
        return window

    def _judge(self) -> None:
        outcomes = self._crowd.outcomes()[self._judged :]
        self._judged += len(outcomes)
        for bug in self._crowd.take_bugs():
            self._problem(bug)
        for problem in judge.wrong(outcomes) + budgets.refused(outcomes):
            self._problem(problem)
        batches = self._crowd.batches()[self._judged_batches :]
        self._judged_batches += len(batches)
        for problem in judge.wrong_tasks(batches):
            self._problem(problem)
        if not self._may_lose:
            for problem in judge.lost(outcomes, self._lasted_s):
                self._problem(problem)

    def _quiet(self) -> None:
        """Bring everything to its end, and compare who says what."""
        if not self._crowd.pause(QUIET_LIMIT_S):
            self._problem("clients do not come to the end of what they do")
        self._judge()
        try:
            self.pool.check_members(QUIET_LIMIT_S)
            self.pool.check_consistent(live=0, limit_s=QUIET_LIMIT_S)
            for problem in self.books.check():
                self._problem(problem)
        except AssertionError as error:
            self._problem(str(error))
        if found := self.pool.audit():
            self._problem(found)
        self.uses.append(judge.uses(self.pool))

    def _end_groups(self) -> None:
        try:
            for problem in self.pool.end_groups(QUIET_LIMIT_S):
                self._problem(problem)
            for problem in self.books.check_end(self.got_bytes()):
                self._problem(problem)
        except AssertionError as error:
            self._problem(str(error))
        if not any(batch.right for batch in self._crowd.batches()):
            self._problem("no task of a group had a result")

    def _go_on(self) -> None:
        try:
            self.books.refill()
        except AssertionError as error:
            self._problem(str(error))
        self._crowd.go()
        # At first all come at once, and get more than ever after: that is
        # not what the next fault is to be compared with.
        self._wait(2 * self.options.calm_s)

    def _check_growth(self) -> None:
        """Compare what processes have, once they have no garbage."""
        for daemon in self.pool.daemons():
            os.kill(daemon.pid, faulty.COLLECT)
        deadline_s = time.monotonic() + _COLLECTED_S
        while found := judge.growth(self.uses[0], judge.uses(self.pool)):
            if time.monotonic() > deadline_s:
                break
            self._wait(_POLL_S)
        for problem in found:
            self._problem(problem)


def save(run: Run, directory: pathlib.Path) -> list[measure.Row]:
    """Write tables, problems and logs of a run."""
    options, pool = run.options, run.pool
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    raised: dict[str, typing.Any] = {}
    for service in (*pool.all_daemons(), pool.rabbitmq, pool.mariadb):
        content = service.log_path.read_text(errors="replace")
        (logs / f"{service.name}.log").write_text(content)
        raised[service.name] = judge.raised(content)
    rows, books = run.rows(), run.books
    about = {
        "seed": options.seed,
        "duration_s": options.duration_s,
        "clients": options.clients,
        "faults": [window.title for window in run.windows],
        "resent": dataclasses.asdict(run.resent()),
        "resent_least": dataclasses.asdict(run.least),
        "problems": run.problems,
        "raised": raised,
        "takeovers": books.takeovers,
        "got_bytes": run.got_bytes(),
        "looks": [dataclasses.asdict(look) for look in books.looks],
        "uses": [
            {name: dataclasses.asdict(use) for name, use in each.items()}
            for each in run.uses
        ],
    }
    with (directory / "outcomes.jsonl").open("w") as file:
        for one in run.outcomes():
            file.write(json.dumps(dataclasses.asdict(one)) + "\n")
    with (directory / "batches.jsonl").open("w") as file:
        for batch in run.batches():
            file.write(json.dumps(dataclasses.asdict(batch)) + "\n")
    about["windows"] = [dataclasses.asdict(one) for one in run.windows]
    report.write(directory, rows, budgets.rows(books.looks), about)
    return rows
