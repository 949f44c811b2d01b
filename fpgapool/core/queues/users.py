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
"""

from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered

#: A priority, and a user.
Rank = tuple[int, str]

# Number of tags of absent users above which they are searched for old ones.
_FEW = 64


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
        """Forget absent users who owe nothing, once they are many."""
        if len(self._meters) < self._swept_at:
            return
        starts = self._starts
        self._meters = {
            rank: meter
            for rank, meter in self._meters.items()
            if meter.waits
            or (
                self.rule.in_turns
                and meter.tag_bytes > starts.get(rank[0], 0.0)
            )
        }
        self._swept_at = 2 * len(self._meters) + _FEW
