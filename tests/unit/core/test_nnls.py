# SPDX-License-Identifier: Apache-2.0

"""Least squares without negative values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fpgapool.core import nnls


def test_values_that_fit_exactly() -> None:
    A = [[8000, 3000], [4000, 4000], [12000, 2000]]
    found, residual = nnls.solve(A, [20, 20, 20])
    assert found == pytest.approx([1e-3, 4e-3])
    assert residual == pytest.approx(0, abs=1e-9)


def test_half_the_values() -> None:
    A = [[8000, 3000], [4000, 4000], [12000, 2000]]
    found, _ = nnls.solve(A, [10, 10, 10])
    assert found == pytest.approx([0.5e-3, 2e-3])


def test_negative_value_becomes_zero() -> None:
    A = [[100, 10], [200, 30]]
    unbound = np.linalg.solve(np.array(A, dtype=float), [10, 19])
    assert unbound == pytest.approx([0.11, -0.1])
    found, residual = nnls.solve(A, [10, 19])
    assert found == pytest.approx([0.096, 0])
    assert found[1] == 0
    assert found[0] == pytest.approx((100 * 10 + 200 * 19) / (100**2 + 200**2))
    assert residual == pytest.approx(0.4472, abs=5e-5)


def test_equal_columns_share_a_value_or_not() -> None:
    found, residual = nnls.solve([[2, 2], [3, 3]], [4, 6])
    assert found.sum() == pytest.approx(2)
    assert (found >= 0).all()
    assert residual == pytest.approx(0, abs=1e-9)


def test_column_of_zeros_counts_nothing() -> None:
    found, _ = nnls.solve([[0, 2], [0, 4]], [2, 4])
    assert found.tolist() == pytest.approx([0, 1])


def test_values_below_zero_are_best_met_by_nothing() -> None:
    found, residual = nnls.solve([[1, 2], [3, 1]], [-3, -4])
    assert found.tolist() == [0, 0]
    assert residual == pytest.approx(5)


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
