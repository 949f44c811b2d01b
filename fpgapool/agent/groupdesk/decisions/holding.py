# SPDX-License-Identifier: Apache-2.0

"""Which members hold which blocks, and which member a task prefers.

Pure. If a member has evicted a block, the task is sent again with the data.
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

# Blocks remembered per member; it forgets the oldest ones.
_MOST_KEYS = 4096
# How many tasks of each queue are searched for one that a free member can
# serve.
_MOST_LOOKED_AT = 16
# How often a task may be overtaken.
_MOST_EXCHANGES = 16
# Weight of the newest task in the mean time of a task.
_WEIGHT = 0.125


class Key(typing.NamedTuple):
    """A block of an application."""

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
        # Mean duration of a task whose blocks its member holds.
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
        """Choose a member for a queue's head that refers to blocks.

        If a busy member holds more of its blocks than each free one, another
        task of its client that a free member can serve takes its place.

        :returns: the resulting head, and the number of its member; None: the
            head waits for a busy member, for at most the mean duration of a
            task.
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
        """Return the free member that holds most of a task's bytes."""
        return min(free, key=lambda one: (-self._held_bytes(one, task), one))

    def _serving(
        self, task: model.Task, free: Iterable[int], usable: Iterable[int]
    ) -> int | None:
        """Return the best free member; None if a busy one holds more."""
        best = self._best(task, free)
        held_bytes = self._held_bytes(best, task)
        has_most = all(
            self._held_bytes(one, task) <= held_bytes for one in usable
        )
        return best if has_most else None

    def _exchange(
        self, task: model.Task, free: Iterable[int], usable: Iterable[int]
    ) -> tuple[model.Task, int] | None:
        """Swap a head with a task that a free member can serve.

        :returns: that task, now the head, and its member, if there are any.
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

        :param clear: whether the member drops the blocks of other projects.
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

        :param busy_s: how long the core computed; 0: not at all.
        """
        began_s = self._began_s.pop(number, None)
        if began_s is not None and busy_s:
            self._task_s += _WEIGHT * (now - began_s - self._task_s)

    def forget(self, number: int) -> None:
        """Forget a member."""
        self._held.pop(number, None)
        self._began_s.pop(number, None)
