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
                held[user] += 1
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


class Users(part.Part):
    """The users of a project take turns, and have limits of their own."""

    NAME = "users"
    HELP = "in which schedules users of a project take turns"
    # The seeds at which planted bugs are known to show are not among them,
    # but for those of users.
    SEEDS = (15, (12,))

    @classmethod
    def options(cls, _seed: int) -> dict[str, dict[str, object]]:
        return {"quota": {"sessions_per_user": _LIMIT, "user_turns": 1}}

    @classmethod
    def prepare(cls, _kernel: object) -> None:
        install()

    def __init__(self, world: run.World) -> None:
        self._world = world
        #: Sessions of sets that are larger than their users' limit.
        self._impossible: set[str] = set()
        Watcher(world.watcher).install()

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


@planting.of_part(Users.NAME)("a user has more slots than its limit")
def users_at_their_limits_get_slots() -> None:
    users.Users.is_full = (  # type: ignore[method-assign]
        lambda *_args: False
    )
