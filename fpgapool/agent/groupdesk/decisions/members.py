# SPDX-License-Identifier: Apache-2.0

"""The slots of a group on one host, which are free, busy or leaving."""

from __future__ import annotations

import heapq

from fpgapool.agent.groupdesk.decisions import heads
from fpgapool.agent.groupdesk.decisions import holding
from fpgapool.agent.groupdesk.decisions import model


class Members:
    """The members, by their numbers.

    :ivar free: heap of the numbers of members with neither task nor lock.
    :ivar expected: number of present and future members, which limits waiting
        locks. Call :meth:`shrink` after a change.
    :ivar surplus: number of members to release as soon as they are free.
    """

    def __init__(
        self,
        waiting: heads.Heads,
        holders: holding.Holders,
        out: list[model.Decision],
    ) -> None:
        self._heads = waiting
        self._holders = holders
        self.out = out
        self.all: dict[int, model.Member] = {}
        self.free: list[int] = []
        self.expected = 0
        self.surplus = 0

    def has_free(self) -> bool:
        """Whether a member has neither task nor lock."""
        return bool(self.free)

    def join(self, number: int) -> None:
        """Add a slot that has just been programmed."""
        if number in self.all:
            raise ValueError(f"member {number} has already joined")
        self.all[number] = model.Member(number)
        heapq.heappush(self.free, number)
        self._heads.retry_blocked()

    def leave(self, number: int) -> None:
        """Release a slot: now if it is free, otherwise after its task.

        A locked member stays until the lock ends. :class:`model.Left` reports
        when the slot can be programmed again.
        """
        member = self.all.get(number)
        if member is None or member.leaving:
            return
        member.leaving = True
        self._heads.retry_blocked()
        if member.task is None and member.lock is None:
            self.take(number)
            self._leave(member)

    def shrink(self, count: int) -> None:
        """Release slots: free ones, lowest first, then the next to become
        free.

        :param count: number of slots to release; replaces an earlier call's.
        """
        self.surplus = count
        self._heads.retry_blocked()
        while self.surplus and self.free:
            self.surplus -= 1
            self._leave(self.all[heapq.heappop(self.free)])

    def lose(self, number: int) -> model.Member | None:
        """Remove and return a member that died; None if it is unknown."""
        member = self.all.pop(number, None)
        if member is None:
            return None
        self._holders.forget(number)
        self._heads.retry_blocked()
        if member.lock is None and member.task is None:
            self.take(number)
        return member

    def pop(self) -> model.Member:
        """Take the free member with the lowest number."""
        return self.all[heapq.heappop(self.free)]

    def take(self, number: int) -> None:
        self.free.remove(number)
        heapq.heapify(self.free)

    def give_back(self, member: model.Member) -> None:
        """Make a member available for other tasks, or release it."""
        if member.leaving:
            self._leave(member)
        elif self.surplus:
            self.surplus -= 1
            self._leave(member)
        else:
            heapq.heappush(self.free, member.number)

    def _leave(self, member: model.Member) -> None:
        del self.all[member.number]
        self._holders.forget(member.number)
        self.out.append(model.Left(member.number))
