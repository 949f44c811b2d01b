# SPDX-License-Identifier: Apache-2.0

"""Least squares without negative values, by Lawson and Hanson.

C. L. Lawson and R. J. Hanson, *Solving Least Squares Problems*, chapter 23.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]


def solve(A: npt.ArrayLike, b: npt.ArrayLike) -> tuple[_Floats, float]:
    """Find t >= 0 that makes the length of A·t − b least.

    :param A: m rows and n columns.
    :param b: m values.
    :returns: t, with n values, and that length. If several t are equally
        good, one of them.
    :raises ValueError: if the shapes do not match, or a value is not finite.
    """
    matrix = np.asarray(A, dtype=np.float64)
    values = np.asarray(b, dtype=np.float64)
    if matrix.ndim != 2 or values.shape != matrix.shape[:1]:
        raise ValueError(
            f"A needs m rows and b m values, not {matrix.shape} and "
            f"{values.shape}"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(values).all()):
        raise ValueError("A and b must be finite")
    # Columns of one length make one tolerance right for all.
    lengths = np.sqrt((matrix**2).sum(axis=0))
    scale = np.where(lengths > 0, lengths, 1.0)
    found = _solve(matrix / scale, values) / scale
    return found, float(np.linalg.norm(matrix @ found - values))


def _solve(matrix: _Floats, values: _Floats) -> _Floats:
    count = matrix.shape[1]
    found = np.zeros(count)
    free = np.zeros(count, dtype=bool)
    # Whether a column has just turned out not to help, by rounding alone.
    useless = np.zeros(count, dtype=bool)
    tolerance = (
        10 * np.finfo(float).eps * max(matrix.shape) * np.linalg.norm(values)
    )
    # Each round lowers the error, so that no set of free columns comes twice.
    # The bound is for rounding errors only.
    for _ in range(10 * count):
        gain = matrix.T @ (values - matrix @ found)
        gain[free | useless] = -np.inf
        if not count or gain.max() <= tolerance:
            break
        best = int(gain.argmax())
        free[best] = True
        trial = _least_squares(matrix, values, free)
        if trial[best] <= 0:
            free[best] = False
            useless[best] = True
            continue
        useless[:] = False
        found = _reach(matrix, values, found, free, trial)
    return found


def _reach(
    matrix: _Floats,
    values: _Floats,
    found: _Floats,
    free: npt.NDArray[np.bool_],
    trial: _Floats,
) -> _Floats:
    """Go from a solution to a better one, and stop where a value becomes 0.

    :param free: the columns that may differ from 0; those that become 0 are
        taken out.
    """
    while (trial[free] <= 0).any():
        low = free & (trial <= 0)
        steps = found[low] / (found[low] - trial[low])
        step = steps.min()
        found = found + step * (trial - found)
        # The one that stops the step is 0 but for rounding.
        stopped = np.flatnonzero(low)[steps <= step]
        free[stopped] = False
        free &= found > 0
        found[~free] = 0.0
        trial = _least_squares(matrix, values, free)
    return trial


def _least_squares(
    matrix: _Floats, values: _Floats, free: npt.NDArray[np.bool_]
) -> _Floats:
    found = np.zeros(matrix.shape[1])
    if free.any():
        found[free] = np.linalg.lstsq(matrix[:, free], values, rcond=None)[0]
    return found
