# SPDX-License-Identifier: Apache-2.0

"""Which members have which blocks, and which of them a task prefers.

Pure. A member may have evicted a block; then the task comes once more, with
the data.
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

# Of a member; it forgets the oldest ones.
_MOST_KEYS = 4096
# So many tasks of each queue are looked at for one that a free member serves …
_MOST_LOOKED_AT = 16
# … and so often another one goes before a task.
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

    :ivar due_s: when a task that waits for a member that has its blocks waits
        no longer.
    """

    def __init__(self) -> None:
        self.due_s = math.inf
        # Mean time of a task with blocks on its member.
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
        """Choose a member for the head of a queue, which has blocks.

        If a busy member has more of its blocks than each free one, another
        task of its client takes its place: one that a free member serves.

        :param task: the head.
        :param free: numbers of free members, at least one.
        :param members: all of them.
        :returns: the head as it is now, and the number of its member; None:
            the head waits for a busy one, for the mean time of a task at most.
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
        """Return the free member with most bytes of a task, or the lowest."""
        return min(free, key=lambda one: (-self._held_bytes(one, task), one))

    def _serving(
        self, task: model.Task, free: Iterable[int], usable: Iterable[int]
    ) -> int | None:
        """Return a free member; None: a usable one has more of the task."""
        best = self._best(task, free)
        held_bytes = self._held_bytes(best, task)
        has_most = all(
            self._held_bytes(one, task) <= held_bytes for one in usable
        )
        return best if has_most else None

    def _exchange(
        self, task: model.Task, free: Iterable[int], usable: Iterable[int]
    ) -> tuple[model.Task, int] | None:
        """Let a task that a free member serves have the place of a head.

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
        """A task runs on a member, which has its blocks from now on.

        :param clear: the blocks of other projects are gone.
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
        """A task has ended.

        :param busy_s: how long the core computed; 0: it did not.
        """
        began_s = self._began_s.pop(number, None)
        if began_s is not None and busy_s:
            self._task_s += _WEIGHT * (now - began_s - self._task_s)

    def forget(self, number: int) -> None:
        """A member is gone."""
        self._held.pop(number, None)
        self._began_s.pop(number, None)
