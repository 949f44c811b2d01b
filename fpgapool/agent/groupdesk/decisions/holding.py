# SPDX-License-Identifier: Apache-2.0

"""Tracks which members hold which blocks, and chooses members for tasks.

Pure. If a member has evicted a block that it is assumed to hold, the client
resends the task with the block's data.
"""

from __future__ import annotations

import collections
import itertools
import math
import typing
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.agent.groupdesk.decisions import model

# Maximum number of most recently used blocks remembered for a member.
_MOST_KEYS = 4096
# Number of tasks in each queue that are considered for a free member.
_MOST_LOOKED_AT = 16
# Maximum number of times that a task may be overtaken.
_MOST_EXCHANGES = 16
# Weight of the newest task in the mean duration of a task.
_WEIGHT = 0.125


class Key(typing.NamedTuple):
    """Identifies a block of an application."""

    project_id: str
    application: str
    block_id: bytes
    length_bytes: int


class Holders:
    """The blocks of all members.

    :ivar due_s: when the first task stops waiting for a member with its
        blocks.
    """

    def __init__(self) -> None:
        self.due_s = math.inf
        # Mean duration of tasks with blocks.
        self._task_s = 0.0
        self._began_s: dict[int, float] = {}
        self._held: dict[int, collections.OrderedDict[Key, None]] = {}

    def choose(
        self,
        task: model.Task,
        free: Collection[int],
        members: Mapping[int, model.Member],
        now: float,
    ) -> tuple[model.Task, int] | None:
        """Choose a member for the head of a queue, which refers to blocks.

        If a busy member holds more of its blocks than any free one, another of
        the client's tasks that suits a free member takes its place.

        :returns: the resulting head and its member's number; None if the head
            waits for a busy member, for at most the mean duration of a task.
        """
        usable = [
            number
            for number, member in members.items()
            if number in free or not (member.leaving or member.lock)
        ]
        number = self._serving(task, free, usable)
        if number is not None:
            return task, number
        exchanged = self._exchange(task, free, usable)
        if exchanged is not None:
            return exchanged
        if task.waits_until_s is None:
            task.waits_until_s = now + self._task_s
        if now < task.waits_until_s:
            self.due_s = min(self.due_s, task.waits_until_s)
            return None
        return task, self._best(task, free)

    def _best(self, task: model.Task, free: Iterable[int]) -> int:
        """Return the free member with the most bytes of a task's blocks."""
        return min(free, key=lambda one: (-self._held_bytes(one, task), one))

    def _serving(
        self, task: model.Task, free: Iterable[int], usable: Iterable[int]
    ) -> int | None:
        """Return the best free member, or None if a busy one holds more."""
        best = self._best(task, free)
        held_bytes = self._held_bytes(best, task)
        has_most = all(
            self._held_bytes(one, task) <= held_bytes for one in usable
        )
        return best if has_most else None

    def _exchange(
        self, task: model.Task, free: Iterable[int], usable: Iterable[int]
    ) -> tuple[model.Task, int] | None:
        """Swap a head with another task that suits a free member.

        :returns: that task, which is now the head, and its member; or None.
        """
        if task.exchanges >= _MOST_EXCHANGES:
            return None
        queues = [queue.waiting for queue in task.client.queues]
        for place, waiting in itertools.product(
            range(_MOST_LOOKED_AT), queues
        ):
            other = waiting[place] if place < len(waiting) else task
            if other is task or isinstance(other, model.Lock):
                continue
            if not other.blocks:
                continue
            number = self._serving(other, free, usable)
            if number is not None:
                waiting[place] = task
                task.queue.waiting[0] = other
                task.queue, other.queue = other.queue, task.queue
                task.exchanges += 1
                task.waits_until_s = None
                return other, number
        return None

    def _held_bytes(self, number: int, task: model.Task) -> int:
        held = self._held.get(number, ())
        return sum(key.length_bytes for key in task.blocks if key in held)

    def started(
        self, number: int, task: model.Task, clear: bool, now: float
    ) -> None:
        """Record that a task starts on a member, which will hold its blocks.

        :param clear: whether the member drops other projects' blocks.
        """
        if task.blocks:
            self._began_s[number] = now
        held = self._held.setdefault(number, collections.OrderedDict())
        if clear:
            project_id = task.client.scope[0]
            for key in [key for key in held if key.project_id != project_id]:
                del held[key]
        for key in task.blocks:
            held[key] = None
            held.move_to_end(key)
        while len(held) > _MOST_KEYS:
            held.popitem(last=False)

    def ended(self, number: int, busy_s: float, now: float) -> None:
        """Record the end of a task.

        :param busy_s: time for which the core computed; 0 if it did not.
        """
        began_s = self._began_s.pop(number, None)
        if began_s is not None and busy_s:
            self._task_s += _WEIGHT * (now - began_s - self._task_s)

    def forget(self, number: int) -> None:
        self._held.pop(number, None)
        self._began_s.pop(number, None)
