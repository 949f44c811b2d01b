# SPDX-License-Identifier: Apache-2.0

"""The sets whose turn has come, and the slots that are withheld for them."""

import collections
import contextlib
import operator
from collections import abc

from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.rules import set_places
from fpgapool.core.topology import seats
from fpgapool.core.topology import slots

# How many due sets a pass considers.
_LOOKED_AT = 8
_ORDER = operator.itemgetter(1)


class DueSets:
    """The due sets of a pool.

    :ivar waiting: the sets in the order of their turns; a dict as an ordered
        set.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        places: set_places.Places,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._places = places
        self._outcome = outcome
        self.waiting: dict[set_places.SessionSet, None] = {}
        self._withheld: list[slots.Slot] = []
        # Sets that were due and incomplete in the last pass.
        self._lacking: list[set_places.SessionSet] = []
        # In the present pass, slots that are found, and projects and users
        # without room.
        self._taken: set[model.SlotId] = set()
        self._full: set[str] = set()
        self._full_users: dict[str, set[str]] = {}

    def put_first(self, one: set_places.SessionSet) -> None:
        """Make a set due, before all others."""
        self.waiting = {one: None, **self.waiting}

    def drop(self, one: set_places.SessionSet) -> None:
        """Remove a set; the next pass gives others what was withheld."""
        if one not in self.waiting:
            return
        del self.waiting[one]
        view = self._view
        if one in self._lacking:
            self._lacking.remove(one)
        view.touched.update([slot.host.id for slot in self._withheld])
        if (
            not self.waiting
            and view.accounts is not None
            and view.accounts.hold_back(set(), {})
        ):
            view.touch_idle()
        self._outcome.pass_due = True

    # -- passes ------------------------------------------------------------

    def begin(self) -> list[set_places.SessionSet]:
        """Begin a pass.

        :returns: the sets that it considers, in turn. Projects take turns, so
            that none keeps the sets of others waiting by having many that lack
            slots.
        """
        view = self._view
        view.touched.update([slot.host.id for slot in self._withheld])
        self._withheld, self._lacking = [], []
        self._taken, self._full, self._full_users = set(), set(), {}
        counts: collections.Counter[str] = collections.Counter()
        found: list[tuple[int, int, set_places.SessionSet]] = []
        for one in self.waiting:
            if not self._is_passed(one):
                project, _ = one.key
                found.append((counts[project], len(found), one))
                counts[project] += 1
        chosen = sorted(found)[:_LOOKED_AT]
        return [one for _, _, one in sorted(chosen, key=_ORDER)]

    def collect(
        self,
        one: set_places.SessionSet,
        leaving: abc.Container[model.SlotId],
    ) -> list[slots.Slot]:
        """Find slots for a set; withhold them from others if they are too few.

        :param leaving: the slots whose holders leave soon. They may be
            withheld, so that nobody follows these holders.
        :returns: a slot for each of its jobs, or none.
        """
        view = self._view
        if not self._has_room(one):
            self._full.add(one.key[0])
            return []
        users = self._without_room(one)
        if users:
            self._full_users.setdefault(one.key[0], set()).update(users)
            return []
        chosen = self._places.choose(one, self._taken)
        found = [slot for slot in chosen if slot is not None]
        if len(found) == len(one.records) and not any(
            slot.id in leaving for slot in found
        ):
            if view.power.allows_all(found):
                return found
            # Any slot that others get may draw the power that is missing.
            found = [
                slot
                for slot in view.slots.idle_slots()
                if slot.id not in self._taken
            ]
        if one.able and not any(
            self._compete(one, other) for other in self._lacking
        ):
            # Others get no reserved slots anyway.
            found = [slot for slot in found if slot.reserved_for is None]
            self._taken.update([slot.id for slot in found])
            self._withheld += found
            self._lacking.append(one)
        return []

    def end(self) -> None:
        """End a pass: projects and users whose sets lack room get no other
        slots.
        """
        accounts = self._view.accounts
        if accounts is not None and accounts.hold_back(
            self._full, self._full_users
        ):
            self._view.touch_idle()

    @contextlib.contextmanager
    def withholding(self) -> abc.Iterator[None]:
        """Hide the withheld slots from the strategy."""
        table = self._view.slots
        for slot in self._withheld:
            table.hide(slot)
        try:
            yield
        finally:
            for slot in self._withheld:
                table.show(slot)

    def may_serve_last(self) -> bool:
        """Return whether a set is due whose project is served last."""
        accounts = self._view.accounts
        return accounts is not None and any(
            accounts.turns.get(one.key[0]) is model.Turn.LAST
            for one in self.waiting
        )

    @property
    def lacks(self) -> bool:
        """Whether a set is due, and lacks slots that others may give back."""
        return any(not self._is_passed(one) for one in self._lacking)

    def fits(self, slot_id: model.SlotId, shape: str) -> bool:
        """Return whether a set lacks slots and could have this one."""
        slot = self._view.slots.slots.get(slot_id)
        return slot is not None and any(
            any(need.fits(shape) for need in self._places.needs(one))
            and any(
                area in one.able if one.area is None else area == one.area
                for area in seats.areas(one.together.placement, [slot])
            )
            for one in self._lacking
            if not self._is_passed(one)
        )

    def _is_passed(self, one: set_places.SessionSet) -> bool:
        """Return whether it is not the turn of its project."""
        accounts = self._view.accounts
        return accounts is not None and accounts.is_passed(one.key[0])

    def _has_room(self, one: set_places.SessionSet) -> bool:
        """Return whether its project may have so many more slots."""
        accounts, limit = self._view.accounts, limit_of(self._view, one)
        return (
            accounts is None
            or limit is None
            or accounts.sessions(one.key[0]) + len(one.records) <= limit
        )

    def _without_room(self, one: set_places.SessionSet) -> list[str]:
        """Return the users of a set who may not have so many more slots."""
        limit = _user_limit(self._view, one)
        if limit is None or self._view.accounts is None:
            return []
        users = self._view.accounts.users.get(one.key[0])
        return [
            user
            for user, count in _of_users(one).items()
            if users is not None and users.slots_of(user) + count > limit
        ]

    def _compete(
        self, one: set_places.SessionSet, other: set_places.SessionSet
    ) -> bool:
        """Return whether some slot is of use to both sets."""
        return any(
            not a.shapes or not b.shapes or a.shapes & b.shapes
            for a in self._places.needs(one)
            for b in self._places.needs(other)
        )


def above_limit(
    view: pool_view.PoolView, one: set_places.SessionSet
) -> str | None:
    """Return why a set may not have so many slots; None: it may."""
    count, limit = len(one.records), limit_of(view, one)
    if limit is not None and count > limit:
        kind = "set" if one.group_id is None else "group"
        return f"the project may have {limit} slots, the {kind} needs {count}"
    limit = _user_limit(view, one)
    for user, own in _of_users(one).items():
        if limit is not None and own > limit:
            return (
                f"each user of the project may have {limit} slots, the set"
                f" needs {own} for user {user}"
            )
    return None


def limit_of(
    view: pool_view.PoolView, one: set_places.SessionSet
) -> int | None:
    """Return how many slots a set's project may have; None: no limit."""
    accounts = view.accounts
    return None if accounts is None else accounts.limit_of(one.key[0])


def _user_limit(
    view: pool_view.PoolView, one: set_places.SessionSet
) -> int | None:
    """Return how many slots each user may have; None: no limit."""
    accounts = view.accounts
    return None if accounts is None else accounts.user_rule(one.key[0]).slots


def _of_users(one: set_places.SessionSet) -> collections.Counter[str]:
    """Return how many sessions of a set each user has; groups have none."""
    return collections.Counter(
        record.job.user for record in one.records if record.job.user
    )
