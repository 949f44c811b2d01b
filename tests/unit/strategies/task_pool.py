# SPDX-License-Identifier: Apache-2.0

"""A pool whose slots run the actions of groups with goals, in virtual time.

An action is never interrupted. All slots share a link, which limits their
actions per second together. Each group has actions until its goal's number.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as core_groups


class TaskPool:
    """Runs groups from the time 0 until all have ended.

    :param slot_per_s: actions/s of a slot on its own, at a time.
    :param link_per_s: actions/s of all slots together, at most.
    :ivar ends: by group, when its last action ended.
    :ivar sizes: by period, the members of each group.
    """

    def __init__(
        self,
        policy: elasticity.Policy,
        slots: int = 8,
        slot_per_s: Callable[[float], float] = lambda now: 16.6,
        link_per_s: float = math.inf,
    ) -> None:
        self.groups = core_groups.Groups(policy)
        self.groups.set_slots(frozenset(), slots)
        self.now = 0.0
        self.ends: dict[int, float] = {}
        self.sizes: list[dict[int, int]] = []
        self.rates: list[dict[int, float]] = []
        self._slot_per_s = slot_per_s
        self._link_per_s = link_per_s
        self._free = slots
        self._order = itertools.count()
        # (end, order, group, begin) of running actions.
        self._running: list[tuple[float, int, int, float]] = []
        self._left: dict[int, int] = {}
        self._idle: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._busy_s: dict[int, float] = {}
        self._counted_s = 0.0

    def add(
        self,
        group_id: int,
        goal: goals.Goal,
        *,
        actions: int | None = None,
        min_size: int = 1,
        max_size: int | None = None,
    ) -> None:
        """Add a group, whose program begins at once.

        :raises goals.Infeasible: if the policy refuses its goal.
        """
        most = max_size or 64
        spec = model.Group(
            id=group_id,
            accelerator="aes",
            size=max(min_size, 1),
            min_size=min_size,
            max_size=most,
            elastic=True,
        )
        self.groups.create(spec, self.now, goal)
        self.groups.start(group_id, self.now)
        self._left[group_id] = actions or goal.actions or 0
        self._idle[group_id] = 0
        self._ended[group_id] = 0
        self._busy_s[group_id] = 0.0

    def run(self, until_s: float = math.inf) -> None:
        """Run until a time, or until nothing is left."""
        while True:
            self._resize()
            self._move()
            self._begin_actions()
            next_s = min(
                self.groups.wake_s(),
                self._running[0][0] if self._running else math.inf,
            )
            if next_s > until_s or not self._running:
                return
            self._go_to(next_s)
            while self._running and self._running[0][0] <= self.now:
                self._end_action(heapq.heappop(self._running)[2])

    def _go_to(self, now: float) -> None:
        for _, _, group_id, _ in self._running:
            self._busy_s[group_id] += now - self._counted_s
        self.now = self._counted_s = now

    def _end_action(self, group_id: int) -> None:
        self._ended[group_id] += 1
        self._left[group_id] -= 1
        self._idle[group_id] += 1
        if not self._left[group_id]:
            self._report()
            self.ends[group_id] = self.now
            self.groups.delete(group_id, self.now)

    def _report(self) -> None:
        rates = {}
        for group_id, ended in self._ended.items():
            if group_id in self.ends:
                continue
            rates[group_id] = float(ended)
            client = events.ClientStats(
                "c", ended, ended, 1000, self._busy_s[group_id]
            )
            stats = events.TaskStats(
                group_id, 0, (client,), self._busy_s[group_id], 1
            )
            self.groups.observe(stats, self.now)
            self._ended[group_id] = 0
            self._busy_s[group_id] = 0.0
        self.rates.append(rates)

    def _resize(self) -> None:
        if self.now >= self.groups.wake_s():
            self._report()
            self.groups.resize(self.now)
            self.sizes.append(self._members())

    def _members(self) -> dict[int, int]:
        found = {}
        for group_id in self._left:
            status = self.groups.get(group_id)
            if status is not None:
                found[group_id] = status.members
        return found

    def _move(self) -> None:
        """Move free slots and idle members; programming takes no time."""
        moved = True
        while moved:
            moved = False
            for move in self.groups.moves():
                if move.donor is None and self._free:
                    self._free -= 1
                elif move.donor is not None and self._idle[move.donor]:
                    self._idle[move.donor] -= 1
                else:
                    continue
                self.groups.begin(move, self.now)
                if move.receiver is None:
                    self._free += 1
                else:
                    self.groups.joined(move.receiver, self.now)
                    self._idle[move.receiver] += 1
                moved = True
                break

    def _begin_actions(self) -> None:
        going = dict.fromkeys(self._left, 0)
        for _, _, group_id, _ in self._running:
            going[group_id] += 1
        starting = []
        for group_id, idle in self._idle.items():
            able = min(idle, self._left[group_id] - going[group_id])
            starting += [group_id] * max(able, 0)
        busy = len(starting) + len(self._running)
        for group_id in starting:
            self._idle[group_id] -= 1
            action_s = max(
                1 / self._slot_per_s(self.now), busy / self._link_per_s
            )
            entry = (
                self.now + action_s,
                next(self._order),
                group_id,
                self.now,
            )
            heapq.heappush(self._running, entry)
