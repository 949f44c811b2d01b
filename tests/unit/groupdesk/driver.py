# SPDX-License-Identifier: Apache-2.0

"""Members that work on virtual time, driven by the queues of a group.

The payload of a task is how long it takes.
"""

from __future__ import annotations

import collections
import heapq
import typing

from fpgapool.agent.groupdesk.decisions import holding
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.vocabulary import codes

#: Of each task: parameters and input, the input alone, and its result.
SIZE_BYTES, INPUT_BYTES, OUTPUT_BYTES = 8, 5, 3


class Run(typing.NamedTuple):
    """A task that a member has begun."""

    start_s: float
    member: int
    client_id: str
    task_id: int
    clear: bool
    task_s: float


class Result(typing.NamedTuple):
    """What a client got."""

    end_s: float
    client_id: str
    task_id: int
    code: str


class Driver:
    """The queues, members with their tasks, and what clients got."""

    def __init__(self, slots: int = 2, members: int = 2, **options) -> None:
        self.queues = queues.Queues(slots, **options)
        self.now = 0.0
        self.runs: list[Run] = []
        self.results: list[Result] = []
        self.locked: list[tuple[str, int, int]] = []
        self.unlocked: list[tuple[str, int, str]] = []
        self.refused: list[tuple[str, int, str]] = []
        self.left: list[int] = []
        self.serial = collections.Counter[str]()
        # When each busy member ends, and with which run.
        self._ends: list[tuple[float, int, int]] = []
        self._current: dict[int, tuple[int, model.Task]] = {}
        self._runs = 0
        for number in range(members):
            self.queues.members.join(number)

    def client(self, name: str, project_id: str = "") -> model.Client:
        return self.queues.attach(name, project_id=project_id)

    def submit(
        self,
        client: model.Client,
        *task_s: float,
        lock_id: int = 0,
        blocks: tuple[holding.Key, ...] = (),
    ) -> list[int]:
        """Submit tasks that take so long; their numbers are returned."""
        numbers = []
        for one_s in task_s:
            self.serial[client.client_id] += 1
            numbers.append(self.serial[client.client_id])
            self.queues.submit(
                *(client, numbers[-1], one_s, SIZE_BYTES, INPUT_BYTES),
                *(self.now, lock_id, blocks),
            )
        return numbers

    def decide(self) -> None:
        for decision in self.queues.decide(self.now):
            match decision:
                case model.Start(member, task, clear):
                    self._start(member, task, clear)
                case model.Answer(task, code):
                    self._result(task, code)
                case model.Locked(client, lock_id, member, _):
                    self.locked.append((client.client_id, lock_id, member))
                case model.Unlocked(client, lock_id, code):
                    self.unlocked.append((client.client_id, lock_id, code))
                case model.LockRefused(client, lock_id, code):
                    self.refused.append((client.client_id, lock_id, code))
                case model.Left(member):
                    assert member not in self._current
                    self.left.append(member)

    def run(self, until_s: float = 1e9) -> None:
        """Let time pass until then, or until no member has a task."""
        self.decide()
        while self._ends and self._ends[0][0] <= until_s:
            self.now = self._ends[0][0]
            while self._ends and self._ends[0][0] == self.now:
                _, run, member = heapq.heappop(self._ends)
                if self._current.get(member, (0,))[0] == run:
                    _, task = self._current.pop(member)
                    done = self.queues.ended(
                        *(member, task.payload, self.now),
                        output_bytes=OUTPUT_BYTES,
                    )
                    if done is not None:
                        assert done is task
                        self._result(task, codes.OK)
            self.decide()
        if until_s < 1e9:
            self.now = until_s
            self.queues.expire(self.now)
            self.decide()

    def end(self, member: int, **how: typing.Any) -> None:
        """Let a member's task end now in a way of its own."""
        self._current.pop(member)
        self.queues.ended(member, 0.0, self.now, **how)
        self.decide()

    def lose(self, member: int) -> None:
        self._current.pop(member, None)
        self.queues.lost(member, self.now)

    @property
    def busy(self) -> set[int]:
        return set(self._current)

    def ends(self, client_id: str) -> list[float]:
        return [
            result.end_s
            for result in self.results
            if result.client_id == client_id
        ]

    def codes(self, client_id: str) -> collections.Counter[str]:
        return collections.Counter(
            result.code
            for result in self.results
            if result.client_id == client_id
        )

    def _start(self, member: int, task: model.Task, clear: bool) -> None:
        assert member not in self._current, "a member has one task at a time"
        self._runs += 1
        self._current[member] = (self._runs, task)
        heapq.heappush(
            self._ends, (self.now + task.payload, self._runs, member)
        )
        self.runs.append(
            Run(
                self.now,
                member,
                task.client.client_id,
                task.task_id,
                clear,
                task.payload,
            )
        )

    def _result(self, task: model.Task, code: str) -> None:
        self.results.append(
            Result(self.now, task.client.client_id, task.task_id, code)
        )
