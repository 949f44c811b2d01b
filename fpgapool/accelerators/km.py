# SPDX-License-Identifier: Apache-2.0

"""k-means: one step of Lloyd's algorithm."""

from __future__ import annotations

import typing

import numpy

from fpgapool.accelerators import base
from fpgapool.accelerators import records

_FEATURES = 32
_CENTRES = 8


def _known() -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """Return a record near each centre, the result, and the centres."""
    centres = numpy.repeat(10 * numpy.arange(_CENTRES), _FEATURES)
    beside = centres.reshape(_CENTRES, _FEATURES) + 1
    of_centres = numpy.column_stack([beside, numpy.ones(_CENTRES)])
    result = numpy.append(of_centres, _CENTRES * _FEATURES)
    return (
        beside.astype(records.NUMBER_TYPE).tobytes(),
        result.astype(records.RESULT_TYPE).tobytes(),
        (centres.astype(records.NUMBER_TYPE).tobytes(),),
    )


class KmCore(records.BlockCore):
    """Returns, for each block, the sums of each centre's records; stateless.

    A record consists of its features, in single precision. It belongs to the
    nearest centre; of equally near ones, to the first. A result contains, for
    each centre, the sum of its records and their count, and at the end the
    inertia: the sum of the squared distances between all records of the block
    and their centres. All its numbers are double precision.

    :param params: ``features`` and ``centres``: their numbers;
        ``block_records``: 256 by default. Argument 1 contains the centres.
    """

    known_answers = (
        base.KnownAnswer(
            {
                "features": _FEATURES,
                "centres": _CENTRES,
                "block_records": _CENTRES,
            },
            *_known(),
        ),
    )
    usual_params: typing.ClassVar = {
        "features": _FEATURES,
        "centres": _CENTRES,
    }

    rows_name = "centres"
    matrix_name = "centres"

    @property
    def result_numbers(self) -> int:
        return self.rows * (self.features + 1) + 1

    def add(
        self,
        batch: records.Matrix,
        matrix: records.Matrix,
        result: records.Matrix,
    ) -> None:
        # The squared distances minus the record's square, which is the same
        # for all centres.
        distances = batch @ (-2 * matrix.T)
        distances += (matrix * matrix).sum(axis=1)
        self._compare_infinite(batch, matrix, distances)
        nearest = distances.argmin(axis=1)
        counts = numpy.bincount(nearest, minlength=self.rows)
        used = counts > 0
        # Sort the records so that those of each centre are adjacent.
        order = nearest.argsort(kind="stable")
        starts = numpy.cumsum(counts) - counts
        of_centres = result[:-1].reshape(self.rows, -1)
        of_centres[used, :-1] += numpy.add.reduceat(
            batch[order], starts[used], axis=0
        )
        of_centres[:, -1] += counts
        result[-1] += numpy.square(batch - matrix[nearest]).sum()

    @staticmethod
    def _compare_infinite(
        batch: records.Matrix,
        matrix: records.Matrix,
        distances: records.Matrix,
    ) -> None:
        """Correct infinite distances, which the matrix product gets wrong."""
        of_records = ~numpy.isfinite(batch).all(axis=1)
        of_centres = ~numpy.isfinite(matrix).all(axis=1)
        for row, centre in enumerate(matrix):
            wrong = of_records | of_centres[row]
            if wrong.any():
                apart = numpy.square(batch[wrong] - centre).sum(axis=1)
                distances[wrong, row] = apart
