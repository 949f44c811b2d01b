# SPDX-License-Identifier: Apache-2.0

"""Shortest job first."""

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.strategies import base


class SjfOrdering(base.Ordering):
    """By claimed bytes, then arrival, then id."""

    def key(self, job: model.Job) -> ordered.Key:
        return (job.claimed_bytes, job.arrival_s, job.id)
