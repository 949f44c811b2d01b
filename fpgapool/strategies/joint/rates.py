# SPDX-License-Identifier: Apache-2.0

"""What strategies that estimate the rates of pairs have in common."""

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.vocabulary import codes

#: The least gain of a job, as a fraction of its rate.
LEAST_GAIN = 0.02


class RatesStrategy(strategy.Strategy):
    """Queues jobs by arrival; pairs of jobs and boards decide the rest."""

    wants_rates = True

    def key(self, job: model.Job) -> ordered.Key:
        return (job.arrival_s, job.id)

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        if view.record(job_id).homed:
            return (codes.WAITING_FOR_LOCAL,)
        return (codes.REMOTE_LIMIT,)
