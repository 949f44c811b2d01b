# SPDX-License-Identifier: Apache-2.0

"""At random, for comparison."""

import hashlib

import numpy

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.strategies import base


class RandomOrdering(base.Ordering):
    """A place in the queue that depends on seed and id only.

    Urgency is drawn anew at each decision.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generator = numpy.random.default_rng(seed)

    def key(self, job: model.Job) -> ordered.Key:
        text = f"{self.seed}:{job.id}".encode()
        return (hashlib.blake2b(text, digest_size=8).digest(), job.id)

    def urgency(
        self, contender: preferences.Contender, now: float
    ) -> ordered.Key:
        return (float(self._generator.random()), contender.job.id)
