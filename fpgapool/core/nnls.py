# SPDX-License-Identifier: Apache-2.0

"""Non-negative least squares, by Lawson and Hanson.

C. L. Lawson and R. J. Hanson, *Solving Least Squares Problems*, chapter 23.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]


def solve(A: npt.ArrayLike, b: npt.ArrayLike) -> tuple[_Floats, float]:
    """Find t >= 0 that minimizes the length of A·t − b.

    :returns: t, with n values, and that length; if several t are equally good,
        one of them.
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
    # With columns of equal length, one tolerance fits all.
    lengths = np.sqrt((matrix**2).sum(axis=0))
    scale = np.where(lengths > 0, lengths, 1.0)
    found = _solve(matrix / scale, values) / scale
    return found, float(np.linalg.norm(matrix @ found - values))


def _solve(matrix: _Floats, values: _Floats) -> _Floats:
    count = matrix.shape[1]
    found = np.zeros(count)
    free = np.zeros(count, dtype=bool)
    # Columns that looked useful only because of rounding errors.
    useless = np.zeros(count, dtype=bool)
    tolerance = (
        10 * np.finfo(float).eps * max(matrix.shape) * np.linalg.norm(values)
    )
    # Each round lowers the error, so no set of free columns occurs twice. The
    # bound guards against rounding errors.
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
    """Move from one solution towards a better one.

    The move stops where a value reaches 0.

    :param free: the columns that may differ from 0; columns that become 0 are
        removed from it.
    """
    while (trial[free] <= 0).any():
        low = free & (trial <= 0)
        steps = found[low] / (found[low] - trial[low])
        step = steps.min()
        found = found + step * (trial - found)
        # The value that stops the step is 0, apart from rounding.
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
