# SPDX-License-Identifier: Apache-2.0

"""First come, first served."""

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.strategies import base


class FifoOrdering(base.Ordering):
    """By arrival, then id."""

    def key(self, job: model.Job) -> ordered.Key:
        return (job.arrival_s, job.id)
