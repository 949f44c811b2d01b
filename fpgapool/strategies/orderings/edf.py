# SPDX-License-Identifier: Apache-2.0

"""The earliest deadline first."""

import math

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.strategies import base


class EdfOrdering(base.Ordering):
    """By deadline, then arrival, then id; jobs without a deadline come last.

    By urgency, jobs that are late come even after these: they can no longer
    gain anything.
    """

    def key(self, job: model.Job) -> ordered.Key:
        deadline_s = math.inf if job.deadline_s is None else job.deadline_s
        return (deadline_s, job.arrival_s, job.id)

    def urgency(
        self, contender: preferences.Contender, now: float
    ) -> ordered.Key:
        return (now >= contender.deadline_s, *self.key(contender.job))
