# SPDX-License-Identifier: Apache-2.0

"""Adds a number to each byte."""

import numpy

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters


class SkeletonCore(base.Core):
    """Adds a number to each byte; 256 counts as 0."""

    known_answers = (base.KnownAnswer({"amount": 1}, b"HAL", b"IBM"),)

    def __init__(self, params):
        values = parameters.checked(params, required=["amount"])
        self._amount = parameters.integer(values, "amount", 0, 255)

    def process(self, chunk_in, chunk_out, offset_bytes):
        data = numpy.frombuffer(chunk_in, "u1")
        chunk_out[: len(data)] = (data + numpy.uint8(self._amount)).data
        return len(data)
