# SPDX-License-Identifier: Apache-2.0

"""An RDD of numbered frames, and their transforms."""

import numpy
import pyspark

from tests.spark import cluster
from tests.spark import work

RECORDS = 1000
PARTITIONS = 7


def frames(spark: cluster.Cluster) -> pyspark.RDD[numpy.ndarray]:
    """Return numbered frames in partitions."""
    numbers = spark.context.parallelize(range(RECORDS), PARTITIONS)
    return numbers.map(work.frame)


def check(results: list[numpy.ndarray]) -> None:
    """Compare with transforms of the same numbers, in their order."""
    assert len(results) == RECORDS
    for number, result in enumerate(results):
        expected = work.transformed(number)
        scale = float(numpy.abs(expected).max())
        assert numpy.allclose(result, expected, atol=1e-5 * scale)
