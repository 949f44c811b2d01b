# SPDX-License-Identifier: Apache-2.0

"""At random, for comparison."""

import hashlib
from collections import abc

import numpy

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.strategies import base


class RandomOrdering(base.Ordering):
    """A place in the queue that depends on seed and id only.

    The most urgent job is drawn anew each time, all with the same chance.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        # Its numbers are the same in all versions of numpy and, with these
        # words, those of the standard library's generator.
        self._generator = numpy.random.RandomState(
            [
                seed >> shift & 0xFFFFFFFF
                for shift in range(0, max(seed.bit_length(), 1), 32)
            ]
        )

    def key(self, job: model.Job) -> ordered.Key:
        text = f"{self.seed}:{job.id}".encode()
        drawn = hashlib.blake2b(text, digest_size=8).digest()
        # A number, as jobs that have waited for too long get -inf instead.
        return (int.from_bytes(drawn, "big"), job.id)

    def most_urgent(
        self, contenders: abc.Sequence[preferences.Contender], now: float
    ) -> preferences.Contender:
        bits = len(contenders).bit_length()
        while True:
            word = int.from_bytes(self._generator.bytes(4), "little")
            number = word >> (32 - bits)
            if number < len(contenders):
                return contenders[number]
