# SPDX-License-Identifier: Apache-2.0

"""The earliest deadline first."""

import math
from collections import abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.strategies import base


class EdfOrdering(base.Ordering):
    """By deadline, then arrival, then id; jobs without a deadline come last.

    The most urgent job is never late, unless all are: a late job has nothing
    to gain.
    """

    deadlines_preempt = True

    def key(self, job: model.Job) -> ordered.Key:
        deadline_s = math.inf if job.deadline_s is None else job.deadline_s
        return (deadline_s, job.arrival_s, job.id)

    def most_urgent(
        self, contenders: abc.Sequence[preferences.Contender], now: float
    ) -> preferences.Contender:
        return min(
            contenders,
            key=lambda each: (now >= each.deadline_s, *self.key(each.job)),
        )
