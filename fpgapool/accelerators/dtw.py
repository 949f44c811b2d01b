# SPDX-License-Identifier: Apache-2.0

"""Dynamic time warping: the distance between two series."""

from __future__ import annotations

import collections.abc
import typing

import numpy

# Import the compiled part explicitly: without it, the library would use loops
# in Python, which are thousands of times slower.
from dtaidistance import dtw_cc

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

DTYPES: dict[str, numpy.dtype[numpy.floating]] = {
    "float32": numpy.dtype("<f4"),
    "float64": numpy.dtype("<f8"),
}
RESULT_TYPE = numpy.dtype("<f8")
#: Limits a pair to one mebibyte.
MAX_LENGTH_SAMPLES = 1 << 16
#: Limits the time of one pair, which cannot be interrupted, to about half a
#: second.
MAX_CELLS = 1 << 27


class DtwCore(base.Core):
    """Returns one distance for each pair of series, stateless.

    The distance is the root of the smallest sum of squared differences over
    all monotonic alignments of the two series.

    :param params: ``length_samples``: samples in each series; ``dtype``:
        ``float32`` (the default) or ``float64``; ``window_samples``: how far
        apart in time aligned samples may be, unlimited if missing.
    """

    # Four differences of 1: the root of their sum is 2.
    known_answers = (
        base.KnownAnswer(
            {"length_samples": 4, "dtype": "float32"},
            numpy.array([0, 0, 0, 0, 1, 1, 1, 1], "<f4").tobytes(),
            numpy.array([2], "<f8").tobytes(),
        ),
    )
    usual_params: typing.ClassVar = {"length_samples": 128}
    rounding = ("<f8", 1e-12)

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(
            params,
            ("length_samples",),
            {"dtype": "float32"},
            ("window_samples",),
        )
        self._length_samples = parameters.integer(
            values, "length_samples", 1, MAX_LENGTH_SAMPLES
        )
        self._dtype = DTYPES[parameters.choice(values, "dtype", list(DTYPES))]
        window_samples = self._length_samples
        if "window_samples" in values:
            window_samples = parameters.integer(
                values, "window_samples", 0, MAX_LENGTH_SAMPLES
            )
        self._refuse_large(window_samples)
        # The library also counts the diagonal.
        self._library_window = min(window_samples, self._length_samples) + 1
        self._cancelled = False

    def _refuse_large(self, window_samples: int) -> None:
        breadth = min(self._length_samples, 2 * window_samples + 1)
        if self._length_samples * breadth > MAX_CELLS:
            raise base.InvalidParams(
                "a pair needs too many comparisons: 'length_samples' times "
                f"(2 'window_samples' + 1) exceeds {MAX_CELLS}"
            )

    @property
    def chunk_multiple_bytes(self) -> int:
        """Length of a pair of series."""
        return 2 * self._length_samples * self._dtype.itemsize

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        base.require_whole(
            len(chunk_in), self.chunk_multiple_bytes, "pair of series"
        )
        pairs = numpy.frombuffer(chunk_in, self._dtype).reshape(
            -1, 2, self._length_samples
        )
        output_bytes = len(pairs) * RESULT_TYPE.itemsize
        results = numpy.frombuffer(chunk_out[:output_bytes], RESULT_TYPE)
        for number, pair in enumerate(pairs):
            if self._cancelled:
                return 0
            # Copied because the library requires native byte order.
            first, second = pair.astype(numpy.float64)
            results[number] = dtw_cc.distance(
                first, second, window=self._library_window
            )
        return output_bytes

    def max_output_bytes(self, input_bytes: int) -> int:
        pairs = input_bytes // self.chunk_multiple_bytes
        return pairs * RESULT_TYPE.itemsize

    def cancel(self) -> None:
        self._cancelled = True
