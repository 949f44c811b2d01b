# SPDX-License-Identifier: Apache-2.0

"""Replays simulations, and compares expected waits with actual ones."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from unittest import mock

from fpgapool.conductor.decisions.requests import expected_waits
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import state
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios

#: Makes what estimates the waits in a pool.
Maker = Callable[[state.PoolState], Any]


@dataclasses.dataclass(slots=True)
class Told:
    """The first answer to a session, and how long it waited."""

    wait: expected_waits.Wait
    told_s: float
    actual_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """How well the first answers of a run agree with what happened.

    :ivar mean_ratio: mean expected wait ÷ mean actual wait.
    :ivar too_short: share of sessions that waited more than twice as long.
    :ivar inside: share of sessions whose wait was in its range.
    """

    count: int
    mean_ratio: float
    too_short: float
    inside: float

    @classmethod
    def of(cls, told: Sequence[Told]) -> Score:
        def share(found: Callable[[Told], bool]) -> float:
            return statistics.fmean(map(found, told))

        return cls(
            len(told),
            sum(one.wait.expected_s for one in told)
            / sum(one.actual_s for one in told),
            share(lambda one: one.actual_s > 2 * one.wait.expected_s),
            share(
                lambda one: one.wait.low_s <= one.actual_s <= one.wait.high_s
            ),
        )


def replay(
    scenario: scenarios.Scenario,
    strategy: str,
    make: Maker = expected_waits.ExpectedWaits,
) -> list[Told]:
    """Simulate a strategy; return the first answers that were not unknown."""
    told: dict[int, Told] = {}
    done: list[Told] = []

    class Followed(state.PoolState):
        """A pool whose events and instructions also go to the estimates."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.waits = make(self)

        def apply(
            self, batch: Sequence[events.Event], now: float
        ) -> list[instructions.Instruction]:
            orders = super().apply(batch, now)
            self.waits.hear(batch, now)
            return orders

        def step(
            self, batch: Sequence[events.Event], now: float
        ) -> list[instructions.Instruction]:
            orders = super().step(batch, now)
            self.waits.obey(orders, now)
            for order in orders:
                if isinstance(order, instructions.Program):
                    one = told.pop(order.job_id, None)
                    if one is not None:
                        one.actual_s = now - one.told_s
                        done.append(one)
            for event in batch:
                if isinstance(event, events.JobSubmitted):
                    wait = self.waits.remaining(event.job.id, now)
                    if wait is not None:
                        told[event.job.id] = Told(wait, now)
            return orders

    with mock.patch.object(simulation.state, "PoolState", Followed):
        simulation.run(scenario, strategy)
    return done
