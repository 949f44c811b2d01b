# SPDX-License-Identifier: Apache-2.0

"""Dynamic time warping: numpy fills the matrices of all pairs."""

from __future__ import annotations

import typing

import numpy as np
import numpy.typing as npt

from demo import workload

Numbers = npt.NDArray[np.float64]


def is_right(job: workload.Job) -> bool:
    """Compute a job's distances and compare them with its output.

    :param job: the job, done.
    :returns: whether they are equal, except for rounding.
    """
    length = typing.cast(int, job.params["length_samples"])
    window = typing.cast(int, job.params["window_samples"])
    found = np.frombuffer(job.output.read_bytes(), np.uint8)
    pairs = np.fromfile(job.source, "<f4").reshape(-1, 2, length)
    expected = distances(pairs.astype(np.float64), window)
    if found.size != expected.nbytes:
        return False
    return bool(np.allclose(found.view("<f8"), expected, rtol=1e-9, atol=0))


def distances(pairs: Numbers, window_samples: int) -> Numbers:
    """Return how far the two series of each pair are apart.

    A cell is the smallest sum of squared differences over all alignments of
    the two beginnings that end there; the cells of one place are computed
    for all pairs at once.

    :param pairs: indexed by pair, series, sample.
    :param window_samples: how far aligned samples may be apart in time.
    """
    # One sample of all pairs lies together.
    first, second = np.ascontiguousarray(pairs.transpose(1, 2, 0))
    length, count = first.shape
    beyond = np.full(count, np.inf)
    above: dict[int, Numbers] = {-1: np.zeros(count)}
    for row in range(length):
        current: dict[int, Numbers] = {}
        lowest = max(0, row - window_samples)
        for column in range(lowest, min(length, row + window_samples + 1)):
            best = np.minimum(
                above.get(column, beyond), above.get(column - 1, beyond)
            )
            best = np.minimum(best, current.get(column - 1, beyond))
            current[column] = best + (first[row] - second[column]) ** 2
        above = current
    return np.sqrt(above[length - 1])
