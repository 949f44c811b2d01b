# SPDX-License-Identifier: Apache-2.0

"""Reservations in a world: what operators reserve, and what must hold then.

A reservation is kept, or its owner is told.
"""

from __future__ import annotations

import typing
import uuid
from collections.abc import Callable
from collections.abc import Mapping

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.calendar import book as calendar_book
from fpgapool.conductor.decisions.calendar import keeping
from fpgapool.core.calendar import plan as plans
from fpgapool.core.calendar import promises
from fpgapool.db import api as db_api
from fpgapool.db import calendar as stored
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import reservation
from tests.world import invariants
from tests.world import kernel as kernels
from tests.world import part
from tests.world import planting

if typing.TYPE_CHECKING:
    from tests.world import run

check = invariants.check

#: Shorter than any real reservation, as worlds are short.
_LEAST_S = 1.0
#: A leader looks at all reservations so often, and as many decisions later
#: each is as it should be.
_LOOKED_S = 2.5
#: Until then, a new leader trusts hosts that it has not heard of.
_TRUSTED_S = 40.0

#: What operators reserve: when, under which number, and what; None: delete
#: it. Times are relative to the request.
_CHANGES: tuple[tuple[float, int, dict[str, typing.Any] | None], ...] = (
    (3.0, 1, {"project": "p1", "slots": 2, "start_s": 4.0, "end_s": 14.0}),
    (5.0, 2, {"project": "p2", "slots": 2, "start_s": 9.0, "end_s": 24.0}),
    # It does not fit.
    (6.0, 3, {"project": "p2", "slots": 6, "start_s": 4.0, "end_s": 9.0}),
    (8.0, 4, {"project": "p1", "slots": 3, "start_s": 12.0, "end_s": 20.0}),
    (12.0, 1, {"end_s": 10.0}),
    (14.0, 4, {"slots": 2}),
    (18.0, 5, {"project": "p1", "slots": 1, "start_s": 0.0, "end_s": 6.0}),
    (26.0, 2, None),
    (30.0, 6, {"project": "p2", "slots": 1, "start_s": 2.0, "end_s": 6.0}),
)


def prepare() -> None:
    """Let reservations be as short as worlds are."""
    reservation.MIN_LENGTH_S = _LEAST_S


def begin(kernel: kernels.Kernel, insist: Callable[..., None]) -> None:
    """Have operators reserve slots.

    :param insist: asks the conductor until it answers.
    """
    for at_s, number, change in _CHANGES:

        def ask(
            number: int = number,
            change: Mapping[str, typing.Any] | None = change,
        ) -> None:
            id_ = str(uuid.UUID(int=number))
            now = kernels.BEGINS_AT + kernel.now_s
            project_id, wanted = _wanted(change, now)
            insist(
                lambda conductor: conductor.set_reservation(
                    id_, wanted, project_id=project_id, exempt=True
                )
            )

        kernel.at(at_s, ask)


def _wanted(
    change: Mapping[str, typing.Any] | None, now: float
) -> tuple[str, dict[str, typing.Any] | None]:
    if change is None:
        return "", None
    wanted = dict(change)
    project_id = wanted.pop("project", "")
    for name in "start_s", "end_s":
        if name in wanted:
            wanted[name] += now
    if project_id:
        wanted |= {"accelerator": "copy", "grace_s": 6.0}
    return project_id, wanted


class Watcher:
    """Watches the reservations of a world."""

    def __init__(
        self,
        watcher: invariants.Watcher,
        rows: Callable[[], db_api.Database],
    ) -> None:
        self._watcher = watcher
        self._rows = rows
        #: When each leader began, and since when something is wrong.
        self._began_s: dict[pools.Pool, float] = {}
        self._wrong_s: dict[tuple[pools.Pool, str], float] = {}
        #: How many were seen in each state.
        self.states: dict[str, int] = dict.fromkeys(reservation.STATES, 0)

    def install(self) -> None:
        """Watch from now on, for good."""
        wrap = self._watcher.wrap
        wrap(keeping.CalendarKeeping, "restore", self._restored)
        wrap(engine.Engine, "start", self._begun)
        wrap(engine.Engine, "process", self._decided)
        wrap(engine.Engine, "tick", self._decided)

    def _restored(self, _none: None, room: keeping.CalendarKeeping) -> None:
        known = room._calendar.entries
        for entry in self._rows().calendar():
            check(
                entry.id in known,
                "a new leader has forgotten a reservation",
                entry,
            )

    def _begun(
        self, _effects: object, brain: engine.Engine, now: float
    ) -> None:
        self._began_s[brain.pool] = now

    def _decided(
        self, _effects: effects.Effects, brain: engine.Engine, *args: object
    ) -> None:
        pool, now = brain.pool, typing.cast(float, args[-1])
        self._check_plan(pool)
        for entry in pool.calendar.entries.values():
            if entry.is_over:
                continue
            self.states[entry.state] += 1
            wrong = self._wrong(pool, entry, now)
            key = pool, entry.id
            if wrong is None:
                self._wrong_s.pop(key, None)
                continue
            since_s = self._wrong_s.setdefault(key, now)
            check(now - since_s <= _LOOKED_S, wrong, entry, now)

    def _check_plan(self, pool: pools.Pool) -> None:
        """No slot is promised twice at a time."""
        taken: dict[int, list[tuple[float, float]]] = {}
        for entry in pool.calendar.entries.values():
            if entry.is_over or entry.times != 1:
                continue
            for slot_id in entry.bound:
                span = entry.start_s, entry.end_s
                for start_s, end_s in taken.get(slot_id, ()):
                    check(
                        end_s <= span[0] or span[1] <= start_s,
                        "a slot is promised twice",
                        entry,
                    )
                taken.setdefault(slot_id, []).append(span)

    def _wrong(
        self, pool: pools.Pool, entry: stored.Reservation, now: float
    ) -> str | None:
        """Return what is wrong with a reservation, if anything is."""
        state, has_begun = entry.state, entry.start_s <= now
        if has_begun != (
            state not in (reservation.SCHEDULED, reservation.AT_RISK)
        ):
            return "a reservation has not begun"
        if state not in (reservation.SCHEDULED, reservation.ACTIVE):
            # Its owner is told.
            return None
        if now < self._began_s[pool] + _TRUSTED_S:
            return None
        table = pool.core.view.slots
        owner = promises.owner_of(entry.project_id, entry.accelerator)
        for slot_id in entry.bound:
            slot = table.slots.get(slot_id)
            if slot is None or not slot.is_usable:
                return "a reservation is not kept, and its owner is not told"
            if not has_begun:
                continue
            if slot.reserved_for != owner:
                return "a reserved slot is not its owner's"
        return None


class Reservations(part.Part):
    """Operators reserve slots by calendar."""

    NAME = "reservations"
    HELP = "in which schedules slots are reserved by calendar"
    SEEDS = (5, (1,))
    #: Who was let in by its claim and stays too long has to leave.
    EXCUSED = frozenset({codes.RESERVED})

    @classmethod
    def prepare(cls, _kernel: object) -> None:
        prepare()

    def __init__(self, world: run.World) -> None:
        self._world = world
        Watcher(world.watcher, world.stored).install()

    def begin(self) -> None:
        begin(self._world.kernel, self._world.pool.insist)


_bug = planting.of_part(Reservations.NAME)


@_bug("a new leader has forgotten a reservation")
def reservations_end_with_their_leader() -> None:
    init = calendar_book.Calendar.__init__

    def forgetful(calendar: calendar_book.Calendar, _rows: object) -> None:
        init(calendar)

    calendar_book.Calendar.__init__ = forgetful  # type: ignore


@_bug("a slot is promised twice")
def promises_of_others_do_not_count() -> None:
    plans.Plan.is_free = lambda *_args: True  # type: ignore[method-assign]
