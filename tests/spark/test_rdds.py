# SPDX-License-Identifier: Apache-2.0

"""RDDs whose partitions use a real pool, from two executors."""

from __future__ import annotations

import operator

import numpy
import py4j.protocol
import pytest
from pyspark import errors

from fpgapool import spark as acc
from fpgapool.cmd import yarn_labels
from fpgapool.vocabulary import codes
from fpgapool.yarn import labels
from tests.functional.allinone import harness
from tests.harness import waiting
from tests.spark import cluster
from tests.spark import numbered
from tests.spark import work


def test_results_are_right_and_in_order(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    assert len(spark.executors()) == 2
    pool.sessions()
    wrapped = acc.wrap(numbered.frames(spark))
    numbered.check(wrapped.map_acc(work.Fft()).collect())
    assert wrapped.fallbacks.value == 0
    assert wrapped.served.value == numbered.PARTITIONS
    sessions = pool.sessions()
    assert len(sessions) == numbered.PARTITIONS
    assert {one.accelerator for one in sessions} == {"fft"}
    assert {one.claimed_bytes for one in sessions} == {
        work.FRAME_BYTES * count
        for count in (
            numbered.RECORDS // numbered.PARTITIONS,
            numbered.RECORDS // numbered.PARTITIONS + 1,
        )
    }


def test_empty_partitions_open_nothing(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    pool.sessions()
    numbers = spark.context.parallelize(range(100), numbered.PARTITIONS)
    few = acc.wrap(numbers.filter(lambda number: number in (3, 50, 51)))
    assert few.map_acc(work.Numbers()).collect() == [3, 50, 51]
    assert (few.served.value, few.fallbacks.value) == (2, 0)
    assert len(pool.sessions()) == 2
    none = acc.wrap(numbers.filter(lambda number: number < 0))
    assert none.map_acc(work.Numbers()).collect() == []
    assert (none.served.value, none.fallbacks.value) == (0, 0)
    assert pool.sessions() == []


def test_accelerators_in_a_row_and_beside_each_other(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    """Each has a session of its own, also within one attempt."""
    pool.sessions()
    there = acc.wrap(numbered.frames(spark)).map_acc(work.Fft())
    back = acc.wrap(there).map_acc(work.Inverse())
    result = back.zip(back).map(lambda pair: pair[0] - pair[1])
    assert all((one == 0).all() for one in result.collect())
    assert len(pool.sessions()) == 4 * numbered.PARTITIONS


def test_records_of_any_length(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    words = [b"", b"a", bytes(70_000), *(b"%d" % one for one in range(500))]
    wrapped = acc.wrap(spark.context.parallelize(words, 3))
    assert wrapped.map_acc(work.Copy()).collect() == words
    assert wrapped.fallbacks.value == 0


def test_large_data_passes_by_the_driver(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    """The driver takes results of 8 MiB only; a partition has 80 MiB."""

    pool.sessions()

    def block(number: int) -> numpy.ndarray:
        return numpy.full(1 << 20, number, "u1")

    numbers = spark.context.parallelize(range(160), 2)
    wrapped = acc.wrap(numbers.map(block))
    sums = wrapped.map_acc(work.Blocks()).map(
        lambda one: (int(one[0]), int(one.sum(dtype="i8")))
    )
    assert sums.collect() == [(one, one << 20) for one in range(160)]
    assert (wrapped.served.value, wrapped.fallbacks.value) == (2, 0)
    assert [one.claimed_bytes for one in pool.sessions()] == [80 << 20] * 2
    with pytest.raises(py4j.protocol.Py4JJavaError, match="maxResultSize"):
        wrapped.map_acc(work.Blocks()).collect()


def test_a_mistake_is_no_reason_to_compute_otherwise(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    numbers = spark.context.parallelize(range(10), 1)
    for accelerator, code in (
        (work.Called(), codes.UNKNOWN_ACCELERATOR),
        (work.Wrong(), codes.INVALID_PARAMS),
    ):
        with pytest.raises(errors.PythonException, match=code):
            acc.wrap(numbers).map_acc(accelerator).collect()
    waiting.wait_until(lambda: not pool.held(), "idle slots", 15.0)


def test_partitions_are_clients_of_a_group(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    group = pool.proxy.create_group(name="spark", accelerator="fft", size=2)
    pool.sessions()
    wrapped = acc.wrap(numbered.frames(spark))
    numbered.check(wrapped.map_acc(work.Fft(), group="spark").collect())
    assert (wrapped.served.value, wrapped.fallbacks.value) == (
        numbered.PARTITIONS,
        0,
    )
    assert pool.sessions() == []
    assert list(pool.proxy.group_clients(group.id)) == []
    assert pool.attached() == numbered.PARTITIONS
    pool.proxy.delete_group(group.id)
    waiting.wait_until(lambda: not pool.held(), "idle slots", harness.LIMIT_S)


def test_sum_of_numbers(spark: cluster.Cluster, pool: cluster.Pool) -> None:
    numbers = acc.wrap(
        spark.context.parallelize(range(1000), numbered.PARTITIONS)
    )
    total = numbers.map_acc(work.Numbers()).map(int).reduce(operator.add)
    assert total == 499_500


def test_labels_of_the_pools_hosts(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    """The command understands what the API of a real pool answers."""
    numbers = acc.wrap(spark.context.parallelize(range(10), 1))
    numbers.map_acc(work.Numbers()).collect()
    decided = labels.Labels()
    for now_s in (0.0, 30.0):
        changes = decided.decide(yarn_labels.hosts(pool.api), now_s)
    assert set(changes) == {"node1", "node2"}
    assert labels.label_of("copy") in changes.values()
