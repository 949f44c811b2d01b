# SPDX-License-Identifier: Apache-2.0

"""Which members have which blocks, and which of them a task prefers.

Pure. A member may have evicted a block; then the task comes once more, with
the data.
"""

from __future__ import annotations

import collections
import math
import typing
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.agent.groupdesk import model

# Of a member; it forgets the oldest ones.
_MOST_KEYS = 4096
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
        free: Iterable[int],
        members: Mapping[int, model.Member],
        now: float,
    ) -> int | None:
        """Choose a member for a task with blocks.

        :param task: the head of its queue.
        :param free: numbers of free members, at least one.
        :param members: all of them.
        :returns: its number; None: the task waits for one that is busy, for
            the mean time of a task at most.
        """
        best = min(free, key=lambda one: (-self._held_bytes(one, task), one))
        most = max(
            self._held_bytes(number, task)
            for number, member in members.items()
            if number == best or not (member.leaving or member.lock)
        )
        if task.waits_until_s is None:
            task.waits_until_s = now + self._task_s
        if self._held_bytes(best, task) < most and now < task.waits_until_s:
            self.due_s = min(self.due_s, task.waits_until_s)
            return None
        return best

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
