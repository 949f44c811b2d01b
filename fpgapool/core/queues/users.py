# SPDX-License-Identifier: Apache-2.0

"""Shares what a project gets between its users, by turns and a limit.

The method is start-time fair queueing, once for each priority. A user's *tag*
is the virtual time at which its last job ends: that of its start, and its
cost. A job starts at its user's tag, but not before the virtual time of the
project, which is the start of the last job that got a slot in turn. The user
whose job would start first has the turn.

A user is charged when it gets a slot, so jobs that leave the queue cost
nothing. What a user could not use is lost: its next job starts no earlier than
those of the others.

A user's tag is kept while it is later than the virtual time, which stands
still as long as new users come. So of the users that do not wait, only those
whose tags are latest are kept.
"""

import heapq
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered

#: A priority, and a user.
Rank = tuple[int, str]

# Number of tags of absent users above which they are searched for old ones.
_FEW = 64
#: How many tags of absent users a search leaves.
MOST_ABSENT = 1024
# Virtual time after which it begins anew, so that a byte still counts.
_LATEST_BYTES = 2.0**50


@native.mypyc_attr(allow_interpreted_subclasses=True)
class _Meter:
    """What one user has had at one priority.

    :ivar tag_bytes: its tag.
    :ivar place: its place among those with the same tag.
    :ivar waits: whether it has jobs of this priority that wait.
    """

    __slots__ = ("place", "tag_bytes", "waits")

    def __init__(self, tag_bytes: float) -> None:
        self.tag_bytes = tag_bytes
        self.place = 0
        self.waits = False


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Users:
    """The users of one project who wait for slots or have some.

    :ivar rule: how they share what the project gets.
    :ivar lanes: the number of lanes of their waiting jobs, urgent ones
        included; the owner of the lanes counts them.
    """

    __slots__ = (
        "_held_back",
        "_last_place",
        "_meters",
        "_order",
        "_slots",
        "_starts",
        "_swept_at",
        "_waiting",
        "lanes",
        "rule",
    )

    def __init__(self, rule: model.UserRule) -> None:
        self.rule = rule
        self.lanes = 0
        self._held_back: frozenset[str] = frozenset()
        self._last_place = 0
        self._meters: dict[Rank, _Meter] = {}
        # (-priority, tag_bytes, place, user) of those below their limits.
        self._order = ordered.SortedKeys()
        self._slots: dict[str, int] = {}
        # The virtual time of each priority.
        self._starts: dict[int, float] = {}
        self._swept_at = _FEW
        # The priorities of each user's waiting jobs.
        self._waiting: dict[str, set[int]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no user waits or has a slot."""
        return not self.lanes and not self._slots

    def slots_of(self, user: str) -> int:
        """Return how many slots a user has."""
        return self._slots.get(user, 0)

    def is_full(self, user: str) -> bool:
        """Return whether a user may get no slot.

        Groups, which belong to no user, have no limit here.
        """
        return self.is_at_limit(user) or user in self._held_back

    def is_at_limit(self, user: str) -> bool:
        """Return whether a user has as many slots as it may have."""
        limit = self.rule.slots
        return (
            limit is not None
            and bool(user)
            and self._slots.get(user, 0) >= limit
        )

    def hold_back(self, users: frozenset[str]) -> bool:
        """Give users no slots, because a set of theirs waits.

        :returns: whether there are others than before.
        """
        changed = users ^ self._held_back
        for user in changed:
            self._withdraw(user)
        self._held_back = users
        for user in changed:
            self._present(user)
        return bool(changed)

    def in_turn(self) -> abc.Iterator[Rank]:
        """Yield the users who wait below their limits, in turn.

        Those with the highest priority come first.
        """
        for key in self._order:
            yield -key[0], key[3]

    def count_before(self, rank: Rank) -> int:
        """Return how many users have their turns before one that waits.

        They are those with jobs of the same priority.
        """
        mine = self._key(rank, self._meters[rank])
        order = self._order
        return order.rank(mine) - order.rank((mine[0],))

    # -- waiting -----------------------------------------------------------

    def join(self, rank: Rank) -> None:
        """Add a user whose first job of a priority starts to wait."""
        priority, user = rank
        start_bytes = self._starts.get(priority, 0.0)
        meter = self._meters.get(rank)
        if meter is None:
            meter = self._meters[rank] = _Meter(start_bytes)
        elif meter.tag_bytes < start_bytes:
            meter.tag_bytes = start_bytes
        meter.waits = True
        self._last_place += 1
        meter.place = self._last_place
        self._waiting.setdefault(user, set()).add(priority)
        if not self.is_full(user):
            self._order.add(self._key(rank, meter))

    def leave(self, rank: Rank) -> None:
        """Remove a user whose last job of a priority stopped waiting."""
        priority, user = rank
        meter = self._meters[rank]
        if not self.is_full(user):
            self._order.remove(self._key(rank, meter))
        meter.waits = False
        priorities = self._waiting[user]
        priorities.remove(priority)
        if not priorities:
            del self._waiting[user]
        self._sweep()

    # -- slots -------------------------------------------------------------

    def give(self, rank: Rank, cost_bytes: float, *, in_turn: bool) -> None:
        """Give a user a slot, and charge it.

        :param in_turn: whether the slot is given in turn; if not, the virtual
            time does not advance.
        """
        priority, user = rank
        self._withdraw(user)
        self._slots[user] = self._slots.get(user, 0) + 1
        meter = self._meters.get(rank)
        start_bytes = self._starts.get(priority, 0.0)
        if meter is None:
            meter = self._meters[rank] = _Meter(start_bytes)
        elif meter.tag_bytes > start_bytes:
            start_bytes = meter.tag_bytes
        if in_turn and self.rule.in_turns:
            self._starts[priority] = start_bytes
        meter.tag_bytes = start_bytes + cost_bytes
        self._last_place += 1
        meter.place = self._last_place
        if self._starts.get(priority, 0.0) > _LATEST_BYTES:
            self._begin_anew(priority)
        self._present(user)

    def take_back(self, user: str) -> None:
        """Take one of a user's slots back."""
        self._withdraw(user)
        self._slots[user] -= 1
        if not self._slots[user]:
            del self._slots[user]
        self._present(user)

    def charge(self, rank: Rank, cost_bytes: float) -> None:
        """Charge a user for a slot that it holds or held."""
        if cost_bytes <= 0.0:
            return
        priority, user = rank
        meter = self._meters.get(rank)
        if meter is None:
            start_bytes = self._starts.get(priority, 0.0)
            meter = self._meters[rank] = _Meter(start_bytes)
        shown = meter.waits and not self.is_full(user)
        if shown:
            self._order.remove(self._key(rank, meter))
        meter.tag_bytes += cost_bytes
        if shown:
            self._order.add(self._key(rank, meter))

    def _begin_anew(self, priority: int) -> None:
        """Let the virtual time of a priority begin again at 0."""
        passed_bytes = self._starts.pop(priority)
        moved = [key for key in self._order if key[0] == -priority]
        for key in moved:
            self._order.remove(key)
        for rank, meter in self._meters.items():
            if rank[0] == priority:
                meter.tag_bytes -= passed_bytes
        for key in moved:
            rank = (priority, key[3])
            self._order.add(self._key(rank, self._meters[rank]))

    # -- order -------------------------------------------------------------

    def _key(self, rank: Rank, meter: _Meter) -> ordered.Key:
        tag_bytes = meter.tag_bytes if self.rule.in_turns else 0.0
        return -rank[0], tag_bytes, meter.place, rank[1]

    def _withdraw(self, user: str) -> None:
        """Take a user out of the order, before its place in it changes."""
        if user in self._waiting and not self.is_full(user):
            for priority in self._waiting[user]:
                rank = (priority, user)
                self._order.remove(self._key(rank, self._meters[rank]))

    def _present(self, user: str) -> None:
        """Put a user back into the order, unless it is at its limit."""
        if user in self._waiting and not self.is_full(user):
            for priority in self._waiting[user]:
                rank = (priority, user)
                self._order.add(self._key(rank, self._meters[rank]))

    def _sweep(self) -> None:
        """Forget absent users who owe nothing, or least, if they are many."""
        if len(self._meters) < self._swept_at:
            return
        starts = self._starts
        kept: dict[Rank, _Meter] = {}
        owed: list[tuple[float, Rank]] = []
        for rank, meter in self._meters.items():
            owed_bytes = meter.tag_bytes - starts.get(rank[0], 0.0)
            if meter.waits:
                kept[rank] = meter
            elif self.rule.in_turns and owed_bytes > 0.0:
                owed.append((owed_bytes, rank))
        for _, rank in heapq.nlargest(MOST_ABSENT, owed):
            kept[rank] = self._meters[rank]
        self._meters = kept
        self._swept_at = 2 * len(kept) + _FEW
