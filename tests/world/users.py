# SPDX-License-Identifier: Apache-2.0

"""Users of projects in a world: their limits and turns, and what must hold."""

from __future__ import annotations

import collections
import socket
import typing

from fpgapool.common.channels import descriptors
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core.queues import users
from fpgapool.vocabulary import codes
from tests.world import invariants
from tests.world import part
from tests.world import planting

if typing.TYPE_CHECKING:
    from tests.chaos import clients
    from tests.world import run
    from tests.world import schedule as schedules

check = invariants.check

#: Each project has so many users on hosts, and one more in the REST API.
_USERS = 3
_FIRST_UID = 1000
_LIMIT = 2
#: Parts with which users who wait do not all wait for the same slots: sessions
#: that take slots from others have strategies of their own, and who could not
#: leave a slot before it is reserved does not get it.
_UNEVEN = frozenset({"preemption", "reservations"})
#: Virtual times are as exact as that.
_ROUNDING_BYTES = 1.0


def install() -> None:
    """Let the programs on hosts be of several users, for good."""
    peer = descriptors.peer

    def of_some_user(sock: socket.socket) -> tuple[int, int]:
        pid, _uid = peer(sock)
        return pid, _FIRST_UID + pid % _USERS

    descriptors.peer = of_some_user


class Watcher:
    """Watches the users of projects, from outside."""

    def __init__(self, watcher: invariants.Watcher) -> None:
        self._watcher = watcher
        #: The generations of slots that each leader has given.
        self._seen: dict[pools.Pool, set[int]] = {}

    def install(self) -> None:
        """Watch from now on, for good."""
        wrap = self._watcher.wrap
        wrap(engine.Engine, "start", self._begun)
        wrap(engine.Engine, "process", self._decided)
        wrap(engine.Engine, "tick", self._decided)

    def _begun(
        self, _effects: object, brain: engine.Engine, _now: float
    ) -> None:
        self._seen[brain.pool] = {
            hold.generation for hold in brain.pool.holds.with_successors()
        }

    def _decided(
        self, _effects: object, brain: engine.Engine, *_args: object
    ) -> None:
        seen = self._seen[brain.pool]
        held = collections.Counter[tuple[str, str]]()
        new: list[tuple[str, str]] = []
        for leaving in brain.pool.holds.values():
            # Who has a successor leaves its slot, which counts no longer.
            hold = leaving.successor or leaving
            if isinstance(hold, sessions.SessionHold):
                user = hold.session.project_id, hold.session.user_id
                # The core decides as if who leaves soon had left.
                held[user] += not hold.tries
                if hold.generation not in seen:
                    seen.add(hold.generation)
                    new.append(user)
        for user in new:
            check(
                held[user] <= _LIMIT,
                "a user has more slots than its limit",
                user,
                held[user],
            )


def _refuses_nobody(seed: int) -> bool:
    """Return whether the strategy is one that gives any slot to any job.

    Others let users pass who would have their turn.
    """
    return seed % 2 == 0


class _User:
    """What one user of a project has had, and since when it could have more.

    :ivar had_bytes: at each priority: the claims of its slots, and what slots
        cost beyond.
    :ivar owed_bytes: the part of it that it did not get in turn.
    :ivar largest_bytes: its largest claim.
    :ivar able: what everybody had had when it began to wait below its limit,
        by the priorities at which it does.
    :ivar behind: the priorities at which its tag may be before the virtual
        time, as it was at its limit meanwhile: until its next slot, what its
        slots cost beyond their claims does not delay it.
    """

    def __init__(self) -> None:
        self.slots = 0
        self.waits: set[int] = set()
        self.had_bytes: collections.Counter[int] = collections.Counter()
        self.owed_bytes: collections.Counter[int] = collections.Counter()
        self.largest_bytes = 0.0
        self.able: dict[int, dict[str, float]] = {}
        self.behind: set[int] = set()


class _Project:
    """The users of one project, by what they are told, at one leader."""

    def __init__(self) -> None:
        self.users: dict[str, _User] = collections.defaultdict(_User)
        self.held_back: frozenset[str] = frozenset()

    def changed(self, known: users.Users, name: str) -> None:
        """Note that a user may be able to get slots, or not any more."""
        user, limit = self.users[name], known.rule.slots
        is_full = limit is not None and bool(name) and user.slots >= limit
        may = set() if is_full or name in self.held_back else user.waits
        for priority in user.able.keys() - may:
            del user.able[priority]
        user.behind |= user.waits - may
        for priority in may - user.able.keys():
            user.able[priority] = {
                other: one.had_bytes[priority]
                for other, one in self.users.items()
            }

    def ahead(self, rank: users.Rank) -> typing.Iterator[tuple[str, float]]:
        """Yield by how much a user is ahead of its fellows beyond the bound.

        :param rank: the user, which gets a slot in turn.
        """
        priority, name = rank
        has_bytes = self.users[name].had_bytes[priority]
        for other, fellow in self.users.items():
            before = fellow.able.get(priority)
            # Groups wait for other things as well.
            if other not in ("", name) and before is not None:
                got_bytes = has_bytes - before.get(name, 0.0)
                own_bytes = fellow.had_bytes[priority] - before[other]
                # It may have had its turn just before it began to wait, and
                # what it got besides counts as well.
                bound_bytes = (
                    fellow.largest_bytes + fellow.owed_bytes[priority]
                )
                yield other, got_bytes - own_bytes - bound_bytes


class TurnsWatcher:
    """Watches that users who wait get slots in their turns.

    It knows neither tags nor virtual times: while two users wait for the same
    slots, neither is ahead by more than one claim, and what it was owed.
    """

    def __init__(self, watcher: invariants.Watcher) -> None:
        self._watcher = watcher
        self._projects: dict[users.Users, _Project] = {}
        #: How often one got a slot in turn while another one waited.
        self.compared = 0

    def install(self) -> None:
        """Watch from now on, for good."""
        wrap = self._watcher.wrap
        wrap(users.Users, "__init__", self._made)
        wrap(users.Users, "hold_back", self._held_back)
        wrap(users.Users, "join", self._joined)
        wrap(users.Users, "leave", self._left)
        wrap(users.Users, "give", self._given)
        wrap(users.Users, "take_back", self._taken_back)
        wrap(users.Users, "charge", self._charged)

    def _made(self, _none: None, known: users.Users, *_args: object) -> None:
        # Copies, of which nobody hears, are made otherwise.
        self._projects[known] = _Project()

    def _held_back(
        self, _changed: bool, known: users.Users, names: frozenset[str]
    ) -> None:
        if (project := self._projects.get(known)) is not None:
            changed = project.held_back ^ names
            project.held_back = names
            for name in sorted(changed):
                project.changed(known, name)

    def _joined(
        self, _none: None, known: users.Users, rank: users.Rank
    ) -> None:
        if (project := self._projects.get(known)) is not None:
            user = project.users[rank[1]]
            user.waits.add(rank[0])
            user.behind.discard(rank[0])
            project.changed(known, rank[1])

    def _left(self, _none: None, known: users.Users, rank: users.Rank) -> None:
        if (project := self._projects.get(known)) is not None:
            project.users[rank[1]].waits.discard(rank[0])
            project.changed(known, rank[1])

    def _given(
        self,
        _none: None,
        known: users.Users,
        rank: users.Rank,
        cost_bytes: float,
        *,
        in_turn: bool,
    ) -> None:
        project = self._projects.get(known)
        if project is None:
            return
        priority, name = rank
        if in_turn:
            for other, excess_bytes in project.ahead(rank):
                self.compared += 1
                check(
                    excess_bytes <= _ROUNDING_BYTES,
                    "a user gets slots in the turns of another one",
                    rank,
                    other,
                    excess_bytes,
                )
        user = project.users[name]
        user.behind.discard(priority)
        user.slots += 1
        user.had_bytes[priority] += cost_bytes
        user.largest_bytes = max(user.largest_bytes, cost_bytes)
        if not in_turn:
            user.owed_bytes[priority] += cost_bytes
        project.changed(known, name)

    def _taken_back(self, _none: None, known: users.Users, name: str) -> None:
        if (project := self._projects.get(known)) is not None:
            project.users[name].slots -= 1
            project.changed(known, name)

    def _charged(
        self,
        _none: None,
        known: users.Users,
        rank: users.Rank,
        cost_bytes: float,
    ) -> None:
        project = self._projects.get(known)
        if project is not None and cost_bytes > 0.0:
            user = project.users[rank[1]]
            if rank[0] not in user.behind:
                user.had_bytes[rank[0]] += cost_bytes
            user.owed_bytes[rank[0]] += cost_bytes


class Users(part.Part):
    """The users of a project take turns, and have limits of their own."""

    NAME = "users"
    HELP = "in which schedules users of a project take turns"
    # The seeds at which planted bugs are known to show are not among them,
    # but for those of users.
    SEEDS = (15, (12,))

    @classmethod
    def options(cls, seed: int) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {
            "quota": {"sessions_per_user": _LIMIT, "user_turns": 1}
        }
        if _refuses_nobody(seed):
            found["conductor"] = {"strategy": "fifo"}
        return found

    @classmethod
    def prepare(cls, _kernel: object) -> None:
        install()

    def __init__(self, world: run.World) -> None:
        self._world = world
        #: Sessions of sets that are larger than their users' limit.
        self._impossible: set[str] = set()
        Watcher(world.watcher).install()
        self._turns = TurnsWatcher(world.watcher)
        if _refuses_nobody(world.schedule.seed) and not _UNEVEN.intersection(
            world.schedule.parts
        ):
            self._turns.install()

    def facts(self) -> dict[str, object]:
        return {"turns_compared": self._turns.compared}

    def visited(
        self, visit: schedules.Visit, outcome: clients.Outcome
    ) -> None:
        options = [one.session_options(visit) for one in self._world.parts]
        if any(one.get("set_size", 0) > _LIMIT for one in options):
            self._impossible.add(outcome.session_id)

    def excuses(self, outcome: clients.Outcome) -> bool:
        return (
            outcome.code == codes.SET_IMPOSSIBLE
            and outcome.session_id in self._impossible
        )


_bug = planting.of_part(Users.NAME)


@_bug("a user has more slots than its limit")
def users_at_their_limits_get_slots() -> None:
    users.Users.is_full = (  # type: ignore[method-assign]
        lambda *_args: False
    )


@_bug("a user gets slots in the turns of another one")
def slots_of_a_user_cost_it_nothing() -> None:
    key = users.Users._key

    def free(
        known: users.Users, rank: users.Rank, meter: users._Meter
    ) -> tuple[typing.Any, ...]:
        priority, _tag_bytes, _place, name = key(known, rank, meter)
        return priority, 0.0, 0, name

    users.Users._key = free  # type: ignore[method-assign]
