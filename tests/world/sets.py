# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions in a world: who opens them, and what must hold of them."""

from __future__ import annotations

import collections
import dataclasses
import random
import typing
from collections.abc import Iterator

from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import member_sets
from fpgapool.conductor.decisions.requests import opening
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core.rules import holders
from fpgapool.core.rules import set_places
from fpgapool.core.topology import slots
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.world import invariants
from tests.world import part
from tests.world import planting
from tests.world import schedule as schedules

if typing.TYPE_CHECKING:
    from tests.chaos import clients
    from tests.world import run

check = invariants.check

#: Clients of sets have these numbers, and higher ones.
_FIRST_CLIENT = 1000
#: How many sets a schedule has.
_SETS = (2, 8)
#: The placements that the pool can hold, by size.
PLACEMENTS_OF: dict[int, tuple[str | None, ...]] = {
    2: (None, *states.PLACEMENTS),
    3: (None, *states.PLACEMENTS),
    4: (None, states.SAME_BOARD, states.SAME_HOST),
}


@dataclasses.dataclass(frozen=True)
class Set:
    """Clients whose sessions get their slots at the same time.

    :ivar host: where the first of them runs, by number.
    :ivar missing: how many of them never come.
    :ivar conduct: what the first one does with its session.
    :ivar apart_s: after which each comes after the one before.
    """

    name: str
    project: int
    host: int
    by_api: bool
    size: int
    missing: int
    placement: str | None
    conduct: str
    size_bytes: int
    data_seed: int
    begins_s: float
    apart_s: float
    patience_s: float


def _sets(rng: random.Random, count: int) -> typing.Iterator[Set]:
    for number in range(count):
        size = rng.choice((2, 2, 3, 4))
        placements = PLACEMENTS_OF[size]
        yield Set(
            name=f"s{number}",
            project=rng.randrange(len(schedules.PROJECTS)),
            host=rng.randrange(len(schedules.SLOTS)),
            by_api=rng.random() < 0.2,
            size=size,
            missing=int(rng.random() < 0.15),
            placement=rng.choice(placements),
            conduct=rng.choices(("stream", "cancel", "early"), (6, 1, 1))[0],
            size_bytes=int(2 ** rng.uniform(10, 15)),
            data_seed=rng.getrandbits(32),
            begins_s=round(rng.uniform(0.0, 25.0), 3),
            apart_s=round(rng.choice((0.0, 0.01, 0.5)), 3),
            patience_s=round(rng.uniform(0.0, 3.0), 3),
        )


def visits_of(planned: Set, number: int) -> Iterator[schedules.Visit]:
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


class Sets(part.Part):
    """Clients open sets of sessions."""

    NAME = "sets"
    HELP = "which schedules have sets of sessions"
    SEEDS = (4, (1,))
    PLANS = {"sets": Set}
    #: The client of another session of the set ended, or never came.
    EXCUSED = frozenset({codes.SET_INCOMPLETE})

    @classmethod
    def draw(cls, schedule: schedules.Schedule) -> schedules.Schedule:
        rng = random.Random(f"sets {schedule.seed}")
        found = tuple(_sets(rng, rng.randint(*_SETS)))
        return schedule.having("sets", found)

    def __init__(self, world: run.World) -> None:
        self._limits_change = any(
            one.kind == "quota" for one in world.schedule.faults
        )
        self._planned: dict[int, Set] = {}
        self._visits: list[schedules.Visit] = []
        for number, planned in enumerate(world.schedule.of("sets")):
            for visit in visits_of(planned, number):
                self._visits.append(visit)
                self._planned[visit.client] = planned
        Watcher(world.watcher).install()

    def visits(self) -> list[schedules.Visit]:
        return self._visits

    def excuses(self, outcome: clients.Outcome) -> bool:
        # Its project may not have so many slots any more.
        is_above_limit = outcome.code == codes.SET_IMPOSSIBLE
        return super().excuses(outcome) or (
            is_above_limit and self._limits_change
        )

    def session_options(self, visit: schedules.Visit) -> dict[str, typing.Any]:
        planned = self._planned.get(visit.client)
        if planned is None:
            return {}
        return {
            "set_id": planned.name,
            "set_size": planned.size,
            "set_placement": planned.placement,
        }


_bug = planting.of_part(Sets.NAME)


def use_alone(
    holding: holders.Holders,
    one: set_places.SessionSet,
    ready: slots.Hold,
) -> None:
    """Let a set use a slot before its others are ready, which is a bug."""
    assert ready.record is not None
    job_id = ready.record.job.id
    one.ready.add(ready.slot_id)
    # So long, the slot is no set's.
    del holding._in_sets[job_id]
    holding.on_moved(events.SlotReady(ready.slot_id, ready.generation))
    holding._in_sets[job_id] = one
    if len(one.ready) == len(one.records):
        holding._sets.started(one)


@_bug("a set has begun without one of its sessions")
def slots_of_a_set_granted_one_by_one() -> None:
    holders.Holders._note_ready = use_alone  # type: ignore[method-assign]


@_bug("a set holds some of its slots")
def a_new_leader_knows_no_sets() -> None:
    def forgetful(_reason: str, _message: str) -> None:
        return None

    member_sets.read = forgetful


@_bug("a set has begun without one of its sessions")
def a_set_keeps_the_slots_it_has_left() -> None:
    def keep(
        holding: holders.Holders,
        one: set_places.SessionSet,
        lost: slots.Hold,
        reason: str,
    ) -> None:
        record = lost.record
        assert record is not None
        holding._release(lost)
        holding._report_requeue(lost, record, reason)
        holding._sets.let_go(one)
        holding._queue.enqueue(record)

    holders.Holders._give_back = keep  # type: ignore[method-assign]


@_bug("a set holds some of its slots")
def others_of_a_set_keep_their_slots_when_one_ends() -> None:
    def keep(holding: holders.Holders, one: set_places.SessionSet) -> None:
        holding._sets.let_go(one)

    holders.Holders._dissolve = keep  # type: ignore[method-assign]
