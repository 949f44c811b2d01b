# SPDX-License-Identifier: Apache-2.0

import math

import pytest

from fpgapool.strategies.placements import offers as affinity


@pytest.mark.parametrize(
    ("n_acc", "n", "fitness"),
    [(0, 0, math.inf), (0, 3, 0.0), (1, 4, 0.25), (3, 3, 1.0)],
)
def test_fitness_is_the_accelerators_share_of_a_device(
    n_acc: int, n: int, fitness: float
) -> None:
    assert affinity.fitness(n_acc, n) == fitness


@pytest.mark.parametrize(
    ("misses", "threshold"),
    [(0, 1.0), (10, 0.75), (20, 0.5), (40, 0.0), (1000, 0.0)],
)
def test_the_threshold_falls_with_each_miss(
    misses: int, threshold: float
) -> None:
    assert affinity.threshold_by_misses(misses, 40) == threshold


def test_without_a_limit_any_device_will_do() -> None:
    assert affinity.threshold_by_misses(0, 0) == 0.0


def test_a_job_without_misses_takes_a_device_of_its_kind_only() -> None:
    """The comparison is not strict: it would take none that runs others."""
    threshold = affinity.threshold_by_misses(0, 40)
    assert affinity.fitness(2, 2) >= threshold
    assert affinity.fitness(0, 0) >= threshold
    assert affinity.fitness(2, 3) < threshold


def test_the_only_job_of_its_kind_takes_a_foreign_device_at_last() -> None:
    assert affinity.fitness(0, 3) < affinity.threshold_by_misses(39, 40)
    assert affinity.fitness(0, 3) >= affinity.threshold_by_misses(40, 40)
