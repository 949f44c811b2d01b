# SPDX-License-Identifier: Apache-2.0

"""The processes of the clients, as the run sees them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import signal
import subprocess
import threading
import types
import typing
from collections.abc import Callable
from collections.abc import Iterable

from tests.chaos import clients
from tests.chaos import grouptasks
from tests.harness import processes

_END_LIMIT_S = 20.0
_VICTIM_LIVES_S = (4.0, 8.0)


class Flowing(typing.NamedTuple):
    """A slot with a long stream.

    :ivar slot: the slot's number on its board.
    """

    host: str
    slot: int


class Tenant(typing.NamedTuple):
    """A project, and where its clients ask."""

    doors: list[str]
    token: str


class Program:
    """A process with several clients.

    :param tell: called with everything that it says.
    """

    def __init__(
        self,
        module: types.ModuleType,
        settings: clients.Settings | grouptasks.Settings,
        tell: Callable[[dict[str, typing.Any]], None],
    ) -> None:
        #: Whose client library it uses.
        self.release = processes.PRESENT
        self._module = module
        self.settings = settings
        self._tell = tell
        self._rounds = 0
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, with clients that do other things than before."""
        self._rounds += 1
        seed = f"{self.settings.seed} {self._rounds}"
        settings = dataclasses.replace(self.settings, seed=seed)
        self._process = subprocess.Popen(
            [
                self.release.python,
                "-m",
                self._module.__name__,
                json.dumps(dataclasses.asdict(settings)),
            ],
            cwd=self.release.tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        reader.start()
        self._readers = [reader]

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            # The last line of a process that was killed may be half of one.
            with contextlib.suppress(json.JSONDecodeError):
                self._tell(json.loads(line))

    def say(self, command: str) -> None:
        """Tell it what to do."""
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._collect()

    def stop(self) -> None:
        """Have it end in order."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._collect()

    def _collect(self) -> None:
        assert self._process is not None
        self._process.wait(_END_LIMIT_S)
        for reader in self._readers:
            reader.join(_END_LIMIT_S)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None


class Crowd:
    """All clients, in several processes; a context manager.

    :param groups: the ids of groups, by their names.
    :param neighbours: of another project; None: there are none.
    """

    PROGRAMS = 4
    #: Clients of the other project, in one more process.
    NEIGHBOURS = 3
    #: Programs that use groups, in one more process.
    GROUP_CLIENTS = 6
    #: Clients of one more process, which is killed all the time, if any.
    VICTIMS = 4

    def __init__(
        self,
        seed: int,
        count: int,
        doors: list[str],
        token: str,
        groups: dict[str, str],
        neighbours: Tenant | None = None,
    ) -> None:
        self._rng = random.Random(seed)
        self._victims = [
            Program(
                clients,
                clients.Settings(
                    f"{seed} victims", self.VICTIMS, doors, token
                ),
                self._take,
            )
            for _ in range(min(self.VICTIMS, 1))
        ]
        self._over = threading.Event()
        self._killing = threading.Lock()
        self._killer = threading.Thread(target=self._kill_victims)
        self._changed = threading.Condition()
        self._ready_s: list[float] = []
        # The newest of long streams, and how many it has been told of.
        self._flowing: Flowing | None = None
        self._flowing_told = 0
        self._outcomes: list[clients.Outcome] = []
        self._batches: list[grouptasks.Batch] = []
        self._paused = 0
        self._bugs: list[str] = []
        shares = [
            len(range(number, count, self.PROGRAMS))
            for number in range(self.PROGRAMS)
        ]
        self.programs = [
            Program(
                clients,
                clients.Settings(
                    *(f"{seed} {number}", share, doors, token),
                    streams=1,
                ),
                self._take,
            )
            for number, share in enumerate(shares)
            if share
        ]
        if neighbours is not None:
            own = f"{seed} neighbours", self.NEIGHBOURS, *neighbours
            self.programs.append(
                Program(
                    clients,
                    clients.Settings(*own),
                    lambda told: self._take(told, neighbour=True),
                )
            )
        (api, *_) = [door for door in doors if door.startswith("http:")]
        self.programs.append(
            Program(
                grouptasks,
                grouptasks.Settings(
                    f"{seed} groups",
                    self.GROUP_CLIENTS,
                    doors,
                    token,
                    api.removeprefix("http://"),
                    groups,
                ),
                self._take,
            )
        )

    def __enter__(self) -> Crowd:
        for program in (*self.programs, *self._victims):
            program.start()
        self._killer.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._killer.join()
        for program in (*self.programs, *self._victims):
            program.kill()

    def _kill_victims(self) -> None:
        while not self._over.wait(self._rng.uniform(*_VICTIM_LIVES_S)):
            with self._killing:
                for program in self._victims:
                    if program.running:
                        program.kill()
                        program.start()

    def _take(
        self, told: dict[str, typing.Any], neighbour: bool = False
    ) -> None:
        event = told.pop("event")
        with self._changed:
            if event == "ready":
                self._ready_s.append(told["at_s"])
            elif event == "flowing":
                self._flowing = Flowing(**told)
                self._flowing_told += 1
            elif event == "done":
                told["neighbour"] = neighbour
                self._outcomes.append(clients.Outcome(**told))
            elif event == "tasks":
                self._batches.append(grouptasks.Batch(**told))
            elif event == "bug":
                self._bugs.append(told["text"])
            else:
                self._paused += 1
            self._changed.notify_all()

    def ready_s(self) -> list[float]:
        """Return when clients got slots, in the order of time."""
        with self._changed:
            return sorted(self._ready_s)

    def outcomes(self) -> list[clients.Outcome]:
        """Return what has become of jobs."""
        with self._changed:
            return list(self._outcomes)

    def batches(self) -> list[grouptasks.Batch]:
        """Return what has become of the tasks of groups."""
        with self._changed:
            return list(self._batches)

    def take_bugs(self) -> list[str]:
        """Return what groups told since the last call that must not be."""
        with self._changed:
            bugs, self._bugs = self._bugs, []
            return bugs

    def wait_ready(self, count: int, limit_s: float) -> bool:
        """Wait until so many more slots have been given out."""
        with self._changed:
            wanted = len(self._ready_s) + count
            return self._changed.wait_for(
                lambda: len(self._ready_s) >= wanted, limit_s
            )

    def wait_flowing(self, limit_s: float) -> Flowing | None:
        """Wait until a long stream tells that it is under way.

        It will be for another second.

        :returns: where it is; None if there was none.
        """
        with self._changed:
            before = self._flowing_told
            told = self._changed.wait_for(
                lambda: self._flowing_told > before, limit_s
            )
            return self._flowing if told else None

    def pause(self, limit_s: float) -> bool:
        """Have all clients end what they do, and wait for that."""
        with self._killing:
            for program in self._victims:
                program.kill()
        with self._changed:
            self._paused = 0
        for program in self.programs:
            program.say("pause")
        with self._changed:
            return self._changed.wait_for(
                lambda: self._paused == len(self.programs), limit_s
            )

    def go(self) -> None:
        for program in self.programs:
            program.say("go")
        with self._killing:
            for program in self._victims:
                program.start()
