# SPDX-License-Identifier: Apache-2.0

"""Chains in a run: one flow of data through the slots of all stages.

As in the pool, the scheduler sees the stages as the jobs of a set: they get
their slots at the same time, and each claims what the stage before it returns.
All keep their slots until the last result has come. When a stage loses its
slot, the flow stops until the stage has another one; the others keep theirs.
"""

from __future__ import annotations

import itertools
import typing
from collections.abc import Iterable
from collections.abc import Sequence

import msgspec

from fpgapool.sim.engines import base
from fpgapool.sim.engines import fluid
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules

#: How much of a quantum may be left after rounding.
_ROUNDED_BYTES = 0.5


class Held(typing.Protocol):
    """What the simulation keeps of a stage in its slot.

    :ivar done_bytes: the part of its input that has been computed.
    :ivar quantum_bytes: its input up to the next border.
    """

    done_bytes: int
    quantum_bytes: float


class Seat(typing.NamedTuple):
    """The slot of a stage."""

    slot: base.Slot
    peak_bytes_per_s: float
    held: Held


class _Stage:
    """A stage.

    :ivar ratio: bytes of its input per byte of the chain's input.
    :ivar seat: None: it has no slot.
    :ivar since_s: when its last stay began.
    :ivar is_over: whether the last stay ended with a run of the chain that was
        interrupted.
    """

    def __init__(self, accelerator: str, ratio: float) -> None:
        self.accelerator = accelerator
        self.ratio = ratio
        self.seat: Seat | None = None
        self.since_s = 0.0
        self.is_over = False
        self.stays: list[schedules.Stay] = []

    def end_stay(self, now: float, chain_bytes: float) -> None:
        """End its last stay, of which nothing else is kept.

        :param chain_bytes: the chain's input in it.
        """
        assert self.seat is not None
        slot = self.seat.slot
        self.stays.append(
            schedules.Stay(
                slot.host,
                slot.place,
                self.since_s,
                now,
                int(chain_bytes * self.ratio),
            )
        )
        self.since_s, self.is_over = now, False


class Chain:
    """A chain that has arrived.

    A *run* is the time from when all stages have slots until one loses its
    own, or until the end.
    """

    def __init__(
        self, job: scenarios.JobSpec, ratios: Sequence[float]
    ) -> None:
        self.job = job
        self._ratios = ratios
        self._stages = [
            _Stage(name, ratio)
            for name, ratio in zip(job.accelerators, ratios, strict=False)
        ]
        self._done_bytes = 0.0
        self._piece_bytes = 0.0
        self._flows = False
        # The present run, or the last one.
        self._runs = False
        self._began_s = 0.0
        self._began_bytes = 0.0
        self._stays: list[schedules.Stay] = []
        self._lost = 0

    def seats(self) -> list[Seat]:
        """Return the slots of all stages, in order.

        :returns: an empty list if a stage has none.
        """
        found = [one.seat for one in self._stages if one.seat is not None]
        return found if len(found) == len(self._stages) else []

    def join(self, number: int, seat: Seat, now: float) -> None:
        """Give a stage its slot.

        :param number: the stage's, from 0.
        """
        stage = self._stages[number]
        stage.seat, stage.since_s, stage.is_over = seat, now, False

    def go_on(self, engine: base.Engine, now: float) -> None:
        """Let data flow up to the next border, if all stages have slots."""
        seats = self.seats()
        if self._flows or not seats:
            return
        if not self._runs:
            self._begin_run(now)
        piece_bytes = self._left_bytes
        for seat, ratio in zip(seats, self._ratios, strict=False):
            piece_bytes = min(piece_bytes, seat.held.quantum_bytes / ratio)
        self._piece_bytes = piece_bytes
        self._flows = True
        assert isinstance(engine, fluid.FluidEngine)
        slots = [seat.slot for seat in seats]
        engine.start_route(
            slots[0].number,
            engine.pipes.route(self.job.host, slots, self._ratios),
            min(
                seat.peak_bytes_per_s / ratio
                for seat, ratio in zip(seats, self._ratios, strict=False)
            ),
            piece_bytes,
            now,
        )

    @property
    def _left_bytes(self) -> float:
        return self.job.size_bytes - self._done_bytes

    def _begin_run(self, now: float) -> None:
        for stage in self._stages:
            if stage.is_over:
                # It has kept its slot since the last run.
                stage.end_stay(now, self._done_bytes - self._began_bytes)
        self._runs = True
        self._began_s, self._began_bytes = now, self._done_bytes

    def end_piece(self) -> bool:
        """Note that the data has come to a border.

        :returns: whether it was the last one, the end.
        """
        self._flows = False
        is_last = self._piece_bytes >= self._left_bytes
        self._move(self._piece_bytes)
        return is_last

    def _move(self, moved_bytes: float) -> None:
        self._done_bytes += moved_bytes
        for stage in self._stages:
            if stage.seat is not None:
                held = stage.seat.held
                held.done_bytes = int(self._done_bytes * stage.ratio)
                held.quantum_bytes -= moved_bytes * stage.ratio
                if held.quantum_bytes < _ROUNDED_BYTES:
                    held.quantum_bytes = 0.0

    def leave(self, number: int, engine: base.Engine, now: float) -> None:
        """Take its slot from a stage; nothing flows until it has another."""
        if self._flows:
            self._flows = False
            first = self.seats()[0].slot.number
            assert isinstance(engine, fluid.FluidEngine)
            self._move(self._piece_bytes - engine.stop(first, now))
        ran_bytes = self._done_bytes - self._began_bytes
        if self._runs:
            self._runs = False
            self._stays.append(self._stay(now, ran_bytes))
            for stage in self._stages:
                stage.is_over = True
        stage = self._stages[number]
        if stage.is_over:
            # If not, it has lost its slot before the chain could go on.
            stage.end_stay(now, ran_bytes)
        stage.seat = None
        self._lost += 1

    def _stay(self, now: float, ran_bytes: float) -> schedules.Stay:
        first = self.seats()[0].slot
        return schedules.Stay(
            first.host, first.place, self._began_s, now, int(ran_bytes)
        )

    def fill_in(self, rates: typing.Any) -> None:
        """Write the rates of all stages beside that of the first one."""
        if self._flows:
            seats = self.seats()
            first = rates[seats[0].slot.number]
            for seat, ratio in zip(seats, self._ratios, strict=False):
                rates[seat.slot.number] = first * ratio

    def outcome(self, now: float) -> schedules.JobOutcome:
        """Return the result of a chain that ends now."""
        seats, job = self.seats(), self.job
        first = seats[0].slot
        return schedules.JobOutcome(
            job.id,
            self._began_s,
            now,
            first.host,
            first.place,
            first.host == job.host,
            None
            if job.deadline_s is None
            else schedules.state_at_end(now, job.deadline_at_s),
            preemptions=self._lost,
            stays=tuple(self._stays),
            stages=tuple(
                schedules.Stage(
                    stage.accelerator,
                    seat.slot.host,
                    seat.slot.place,
                    stage.since_s,
                    tuple(stage.stays),
                )
                for stage, seat in zip(self._stages, seats, strict=True)
            ),
        )


class Member(typing.NamedTuple):
    """A stage, by its number from 0."""

    chain: Chain
    stage: int


def expand(
    jobs: Iterable[scenarios.JobSpec], cluster: scenarios.Cluster
) -> tuple[list[scenarios.JobSpec], dict[int, Member]]:
    """Replace chains by the jobs of their stages.

    :param jobs: in the order of their arrivals.
    :returns: the jobs, and the stages among them by id.
    """
    jobs = list(jobs)
    if all(job.chain is None for job in jobs):
        return jobs, {}
    known = {job.id for job in jobs}
    unused = (number for number in itertools.count() if number not in known)
    made: list[scenarios.JobSpec] = []
    members: dict[int, Member] = {}
    for job in jobs:
        if job.chain is None:
            made.append(job)
            continue
        ratios = cluster.stage_ratios(job)
        chain = Chain(job, ratios)
        for stage, name in enumerate(job.chain):
            # The first one leads the set, at the place of the chain.
            stage_id = next(unused) if stage else job.id
            members[stage_id] = Member(chain, stage)
            made.append(
                msgspec.structs.replace(
                    job,
                    id=stage_id,
                    chain=None,
                    accelerator=name,
                    size_bytes=job.size_bytes * ratios[stage],
                    # Not the name of another set.
                    set_id=f"\0{job.id}",
                )
            )
    return made, members
