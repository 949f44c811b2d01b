# SPDX-License-Identifier: Apache-2.0

"""The steps of an upgrade, and of the way back, under load."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import subprocess
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator

import rich.console
import rich.table

from fpgapool.vocabulary import codes
from tests.chaos import clients
from tests.chaos import crowd as crowds
from tests.chaos import grouptasks
from tests.chaos import judge
from tests.chaos import measure
from tests.chaos import run as chaos_run
from tests.harness import processes
from tests.harness import waiting
from tests.upgrade import pool as pools
from tests.upgrade import resources as kept
from tests.upgrade import witness as witnesses

CLIENTS = 6
#: How long clients go on after each step, before all of it is compared.
CALM_S = 5.0
_WIDTH = 120
#: What requests may be refused with while a service is exchanged, as
#: doc/source/install/upgrade.rst says.
DOCUMENTED = {
    "conductor": {codes.CONDUCTOR_UNAVAILABLE},
    "api": {codes.FRONT_DOOR_UNAVAILABLE},
    "agent": {codes.FRONT_DOOR_UNAVAILABLE},
}
_AGREE_LIMIT_S = 30.0


class Crowd(crowds.Crowd):
    """Clients of both releases, and none that is killed.

    :param old: the release of every second program.
    """

    PROGRAMS = 2
    GROUP_CLIENTS = 2
    VICTIMS = 0

    def __init__(
        self,
        pool: pools.Pool,
        old: processes.Release,
        groups: dict[str, str],
        doors: list[str],
    ) -> None:
        super().__init__(1, CLIENTS, doors, pool.people.token, groups)
        streams, _, tasks = self.programs
        streams.release = tasks.release = old
        settings = dataclasses.replace(tasks.settings, seed="new")
        self.programs.append(crowds.Program(grouptasks, settings, self._take))


class Witness:
    """The process of a session that is open from the first step on."""

    def __init__(
        self, release: processes.Release, door: str, token: str, seed: int
    ) -> None:
        self.name = f"witness {seed} at {door}"
        self.told: dict[str, typing.Any] = {"pieces": 0}
        self._process = subprocess.Popen(
            [release.python, witnesses.__file__, door, token, str(seed)],
            cwd=release.tree,
            env={**os.environ, "PYTHONPATH": str(release.tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told = json.loads(line)

    @property
    def pieces(self) -> int:
        return int(self.told["pieces"])

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def end(self) -> str:
        """Have it end; :returns: what is wrong, empty if nothing is."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(waiting.LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join(waiting.LIMIT_S)
        return "" if self.told.get("right") else f"{self.name}: {self.told}"


@dataclasses.dataclass
class Row:
    """What clients saw of a step.

    :ivar refused: by code.
    :ivar retried: requests and streams that the library took up again.
    :ivar alive: witnesses whose session went on.
    """

    title: str
    requests: int
    refused: collections.Counter[str]
    retried: int
    alive: int
    seconds: float


class Run:
    """An upgrade, the way back and the upgrade again.

    :param say: is told how things stand.
    """

    def __init__(
        self,
        pool: pools.Pool,
        old: processes.Release,
        say: Callable[[str], object],
    ) -> None:
        self.pool = pool
        self._old = old
        self._say = say
        self.resources = kept.Resources(pool)
        self.rows: list[Row] = []
        #: What does not hold.
        self.problems: list[str] = []
        self._judged = self._judged_batches = 0
        # When each step began, and its title.
        self._steps: list[tuple[float, str]] = []

    def play(self) -> None:
        """Do all of it; what does not hold is in :attr:`problems`."""
        self.resources.make()
        with self._load():
            self._step("with the old release", lambda: None)
            self._upgrade()
            self._step("groups all or none", self.resources.make_sets)
            self._go_back()
            self._exchange_kinds("again: ", processes.PRESENT)
        self._finish()

    @contextlib.contextmanager
    def _load(self) -> Iterator[None]:
        sockets = [one.socket_path() for one in self.pool.hosts.values()]
        apis = [f"http://{one.address}" for one in self.pool.apis]
        token = self.pool.people.token
        self._witnesses = [
            Witness(release, door, token, seed)
            for seed, (release, door) in enumerate(
                (release, door)
                for release in (self._old, processes.PRESENT)
                for door in (sockets[0], apis[0])
            )
        ]
        self._crowd = Crowd(
            self.pool, self._old, self.resources.groups, [*sockets, *apis]
        )
        with contextlib.ExitStack() as stack:
            for one in self._witnesses:
                stack.callback(one.kill)
            self._await_witnesses()
            stack.enter_context(self._crowd)
            yield
            if not self._crowd.pause(chaos_run.QUIET_LIMIT_S):
                self._problem("clients do not come to an end")
            for one in self._witnesses:
                if problem := one.end():
                    self._problem(problem)
            self._judge("the end")

    def _await_witnesses(self) -> None:
        # Before the others: so large claims come last in the queue.
        waiting.wait_until(
            lambda: all(one.pieces for one in self._witnesses),
            lambda: f"sessions: {[one.told for one in self._witnesses]}",
        )

    # The steps.

    def _upgrade(self) -> None:
        pool, new = self.pool, processes.PRESENT
        self._step("fpgapool-manage db sync", self._sync)
        pool.pin(pools.PINS)
        for daemon in pool.all_daemons():
            self._exchange(f"new {_kind(daemon)}", daemon, new)
        pool.pin(pools.BRIDGE)
        self._exchange_kinds("newest pins: ", new)
        pool.pin({})
        self._exchange_kinds("without pins: ", new)

    def _go_back(self) -> None:
        pool = self.pool
        pool.pin(pools.BRIDGE)
        self._exchange_kinds("newest pins: ", processes.PRESENT)
        pool.pin(pools.PINS)
        self._exchange_kinds("old pins: ", processes.PRESENT)
        for daemon in reversed([*pool.all_daemons()]):
            self._exchange(f"old {_kind(daemon)}", daemon, self._old)

    def _sync(self) -> None:
        """Run the new release's commands beside the old services."""
        conductor = self.pool.conductor
        conductor.release = processes.PRESENT
        for command in (
            ("manage", "db", "sync"),
            ("status", "upgrade", "check"),
        ):
            done = self.pool.command(*command)
            if done.returncode > 1:
                self._problem(f"{command}: {done.stdout}")
        conductor.release = self._old

    def _exchange(
        self, title: str, daemon: processes.Daemon, release: processes.Release
    ) -> None:
        self._step(title, lambda: self.pool.exchange(daemon, release))

    def _exchange_kinds(self, word: str, release: processes.Release) -> None:
        """Exchange all services of a kind in a step, one after the other."""
        kinds: dict[str, list[processes.Daemon]] = {}
        for daemon in self.pool.all_daemons():
            kinds.setdefault(_kind(daemon).split()[0], []).append(daemon)
        for kind, daemons in kinds.items():

            def exchange(daemons: list[processes.Daemon] = daemons) -> None:
                for daemon in daemons:
                    self.pool.exchange(daemon, release)

            self._step(f"{word}{kind}", exchange)

    def _step(self, title: str, action: Callable[[], None]) -> None:
        begin_s = time.monotonic()
        self._steps.append((begin_s, title))
        pieces = [one.pieces for one in self._witnesses]
        action()
        seconds = time.monotonic() - begin_s
        threading.Event().wait(CALM_S)
        self._compare(title)
        alive = sum(
            one.pieces > before
            for one, before in zip(self._witnesses, pieces, strict=True)
        )
        if alive < len(pieces):
            self._problem(f"{title}: sessions of witnesses do not go on")
        for daemon in self.pool.all_daemons():
            if not daemon.running:
                self._problem(f"{daemon.name} ended:\n{daemon.log_tail()}")
        outcomes = self._judge(title)
        failed = [one for one in outcomes if one.code and not one.wanted]
        row = Row(
            title,
            len(outcomes),
            collections.Counter(one.code for one in failed),
            sum(map(measure.moved, outcomes)),
            alive,
            seconds,
        )
        self.rows.append(row)
        self._say(" | ".join(_cells(row)))

    def _compare(self, title: str) -> None:
        found = ["not asked yet"]

        def agree() -> bool:
            found[:] = self.resources.differences()
            return not found

        try:
            waiting.wait_until(agree, lambda: "\n".join(found), _AGREE_LIMIT_S)
        except AssertionError as error:
            self._problem(f"{title}: {error}")

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self._say(f"PROBLEM: {text}")

    def _judge(self, title: str) -> list[clients.Outcome]:
        """Judge what has ended since the last time, and return it."""
        outcomes = self._crowd.outcomes()[self._judged :]
        self._judged += len(outcomes)
        batches = self._crowd.batches()[self._judged_batches :]
        self._judged_batches += len(batches)
        tried: list[clients.Outcome | grouptasks.Batch] = [
            *filter(measure.was_refused, outcomes),
            *batches,
        ]
        for problem in (
            *self._crowd.take_bugs(),
            *judge.wrong(outcomes),
            *judge.wrong_tasks(batches),
            *judge.lost(outcomes),
            *(
                f"lost: {one}"
                for one in outcomes
                if measure.lost_stateful(one)
            ),
            *(
                f"refused: {one}"
                for one in tried
                if one.code and one.code not in self._documented(one)
            ),
        ):
            self._problem(f"{title}: {problem}")
        return outcomes

    def _documented(self, one: clients.Outcome | grouptasks.Batch) -> set[str]:
        """Return the codes with which a request may be refused.

        A call that a conductor takes with it ends seconds later, when its
        caller's time is over, and so perhaps in the next step.
        """
        found = set[str]()
        for begin_s, title in reversed(self._steps):
            for kind, documented in DOCUMENTED.items():
                if kind in title:
                    found |= documented
            if begin_s <= one.started_s:
                break
        return found

    def _finish(self) -> None:
        """Bring everything to its end, and compare who says what."""
        for problem in (*self.resources.end_sets(), *self.resources.end()):
            self._problem(problem)
        try:
            self.pool.check_consistent(live=0, limit_s=chaos_run.QUIET_LIMIT_S)
        except AssertionError as error:
            self._problem(str(error))
        done = self.pool.command("manage", "audit")
        if done.returncode:
            self._problem(f"audit: {done.stdout}")
        for daemon in self.pool.all_daemons():
            for problem in (
                *judge.bugs(daemon.log()),
                *judge.refusals(daemon.log()),
            ):
                self._problem(f"{daemon.name}: {problem}")

    def table(self, title: str) -> str:
        """Return the table for people."""
        table = rich.table.Table(title=title)
        for number, name in enumerate(COLUMNS):
            table.add_column(name, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*_cells(row))
        console = rich.console.Console(width=_WIDTH, file=io.StringIO())
        console.print(table)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    def save(self, directory: pathlib.Path) -> None:
        """Write the logs of the pool's processes."""
        for daemon in self.pool.all_daemons():
            (directory / f"{daemon.name}.log").write_text(daemon.log())


COLUMNS = ("Step", "Requests", "Refused", "Retried", "Sessions", "Seconds")


def _cells(row: Row) -> list[str]:
    refused = ", ".join(f"{n} {code}" for code, n in row.refused.items())
    return [
        row.title,
        str(row.requests),
        refused or "0",
        str(row.retried),
        str(row.alive),
        f"{row.seconds:.1f}",
    ]


def _kind(daemon: processes.Daemon) -> str:
    """Name a service for people."""
    name = daemon.name.partition("-")[2]
    for kind in ("conductor", "api"):
        if kind in name:
            return f"{kind} {name[-1]}"
    return f"agent {name}"
