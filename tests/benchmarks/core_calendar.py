# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar: are they kept, and what do they cost others?

Random reservations are admitted, and played with the scheduling core beside
random sessions, half of which nobody can take back. A reservation is kept if
each of its slots serves a session of its project from the start on.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
import typing
from collections.abc import Iterator

from fpgapool import strategies
from fpgapool.conductor.decisions.calendar import book
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.db import calendar as stored
from fpgapool.vocabulary import reservation
from tests.benchmarks import measure
from tests.unit.core import pools

TITLE = "Reservations by calendar"
UNIT = "%"
FLOOR = "without reservations"
#: Values may be 0 or less.
DIFFERENCES = True

_MOVES = model.Accelerator("moves", 1e9, stateless=True)
_STAYS = model.Accelerator("stays", 1e9)
_HOSTS, _SLOTS = 16, 4
#: The input rate of a slot: its part of the board's pipe.
_RATE = 2.1e9 / _SLOTS
#: What ends every session, and the mean of how long they take.
_MAX_HOLD_S, _MEAN_S = 1800.0, 300.0
#: The part of the slots' time that is reserved.
_RESERVED = 0.25


@dataclasses.dataclass
class Outcome:
    """What became of it.

    :ivar kept: the number of reservations whose slots were there.
    :ivar ended: the number of others that lost slots and cannot move.
    :ivar busy: the part of the time not reserved for which slots were held.
    """

    kept: int
    ended: int
    busy: float


class Play:
    """A pool with sessions and reservations, from beginning to end.

    :param count: for how many reservations it lasts.
    :param load: of the sessions, relative to the slots that are not reserved.
    :param reserves: whether there are any.
    """

    def __init__(
        self, seed: int, count: int, load: float, *, reserves: bool = True
    ) -> None:
        self._random = random.Random(seed)
        total = _HOSTS * _SLOTS
        # Of 1 to 16 slots for ten minutes to two hours.
        mean_slot_s = 8.5 * 3900.0
        share = _RESERVED if reserves else 0.0
        self.end_s = count * mean_slot_s / _RESERVED / total
        self._rate_per_s = load * total * (1 - share) / _MEAN_S
        self._calendar = book.Calendar()
        self._slots = book.Slots({}, _MAX_HOLD_S)
        self._entries = [
            self._reserve(total) for _ in range(count if reserves else 0)
        ]
        self._ids = itertools.count()
        self._queue: list[tuple[float, int, str, typing.Any]] = []
        #: By job: until when it has to work, or how long.
        self._left_s: dict[int, float] = {}
        self._jobs: dict[int, model.Job] = {}
        self._began_s: dict[int, float] = {}
        self._owned: dict[int, stored.Reservation] = {}
        self._served: dict[str, int] = dict.fromkeys(
            (one.id for one in self._entries), 0
        )
        self._ended = 0
        self._held_s = 0.0
        self._pool = state.PoolState(strategies.wra({}, 0))
        self._pool.step(
            [
                events.AcceleratorsChanged((_MOVES, _STAYS)),
                *(
                    events.HostUp(pools.make_host(host, _SLOTS))
                    for host in range(1, _HOSTS + 1)
                ),
            ],
            0.0,
        )

    def _reserve(self, total: int) -> stored.Reservation:
        slots = frozenset(
            10 * host + number
            for host in range(1, _HOSTS + 1)
            for number in range(_SLOTS)
        )
        assert len(slots) == total
        draw = self._random
        while True:
            start_s = draw.uniform(_MAX_HOLD_S, self.end_s)
            wanted = {
                "accelerator": _MOVES.name,
                "slots": draw.randint(1, 16),
                "start_s": start_s,
                "end_s": start_s + draw.uniform(600.0, 7200.0),
            }
            entry = self._calendar.new(
                str(draw.random()),
                book.Owner("owner", ""),
                reservation.checked(wanted),
                0.0,
            )
            try:
                self._calendar.admit(entry, lambda _: slots, self._slots, 0.0)
            except admission.Rejected:
                continue
            return entry

    def run(self) -> Outcome:
        """Play it to the end of the last reservation."""
        for at, entry in enumerate(self._entries):
            for time_s in (
                entry.start_s - book.AHEAD_S - _MAX_HOLD_S,
                entry.start_s - book.AHEAD_S,
                entry.end_s,
            ):
                self._at(time_s, "calendar", None)
            self._at(entry.start_s, "owner", at)
        self._at(self._random.expovariate(self._rate_per_s), "arrival", None)
        while self._queue:
            now = self._queue[0][0]
            if now > self.end_s and not self._owned:
                break
            batch: list[events.Event] = []
            while self._queue and self._queue[0][0] == now:
                _, _, kind, what = heapq.heappop(self._queue)
                batch += getattr(self, f"_on_{kind}")(now, what)
            while batch:
                batch = list(self._obey(self._pool.step(batch, now), now))
        reserved_s = sum(
            one.slots * (min(one.end_s, self.end_s) - one.start_s)
            for one in self._entries
        )
        rest_s = self.end_s * _HOSTS * _SLOTS - reserved_s
        kept = sum(self._served[one.id] == one.slots for one in self._entries)
        return Outcome(kept, self._ended, self._held_s / rest_s)

    def _at(self, time_s: float, kind: str, what: typing.Any) -> None:
        heapq.heappush(self._queue, (time_s, next(self._ids), kind, what))

    def _on_calendar(self, now: float, _: None) -> list[events.Event]:
        return [self._calendar.event(self._slots, now)]

    def _on_owner(self, now: float, at: int) -> list[events.Event]:
        """Sessions of the owner come, and stay to the end."""
        entry = self._entries[at]
        found = []
        for _ in range(entry.slots):
            job = self._new(now, _MOVES, entry.end_s - now, "owner")
            self._owned[job.id] = entry
            found.append(events.JobSubmitted(job))
        return found

    def _on_arrival(self, now: float, _: None) -> list[events.Event]:
        if now > self.end_s:
            return []
        draw = self._random
        self._at(now + draw.expovariate(self._rate_per_s), "arrival", None)
        work_s = min(draw.expovariate(1 / _MEAN_S), _MAX_HOLD_S)
        accelerator = draw.choice((_MOVES, _STAYS))
        return [events.JobSubmitted(self._new(now, accelerator, work_s, "p"))]

    def _new(
        self,
        now: float,
        accelerator: model.Accelerator,
        work_s: float,
        project: str,
    ) -> model.Job:
        job = model.Job(
            id=next(self._ids),
            host_id=None,
            accelerator=accelerator.name,
            claimed_bytes=max(work_s, 0.001) * _RATE,
            arrival_s=now,
            project=project,
        )
        self._jobs[job.id], self._left_s[job.id] = job, work_s
        return job

    def _on_end(self, now: float, what: tuple[int, int]) -> list[events.Event]:
        slot_id, generation = what
        hold = self._pool.hold(slot_id)
        if hold is None or hold.generation != generation or hold.revoked:
            return []
        assert hold.record is not None
        self._leave(hold.record.job.id, now)
        return [events.SlotReleased(slot_id, generation)]

    def _leave(self, job_id: int, now: float) -> None:
        held_s = now - self._began_s.pop(job_id)
        self._left_s[job_id] -= held_s
        if self._owned.pop(job_id, None) is None and now <= self.end_s:
            self._held_s += held_s

    def _obey(
        self, orders: list[instructions.Instruction], now: float
    ) -> Iterator[events.Event]:
        for order in orders:
            match order:
                case instructions.Program(slot_id, job_id, generation):
                    self._began_s[job_id] = now
                    entry = self._owned.get(job_id)
                    if entry is not None and now == entry.start_s:
                        self._served[entry.id] += 1
                    self._at(
                        now + self._left_s[job_id],
                        "end",
                        (slot_id, generation),
                    )
                    yield events.HolderAttached(slot_id, generation)
                case instructions.Revoke(slot_id, job_id, generation, _):
                    self._leave(job_id, now)
                    yield events.SlotReleased(slot_id, generation)
                    job = self._jobs[job_id]
                    if job.accelerator == _STAYS.name:
                        self._ended += 1
                    else:
                        yield events.JobSubmitted(job)
                case instructions.WakeAt(time_s):
                    self._at(time_s, "wake", None)

    def _on_wake(self, now: float, _: None) -> list[events.Event]:
        return [events.Wake()]


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """What is kept, and how much of the rest others use."""
    count = 10 if plan.tiny else 500 if plan.large else 100
    for load in (0.9,) if plan.tiny else (0.9, 0.95, 2.0):
        kept, ended, used, alone = [], [], [], []
        for seed in range(plan.repetitions):
            with measure.stopwatch() as watch:
                found = Play(seed, count, load).run()
            kept.append(_sample(watch, 100.0 * found.kept / count))
            ended.append(_sample(watch, found.ended))
            used.append(_sample(watch, 100.0 * found.busy))
            with measure.stopwatch() as watch:
                found = Play(seed, count, load, reserves=False).run()
            alone.append(_sample(watch, 100.0 * found.busy))
        name = f"{count} reservations, load {load:g} beside"
        yield measure.Row(name=f"{name}: kept", unit=UNIT, samples=kept)
        yield measure.Row(
            name=f"{name}: others ended early", unit="sessions", samples=ended
        )
        yield measure.Row(
            name=f"{name}: use of the other slots",
            unit=UNIT,
            samples=used,
            floor=FLOOR,
            floor_samples=alone,
        )
        lost = [
            dataclasses.replace(one, value=without.value - one.value)
            for one, without in zip(used, alone, strict=True)
        ]
        yield measure.Row(
            name=f"{name}: points of use lost", unit="points", samples=lost
        )


def _sample(watch: measure.Stopwatch, value: float) -> measure.Sample:
    return measure.Sample(value, watch.wall_s, watch.cpu_s)
