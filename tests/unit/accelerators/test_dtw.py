# SPDX-License-Identifier: Apache-2.0

"""Dynamic time warping."""

import math

import numpy
import pytest

from fpgapool.accelerators import base
from tests.unit.accelerators import runs


def naive_distance(first, second, window_samples=None):
    """Fill the whole table, as the definition says."""
    length = len(first)
    best = [[math.inf] * (length + 1) for _ in range(length + 1)]
    best[0][0] = 0.0
    for i in range(length):
        for j in range(length):
            if window_samples is not None and abs(i - j) > window_samples:
                continue
            step = min(best[i][j], best[i][j + 1], best[i + 1][j])
            best[i + 1][j + 1] = step + (first[i] - second[j]) ** 2
    return math.sqrt(best[length][length])


def make_pairs(count, length_samples, dtype="float32"):
    generator = numpy.random.default_rng([count, length_samples])
    return generator.standard_normal((count, 2, length_samples)).astype(dtype)


def distances(core, pairs):
    return numpy.frombuffer(runs.run(core, pairs.tobytes()), "<f8")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window_samples", [None, 0, 1, 5, 19, 20, 1000])
@pytest.mark.parametrize("length_samples", [1, 2, 20])
def test_agrees_with_the_definition(length_samples, window_samples, dtype):
    pairs = make_pairs(4, length_samples, dtype)
    params = {"length_samples": length_samples, "dtype": dtype}
    if window_samples is not None:
        params["window_samples"] = window_samples
    expected = [
        naive_distance(*pair.astype(float), window_samples) for pair in pairs
    ]
    found = distances(runs.load("dtw", **params), pairs)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_shift_costs_less_than_without_warping():
    wave = numpy.sin(numpy.arange(100) / 5)
    pairs = numpy.array([[wave, numpy.roll(wave, 3)]])
    params = {"length_samples": 100, "dtype": "float64"}
    free = distances(runs.load("dtw", **params), pairs)[0]
    straight = distances(runs.load("dtw", window_samples=0, **params), pairs)[
        0
    ]
    assert straight == pytest.approx(numpy.linalg.norm(wave - pairs[0, 1]))
    assert free < straight / 2


def test_what_is_no_number_stays_none():
    pairs = make_pairs(2, 5)
    pairs[0, 1, 2] = numpy.nan
    found = distances(runs.load("dtw", length_samples=5), pairs)
    assert numpy.isnan(found).tolist() == [True, False]


def test_long_series_need_a_window():
    with pytest.raises(base.InvalidParams) as caught:
        runs.load("dtw", length_samples=65536)
    assert "'window_samples'" in caught.value.message
    core = runs.load("dtw", length_samples=65536, window_samples=100)
    assert core.chunk_multiple_bytes == 1 << 19
