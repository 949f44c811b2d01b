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
from tests.world import driver
from tests.world import invariants
from tests.world import kernel as kernels
from tests.world import part
from tests.world import planting

if typing.TYPE_CHECKING:
    from fpgapool.rpcapi import conductor as conductor_rpcapi
    from tests.world import run

check = invariants.check

#: Shorter than any real reservation, as worlds are short.
_LEAST_S = 1.0
#: So long before the start others leave; shorter, too, so that there is a time
#: before in which slots go only to who ends by then.
_AHEAD_S = 2.0
#: A leader looks at all reservations so often, and as many decisions later
#: each is as it should be.
_LOOKED_S = 2.5
#: Until then, a new leader trusts hosts that it has not heard of.
_TRUSTED_S = 40.0
#: Who is let in by its claim would be done in a part of the time.
_SLACK = 2.0

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


class Promised:
    """What operators have been told that is reserved, by id.

    :ivar until_s: the end of each reservation that nobody has given up.
    :ivar told_s: when an operator was told of it.
    """

    def __init__(self) -> None:
        self.until_s: dict[str, float] = {}
        self.told_s: dict[str, float] = {}

    def begin(
        self, kernel: kernels.Kernel, insist: Callable[..., None]
    ) -> None:
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
                self._asked(id_, wanted)

                def call(conductor: conductor_rpcapi.ConductorAPI) -> None:
                    conductor.set_reservation(
                        id_, wanted, project_id=project_id, exempt=True
                    )
                    self._answered(
                        id_, wanted, kernels.BEGINS_AT + kernel.now_s
                    )

                insist(call)

            kernel.at(at_s, ask)

    def _asked(
        self, id_: str, wanted: Mapping[str, typing.Any] | None
    ) -> None:
        """Promise no more than it has before and after a change."""
        if wanted is None:
            self.until_s.pop(id_, None)
        elif id_ in self.until_s and "end_s" in wanted:
            self.until_s[id_] = min(self.until_s[id_], wanted["end_s"])

    def _answered(
        self, id_: str, wanted: Mapping[str, typing.Any] | None, now: float
    ) -> None:
        if wanted is not None and "end_s" in wanted:
            self.until_s[id_] = wanted["end_s"]
            self.told_s.setdefault(id_, now)


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
        promised: Promised,
    ) -> None:
        self._watcher = watcher
        self._rows = rows
        self._promised = promised
        #: When each leader began, and when it decided last.
        self._began_s: dict[pools.Pool, float] = {}
        self._decided_s: dict[pools.Pool, float] = {}
        #: Since when something is wrong at a leader, by reservation.
        self._wrong_s: dict[pools.Pool, dict[str, float]] = {}
        #: By what a clock says, which may be ahead.
        self._latest_s = 0.0
        #: The states that owners were told.
        self._told: dict[pools.Pool, dict[str, str]] = {}
        #: The latest assignment that each pool has made.
        self._assigned: dict[pools.Pool, int] = {}
        #: When slots were to be given up, before the latest decisions.
        self._leaves_s: dict[pools.Pool, dict[int, float]] = {}
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
        self, effects: effects.Effects, brain: engine.Engine, now: float
    ) -> None:
        pool = brain.pool
        self._began_s[pool] = self._decided_s[pool] = now
        self._wrong_s[pool] = {}
        self._told[pool] = {
            entry.id: entry.state for entry in self._rows().calendar()
        }
        self._check_told(effects, pool)
        self._note_assigned(pool)

    def _decided(
        self, effects: effects.Effects, brain: engine.Engine, *args: object
    ) -> None:
        pool, now = brain.pool, typing.cast(float, args[-1])
        self._latest_s = max(self._latest_s, now)
        self._check_plan(pool)
        self._check_promised(pool)
        self._check_told(effects, pool)
        self._check_assigned(pool, now)
        self._note_assigned(pool)
        wrong_s = self._wrong_s[pool]
        if now - self._decided_s[pool] > _LOOKED_S:
            # It stood still, and what came meanwhile is decided before it
            # looks again.
            wrong_s.clear()
        self._decided_s[pool] = now
        for entry in pool.calendar.live():
            self.states[entry.state] += 1
            wrong = self._wrong(pool, entry, now)
            if wrong is None:
                wrong_s.pop(entry.id, None)
                continue
            since_s = wrong_s.setdefault(entry.id, now)
            check(now - since_s <= _LOOKED_S, wrong, entry, now)

    def _check_promised(self, pool: pools.Pool) -> None:
        """What was promised is there until its end."""
        live = {entry.id for entry in pool.calendar.live()}
        for id_, until_s in self._promised.until_s.items():
            check(
                id_ in live
                # Who leads no more does not know yet what another promised.
                or (
                    self._began_s[pool] <= self._promised.told_s[id_]
                    and id_ not in self._told[pool]
                )
                or self._latest_s >= until_s,
                "a reservation is gone before its end",
                id_,
            )

    def _check_told(self, wanted: effects.Effects, pool: pools.Pool) -> None:
        """A new state is written, which makes a notification."""
        told = self._told[pool]
        for row in wanted.changes.rows(db_api.ReservationRecord):
            entry = stored.read(row) if stored.is_of_calendar(row) else None
            if entry is not None:
                told[entry.id] = entry.state
        for entry in pool.calendar.entries.values():
            check(
                told.get(entry.id) == entry.state,
                "an owner does not hear of its reservation's state",
                entry,
            )

    def _note_assigned(self, pool: pools.Pool) -> None:
        """Note until when slots are free, and who has them already."""
        self._assigned[pool] = pool.core.view.next_generation
        self._leaves_s[pool] = _leaves_s(pool)

    def _check_assigned(self, pool: pools.Pool, now: float) -> None:
        """Who gets a slot that is reserved later can leave it in time."""
        view, before = pool.core.view, self._leaves_s[pool]
        for slot_id, leaves_s in _leaves_s(pool).items():
            hold = view.slots.assignments.get(slot_id)
            if (
                hold is None
                or before.get(slot_id) != leaves_s
                or hold.generation < self._assigned[pool]
                or hold.record is None
                or hold.slot is None
                or hold.group_id is not None
                or view.is_stateless(hold.accelerator)
                or leaves_s <= now
            ):
                continue
            job = hold.record.job
            needed_s = _SLACK * job.claimed_bytes / driver.BYTES_PER_S
            check(
                now + needed_s <= leaves_s,
                "a slot is given to a session that stays too long",
                hold,
                leaves_s,
            )

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
        trusts = now < self._began_s[pool] + _TRUSTED_S
        table = pool.core.view.slots
        owner = promises.owner_of(entry.project_id, entry.accelerator)
        for slot_id in entry.bound:
            slot = table.slots.get(slot_id)
            if trusts and (slot is None or not slot.host.up):
                continue
            if slot is None or not slot.is_usable:
                return "a reservation is not kept, and its owner is not told"
            if not has_begun:
                continue
            if slot.reserved_for != owner:
                return "a reserved slot is not its owner's"
        return None


def _leaves_s(pool: pools.Pool) -> dict[int, float]:
    """Return when others have to leave slots that are reserved."""
    found: dict[int, float] = {}
    for entry in pool.calendar.live():
        at_s = entry.start_s - calendar_book.AHEAD_S
        for slot_id in entry.bound:
            found[slot_id] = min(found.get(slot_id, at_s), at_s)
    return found


class Reservations(part.Part):
    """Operators reserve slots by calendar."""

    NAME = "reservations"
    HELP = "in which schedules slots are reserved by calendar"
    SEEDS = (5, (1,))
    #: Who was let in by its claim and stays too long has to leave.
    EXCUSED = frozenset({codes.RESERVED})

    @classmethod
    def prepare(cls, _kernel: object) -> None:
        reservation.MIN_LENGTH_S = _LEAST_S
        calendar_book.AHEAD_S = _AHEAD_S

    def __init__(self, world: run.World) -> None:
        self._world = world
        self._promised = Promised()
        Watcher(world.watcher, world.stored, self._promised).install()

    def begin(self) -> None:
        self._promised.begin(self._world.kernel, self._world.pool.insist)


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


@_bug("a reservation is gone before its end")
def a_new_leader_takes_what_runs_for_over() -> None:
    restore = keeping.CalendarKeeping.restore

    def forgetful(room: keeping.CalendarKeeping) -> None:
        for entry in room._calendar.live():
            if entry.state == reservation.ACTIVE:
                room._calendar.end(entry, room._clock.now)
                room._outbox.write(stored.row(entry))
        restore(room)

    keeping.CalendarKeeping.restore = forgetful  # type: ignore


@_bug("a slot is given to a session that stays too long")
def claims_do_not_count_before_a_reservation() -> None:
    promises.Promises.allows = lambda *_args: True  # type: ignore


@_bug("an owner does not hear of its reservation's state")
def a_board_that_fails_is_not_told_of() -> None:
    keeping._durable = lambda entry: (entry.bound, entry.start_s)
