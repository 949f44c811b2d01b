# SPDX-License-Identifier: Apache-2.0

"""Longest processing time first: the largest job first."""

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.strategies import base


class LptOrdering(base.Ordering):
    """The largest job first, then by arrival."""

    def key(self, job: model.Job) -> ordered.Key:
        return (-job.claimed_bytes, job.arrival_s, job.id)
