# SPDX-License-Identifier: Apache-2.0

"""RDDs whose partitions use a real pool, from two executors."""

from __future__ import annotations

import numpy

from fpgapool import spark as acc
from tests.spark import cluster
from tests.spark import work

RECORDS = 1000
PARTITIONS = 7


def test_results_are_right_and_in_order(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    assert len(spark.executors()) == 2
    numbers = spark.context.parallelize(range(RECORDS), PARTITIONS)
    frames = acc.wrap(numbers.map(work.frame))
    results = frames.map_acc(work.Fft()).collect()
    assert len(results) == RECORDS
    for number, result in enumerate(results):
        expected = work.transformed(number)
        scale = float(numpy.abs(expected).max())
        assert numpy.allclose(result, expected, atol=1e-5 * scale)
    assert frames.fallbacks.value == 0
    assert frames.served.value == PARTITIONS
    assert len(pool.sessions()) == PARTITIONS
