# SPDX-License-Identifier: Apache-2.0

"""Pairs jobs and boards by work, waiting time, expected rate and programming.

Until no pair is allowed, the strategy takes the pair of a job and a board with
the smallest score, which is the job's work per rate. Waiting lowers the score,
in proportion to the time that the job takes; programming a slot raises it, the
more jobs wait. Only ratios of sizes and times matter, so it needs no tuning
for the sizes of a pool's jobs.

Of each kind of jobs only the first one competes: the one with the least work.
"""

import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.strategies.joint import auto_options
from fpgapool.strategies.joint import candidates
from fpgapool.strategies.joint import pairs
from fpgapool.strategies.joint import rates as rates_strategy

AutoOptions = auto_options.AutoOptions

# The strategy looks again after at least this time, so that tiny jobs do not
# keep the pool busy with looking.
_LEAST_LOOK_S = 0.01


class AutoStrategy(rates_strategy.RatesStrategy):
    """Takes the allowed pair with the smallest score until none is left.

    Equal pairs are ordered as :class:`~.era.EraStrategy` orders them.
    """

    def __init__(self, options: AutoOptions) -> None:
        self.options = options

    def patience_s(self, job: model.Job) -> float | None:
        return self.options.leave_s_per_byte * job.claimed_bytes

    def make_kinds(self, loads: pipe_loads.Loads) -> candidates.Candidates:
        return candidates.Candidates(loads, self.options)

    def look_again_s(self, view: pool_view.PoolView) -> float | None:
        kinds = typing.cast(candidates.Candidates, view.kinds)
        return max(
            self.options.look_again * kinds.mean_service_s, _LEAST_LOOK_S
        )

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        while view.slots.idle_total and view.waiting_count:
            choice = pairs.Decision(self.options, view, now).make()
            if choice is None:
                return
            yield choice
