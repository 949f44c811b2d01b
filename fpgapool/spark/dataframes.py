# SPDX-License-Identifier: Apache-2.0

"""DataFrames whose partitions use accelerators, by means of Arrow."""

from __future__ import annotations

import functools
import itertools
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from fpgapool.client import errors
from fpgapool.spark import accelerator as accelerators
from fpgapool.spark import partitions
from fpgapool.vocabulary import codes

if typing.TYPE_CHECKING:
    import pyarrow
    from pyspark import sql
    from pyspark.sql import types

#: Number of rows in the batches that are returned to Spark.
BATCH_ROWS = 10_000


def map_batches(
    frame: sql.DataFrame,
    accelerator: accelerators.Accelerator,
    schema: types.StructType | str,
    *,
    group: str | None = None,
) -> sql.DataFrame:
    """Return a DataFrame with the results of all rows, in the same order.

    A row's record is the value of its only column, or a tuple of all values.
    Results become rows in the same way.

    :param schema: schema of the results, for example ``value float``.
    :param group: see :meth:`fpgapool.spark.AccRDD.map_acc`.
    :raises errors.InvalidRequest: if the accelerator is incomplete; in an
        executor, also if a value is null.
    """
    from pyspark.sql import types

    if isinstance(schema, str):
        schema = types.StructType.fromDDL(schema)
    application = frame.sparkSession.conf.get("spark.app.id") or ""
    return frame.mapInArrow(
        functools.partial(
            _run,
            accelerators.check(accelerator),
            application,
            group,
            _arrow_schema(schema),
        ),
        schema,
    )


def _arrow_schema(schema: types.StructType) -> pyarrow.Schema:
    from pyspark.sql.pandas import types as conversion

    return conversion.to_arrow_schema(schema)


def _run(
    accelerator: accelerators.Accelerator,
    application: str,
    group: str | None,
    schema: pyarrow.Schema,
    batches: Iterable[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    counts = partitions.Counts(lambda: None, lambda: None)
    partition = partitions.Partition(accelerator, application, group, counts)
    results = partition.run(itertools.chain.from_iterable(map(_rows, batches)))
    while rows := list(itertools.islice(results, BATCH_ROWS)):
        yield _batch(rows, schema)


def _rows(batch: pyarrow.RecordBatch) -> Iterable[Any]:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count:
            raise errors.InvalidRequest(
                codes.INVALID_REQUEST,
                f"column {name} has nulls, which accelerators cannot process",
            )
    columns = [column.to_pylist() for column in batch.columns]
    return columns[0] if len(columns) == 1 else zip(*columns, strict=True)


def _batch(rows: list[Any], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    import pyarrow

    columns = [rows] if len(schema) == 1 else zip(*rows, strict=True)
    arrays = [
        pyarrow.array(list(column), field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
