# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions in a world: who opens them, and what must hold of them."""

from __future__ import annotations

import collections
import typing
from collections.abc import Iterator

from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import opening
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.world import invariants
from tests.world import schedule as schedules

check = invariants.check

#: Clients of sets have these numbers, and higher ones.
_FIRST_CLIENT = 1000


def visits_of(
    planned: schedules.Set, number: int
) -> Iterator[schedules.Visit]:
    """Yield what each client of a set does, but for those that never come.

    :param number: of the set.
    """
    for member in range(planned.size - planned.missing):
        first = member == 0
        yield schedules.Visit(
            client=_FIRST_CLIENT * (number + 1) + member,
            host=(planned.host + member) % len(schedules.SLOTS),
            project=planned.project,
            by_api=planned.by_api,
            accelerator="copy",
            conduct=planned.conduct if first else "stream",
            size_bytes=planned.size_bytes,
            data_seed=planned.data_seed + member,
            pause_s=planned.begins_s + member * planned.apart_s,
            patience_s=planned.patience_s,
            of_set=planned,
        )


class Watcher:
    """Watches the sets of a world, from outside."""

    def __init__(self, watcher: invariants.Watcher) -> None:
        self._watcher = watcher
        #: The set of each session, and how many sessions each has.
        self._set_of: dict[str, tuple[str, str]] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        #: Sessions of each leader that are single ones, as their sets have
        #: started; by identity.
        self._single: dict[int, sessions.Session] = {}

    def install(self) -> None:
        """Watch from now on, for good."""
        wrap = self._watcher.wrap
        wrap(opening.Opening, "_admit", self._admitted)
        wrap(lives.Lives, "of_record", self._restored)
        wrap(sessions.Session, "mark_ready", self._ready)
        wrap(engine.Engine, "start", self._stepped)
        wrap(engine.Engine, "process", self._stepped)
        wrap(engine.Engine, "tick", self._stepped)

    def _admitted(
        self, _none: None, room: opening.Opening, item: inputs.Open
    ) -> None:
        request = item.request
        if request.set_id is None or request.set_size is None:
            return
        key = request.project_id, request.request_id
        session = room._sessions.by_request[key]
        name = request.project_id, request.set_id
        self._set_of[session.session_id] = name
        self._sizes[name] = request.set_size

    def _restored(
        self,
        session: sessions.Session,
        _room: lives.Lives,
        record: db_api.SessionRecord,
    ) -> None:
        if record.reason != codes.SET_WAITS or record.state not in states.LIVE:
            self._single[id(session)] = session

    def _ready(
        self, _none: None, session: sessions.Session, _now: float
    ) -> None:
        self._single[id(session)] = session

    def _stepped(
        self, _effects: object, brain: engine.Engine, *_args: object
    ) -> None:
        if not self._set_of:
            return
        members = collections.defaultdict(list)
        for session in brain.pool.sessions.by_id.values():
            name = self._set_of.get(session.session_id)
            if name is not None and session.live:
                members[name].append(session)
        for name, live in members.items():
            single = [one for one in live if id(one) in self._single]
            if single:
                check(
                    len(single) == len(live),
                    "a set has begun without one of its sessions",
                    name,
                    [(one.session_id, one.state) for one in live],
                )
                continue
            held = [one for one in live if one.hold is not None]
            check(
                len(held) in (0, self._sizes[name]),
                "a set holds some of its slots",
                name,
                [(one.session_id, one.state) for one in live],
            )


def options(planned: schedules.Set) -> dict[str, typing.Any]:
    """Return the options of a session of a set."""
    return {
        "set_id": planned.name,
        "set_size": planned.size,
        "set_placement": planned.placement,
    }
