# SPDX-License-Identifier: Apache-2.0

"""Thresholds, one set and many at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fpgapool.core.queues import thresholds


def by_the_book(k: int, q: float, k1: int, k2: int) -> float:
    """One by one, in units of E."""
    if k1 < k <= k2:
        return q**k1 + (k - k1) * (q ** (k2 - 1) - q**k1) / (k2 - k1)
    return q ** (k - 1)


@pytest.mark.parametrize("queues", [1, 2, 5, 9])
def test_many_at_once(queues: int) -> None:
    pairs = list(itertools.combinations(range(1, 11), 2))
    ratios = np.linspace(1.05, 4, len(pairs))
    found = thresholds.hybrid_factors(
        ratios, [k1 for k1, _ in pairs], [k2 for _, k2 in pairs], queues
    )
    assert found.shape == (len(pairs), queues - 1)
    for row, q, (k1, k2) in zip(found, ratios.tolist(), pairs, strict=True):
        expected = [by_the_book(k, q, k1, k2) for k in range(1, queues)]
        assert row == pytest.approx(expected)
        one = thresholds.hybrid_thresholds(3e6, q, k1, k2, queues)
        assert one == pytest.approx([3e6 * factor for factor in expected])


@pytest.mark.parametrize(
    ("E_bytes", "q", "k1", "k2", "queues"),
    [
        (0, 2, 1, 2, 5),
        (float("nan"), 2, 1, 2, 5),
        (1e6, 1, 1, 2, 5),
        (1e6, 2, 0, 2, 5),
        (1e6, 2, 2, 2, 5),
        (1e6, 2, 1, 2, 0),
        (1e6, 1000, 1, 2, 1000),
        # As near to 1 as this, floats do not increase.
        (1e6, 1 + 1e-17, 1, 2, 5),
    ],
)
def test_what_is_refused(
    E_bytes: float, q: float, k1: int, k2: int, queues: int
) -> None:
    with pytest.raises(ValueError):
        thresholds.hybrid_thresholds(E_bytes, q, k1, k2, queues)
