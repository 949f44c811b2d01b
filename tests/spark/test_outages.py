# SPDX-License-Identifier: Apache-2.0

"""Executors that die, and pools that are away."""

from __future__ import annotations

import numpy

from fpgapool import spark as acc
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import waiting
from tests.spark import cluster
from tests.spark import numbered
from tests.spark import work


def test_killed_executor(spark: cluster.Cluster) -> None:
    """One of two is killed while slots work for both."""
    # A partition has 4 MB, which takes 5 seconds.
    records = 3_500_000
    numbers = spark.context.parallelize(range(records), numbered.PARTITIONS)
    wrapped = acc.wrap(numbers)
    total = wrapped.map_acc(work.Numbers()).map(int)
    ordered = total.mapPartitions(work.edges)
    with cluster.pool(spark.run_dir, "--rate-scale=0.0004") as pool:
        assert len(spark.executors()) == 2
        with cluster.started(ordered.collect) as job:
            waiting.wait_until(
                lambda: (
                    sum(
                        one.endswith(states.SLOT_ACTIVE) for one in pool.held()
                    )
                    == 2
                ),
                lambda: f"two working slots: {pool.held()}",
            )
            spark.kill_executor()
        found = job.result()
        waiting.wait_until(
            lambda: not pool.held(),
            lambda: f"idle slots: {pool.held()}",
            limit_s=15.0,
        )
        assert found == [
            (first, first + records // numbered.PARTITIONS - 1, True)
            for first in range(0, records, records // numbered.PARTITIONS)
        ]
        sessions = pool.sessions()
        assert len(sessions) == numbered.PARTITIONS + 1
        assert [one.reason for one in sessions].count(
            codes.OK
        ) == numbered.PARTITIONS
    assert wrapped.fallbacks.value == 0
    waiting.wait_until(lambda: len(spark.executors()) == 2, "another executor")


def test_without_a_pool_the_result_is_the_same(
    spark: cluster.Cluster,
) -> None:
    with cluster.pool(spark.run_dir, "--unlimited"):
        wrapped = acc.wrap(numbered.frames(spark))
        served = wrapped.map_acc(work.Fft()).collect()
        assert wrapped.fallbacks.value == 0
    wrapped = acc.wrap(numbered.frames(spark))
    computed = wrapped.map_acc(work.Fft()).collect()
    assert (wrapped.served.value, wrapped.fallbacks.value) == (
        0,
        numbered.PARTITIONS,
    )
    assert numpy.array_equal(served, computed)
    numbered.check(computed)


def test_without_pool_and_core_the_call_computes(
    spark: cluster.Cluster,
) -> None:
    wrapped = acc.wrap(spark.context.parallelize(range(100), 3))
    assert wrapped.map_acc(work.Called()).collect() == list(range(1, 101))
    assert (wrapped.served.value, wrapped.fallbacks.value) == (0, 3)
