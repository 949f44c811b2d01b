# SPDX-License-Identifier: Apache-2.0

"""Programs that share groups, each in a thread, all in one process.

Run as ``python -m tests.chaos.grouptasks SETTINGS``, with the JSON of
:class:`Settings`. It does as :mod:`tests.chaos.obeying` says. It tells
``tasks`` of each :class:`Batch`, and ``bug`` of what the API must not answer
to the owner, who changes the sizes of the groups all the time.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import http.client
import json
import random
import sys
import threading
import time
import traceback
import typing
from collections.abc import Callable
from collections.abc import Mapping

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.chaos import clients
from tests.chaos import jobs
from tests.chaos import obeying
from tests.functional.api import harness as api_harness

#: Accelerators of groups, by their names.
GROUPS = {"chaos-group-copy": "copy", "chaos-group-aes": "aes"}
LEAST_MEMBERS = 1
MOST_MEMBERS = 3
CONDUCTS = ("run", "submit", "map", "lock")
_MOST_TASKS = 32
_LARGEST_EXPONENT = 16.0
#: Between two sizes of a group.
_RESIZE_S = (0.5, 4.0)
#: What a lock may end with.
_LOCK_ENDS = frozenset({codes.LOCK_LOST, codes.LOCK_LIMIT})


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the process is told.

    :ivar seed: of all that it does.
    :ivar clients: how many programs there are.
    :ivar doors: paths of sockets, and addresses of APIs.
    :ivar api: host and port of the API.
    :ivar groups: the ids of groups, by their names.
    """

    seed: str
    clients: int
    doors: list[str]
    token: str
    api: str
    groups: dict[str, str]


@dataclasses.dataclass
class Batch:
    """The tasks of a visit, as told by ``tasks``.

    :ivar opened: whether the program was a client of the group.
    :ivar right: tasks with the right result.
    :ivar not_once: tasks that have not ended exactly once.
    :ivar code: of the error; empty if there was none.
    :ivar wrong: what was wrong with an output; empty if nothing was.
    :ivar bug: what was raised that is not an error of the library.
    """

    group: str
    conduct: str
    door: str
    started_s: float
    opened: bool = False
    sent: int = 0
    right: int = 0
    not_once: int = 0
    code: str = ""
    message: str = ""
    wrong: str = ""
    bug: str = ""
    ended_s: float = 0.0


class Crowd(obeying.Obeying):
    """All programs of this process, and the owner of the groups."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def follow(self) -> None:
        """Do as told, to the end."""
        threading.excepthook = self._raised
        bodies: list[Callable[[], None]] = [
            functools.partial(self._client, number)
            for number in range(self._settings.clients)
        ]
        bodies += [
            functools.partial(self._own, name)
            for name in self._settings.groups
        ]
        self.run(bodies)

    def _raised(self, hooked: threading.ExceptHookArgs) -> None:
        text = "".join(traceback.format_exception(hooked.exc_value))
        self.say("bug", text=f"in a program that uses groups: {text}")

    def _own(self, name: str) -> None:
        """Change the size of a group, again and again."""
        rng = random.Random(f"{self._settings.seed} {name}")
        while True:
            with self.turn(rng.uniform(*_RESIZE_S)) as mine:
                if mine:
                    self._resize(name, rng)

    def _resize(self, name: str, rng: random.Random) -> None:
        size = rng.randint(LEAST_MEMBERS, MOST_MEMBERS)
        try:
            answer = api_harness.ask(
                self._settings.api,
                "PATCH",
                f"/v1/groups/{self._settings.groups[name]}",
                self._settings.token,
                {"group": {"size": size}},
                check=False,
            )
        except (OSError, http.client.HTTPException):
            return
        if answer.status not in (200, 503):
            self.say("bug", text=f"{name} does not get {size}: {answer}")

    def _client(self, number: int) -> None:
        rng = random.Random(f"{self._settings.seed} {number}")
        while True:
            with self.turn(rng.uniform(0.0, 1.0)) as mine:
                if mine:
                    self._visit(rng)

    def _visit(self, rng: random.Random) -> None:
        name = rng.choice([*self._settings.groups])
        conduct = rng.choice(CONDUCTS)
        door = rng.choice(self._settings.doors)
        batch = Batch(name, conduct, door, time.monotonic())
        work = [
            draw(rng, GROUPS[name]) for _ in range(rng.randint(1, _MOST_TASKS))
        ]
        try:
            with client.group_open(
                name,
                front_door=clients.front_door(door, self._settings.token),
                timeout_s=clients.PATIENCE_S,
            ) as group:
                batch.opened = True
                Tasks(group, work, batch).do(conduct)
        except client.FpgapoolError as error:
            batch.code = error.code
            batch.message = error.message
        except Exception:
            batch.bug = traceback.format_exc()
        batch.ended_s = time.monotonic()
        self.say("tasks", **dataclasses.asdict(batch))


def draw(rng: random.Random, accelerator: str) -> jobs.Job:
    """Choose a task."""
    params: Mapping[str, typing.Any] = {}
    if accelerator == "aes":
        params = {"key": rng.randbytes(32), "iv": rng.randbytes(16)}
    return jobs.Job(
        accelerator=accelerator,
        params=dict(params),
        conduct="task",
        size_bytes=int(2 ** rng.uniform(0.0, _LARGEST_EXPONENT)),
        data_seed=rng.getrandbits(32),
        door=0,
        pause_s=0.0,
        patience_s=0.0,
    )


class Tasks:
    """The tasks of one visit.

    :param batch: takes what becomes of them.
    """

    def __init__(
        self, group: client.Group, work: list[jobs.Job], batch: Batch
    ) -> None:
        self._group = group
        self._work = work
        self._batch = batch

    def do(self, conduct: str) -> None:
        """Send them all and check the results."""
        getattr(self, f"_{conduct}")()

    def _check(self, job: jobs.Job, data: bytes, output: bytes) -> None:
        if output == job.expected(data):
            self._batch.right += 1
        else:
            self._batch.wrong = f"{len(output)} bytes of {job}"

    def _run(self) -> None:
        for job in self._work:
            data = job.data()
            self._batch.sent += 1
            output = self._group.run(
                data, params=job.params, timeout_s=clients.PATIENCE_S
            )
            self._check(job, data, output)

    def _lock(self) -> None:
        try:
            with self._group.lock(timeout_s=clients.PATIENCE_S):
                self._run()
        except client.TaskFailed as error:
            if error.code not in _LOCK_ENDS:
                raise
            # The task that was under way has no result.
            self._batch.sent = self._batch.right

    def _map(self) -> None:
        # All tasks of a map have the same parameters.
        work = [
            dataclasses.replace(job, params=self._work[0].params)
            for job in self._work
        ]
        pieces = [job.data() for job in work]
        self._batch.sent = len(pieces)
        outputs = list(self._group.map(pieces, params=work[0].params))
        self._batch.not_once = abs(len(outputs) - len(pieces))
        for job, data, output in zip(work, pieces, outputs, strict=False):
            self._check(job, data, output)

    def _submit(self) -> None:
        ended: collections.Counter[int] = collections.Counter()
        lock = threading.Lock()

        def count(number: int, _future: object) -> None:
            with lock:
                ended[number] += 1

        pieces = [job.data() for job in self._work]
        futures = []
        for number, (job, data) in enumerate(
            zip(self._work, pieces, strict=True)
        ):
            self._batch.sent += 1
            future = self._group.submit(data, params=job.params)
            future.add_done_callback(functools.partial(count, number))
            futures.append(future)
        _, late = concurrent.futures.wait(futures, clients.PATIENCE_S)
        if late:
            raise client.OperationTimeout(f"{len(late)} tasks have not ended")
        # A second result would come soon after the first one.
        threading.Event().wait(0.05)
        with lock:
            self._batch.not_once = sum(
                ended[number] != 1 for number in range(len(futures))
            )
        for job, data, future in zip(self._work, pieces, futures, strict=True):
            self._check(job, data, future.result())


if __name__ == "__main__":
    obeying.obey_signals()
    Crowd(Settings(**json.loads(sys.argv[1]))).follow()
