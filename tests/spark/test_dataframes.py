# SPDX-License-Identifier: Apache-2.0

"""DataFrames whose partitions use a real pool, by way of Arrow."""

from __future__ import annotations

import numpy
import pytest
from pyspark import errors
from pyspark.sql import types

from fpgapool import spark as acc
from fpgapool.vocabulary import codes
from tests.harness import programs
from tests.spark import cluster
from tests.spark import numbered
from tests.spark import work

ROWS = 30_000


def test_columns_of_numbers(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    """Two columns become the words of a cipher, and words again."""
    pool.sessions()
    rows = spark.session.range(ROWS, numPartitions=numbered.PARTITIONS)
    words = rows.selectExpr("cast(id as int) a", "cast(-id as int) b")
    result = acc.map_batches(words, work.Encrypt(), "x int, y int")
    assert result.columns == ["x", "y"]
    assert len(pool.sessions()) == 0
    parts: dict[int, list[tuple[int, int]]] = {}
    for row in result.selectExpr("spark_partition_id() p", "*").collect():
        parts.setdefault(row.p, []).append((row.x, row.y))
    assert len(parts) == numbered.PARTITIONS
    begin = 0
    for _, part in sorted(parts.items()):
        plain = numpy.arange(begin, begin + len(part), dtype="<i4")
        pairs = numpy.stack([plain, -plain], axis=1)
        expected = programs.encrypted(pairs.tobytes(), bytes(16), bytes(16))
        assert numpy.array(part, "<i4").tobytes() == expected
        begin += len(part)
    assert begin == ROWS
    sessions = pool.sessions()
    assert len(sessions) == numbered.PARTITIONS
    assert {one.reason for one in sessions} == {codes.OK}


def test_a_column_of_arrays(
    spark: cluster.Cluster, pool: cluster.Pool
) -> None:
    schema = types.StructType().add("v", types.ArrayType(types.IntegerType()))
    given = [([number, -number],) for number in range(100)]
    rows = spark.session.createDataFrame(given, schema).coalesce(1)
    once = acc.map_batches(rows, work.Encrypt(), schema)
    twice = acc.map_batches(once, work.Encrypt(), schema)
    assert [tuple(row) for row in twice.collect()] == given


def test_bytes(spark: cluster.Cluster, pool: cluster.Pool) -> None:
    given = [(b"",), (b"one",), (bytes(100_000),)]
    rows = spark.session.createDataFrame(given, "data binary").coalesce(1)
    result = acc.map_batches(rows, work.Copy(), "data binary").collect()
    assert [(bytes(row.data),) for row in result] == given


def test_nulls_are_refused(spark: cluster.Cluster, pool: cluster.Pool) -> None:
    rows = spark.session.createDataFrame([(1,), (None,)], "a bigint")
    result = acc.map_batches(rows, work.Numbers(), "a bigint")
    with pytest.raises(errors.PythonException, match="column a has nulls"):
        result.collect()
