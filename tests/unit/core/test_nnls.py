# SPDX-License-Identifier: Apache-2.0

"""Least squares without negative values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fpgapool.core import nnls


def test_negative_value_becomes_zero() -> None:
    A = [[100, 10], [200, 30]]
    unbound = np.linalg.solve(np.array(A, dtype=float), [10, 19])
    assert unbound == pytest.approx([0.11, -0.1])
    found, residual = nnls.solve(A, [10, 19])
    assert found == pytest.approx([0.096, 0])
    assert found[1] == 0
    assert found[0] == pytest.approx((100 * 10 + 200 * 19) / (100**2 + 200**2))
    assert residual == pytest.approx(0.4472, abs=5e-5)


def test_no_columns() -> None:
    found, residual = nnls.solve(np.zeros((2, 0)), [3, 4])
    assert found.shape == (0,)
    assert residual == 5


@pytest.mark.parametrize(
    ("A", "b", "message"),
    [
        ([[1, 2]], [1, 2], "m rows"),
        ([1, 2], [1, 2], "m rows"),
        ([[1.0, math.nan]], [1], "finite"),
        ([[1.0, 2.0]], [math.inf], "finite"),
    ],
)
def test_bad_input_is_refused(A: object, b: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nnls.solve(A, b)  # type: ignore[arg-type]
