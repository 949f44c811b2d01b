# SPDX-License-Identifier: Apache-2.0

"""RDDs whose partitions use accelerators."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from fpgapool.spark import accelerator as accelerators
from fpgapool.spark import partitions

if typing.TYPE_CHECKING:
    import pyspark


def wrap(rdd: pyspark.RDD[Any]) -> AccRDD:
    """Give an RDD the means to use accelerators."""
    return AccRDD(rdd)


class AccRDD:
    """An RDD that can use accelerators; made by :func:`wrap`.

    The numbers grow when an action has computed partitions; Spark may compute
    a partition more than once.

    :ivar served: accumulator of the partitions, not empty, that the pool has
        computed.
    :ivar fallbacks: accumulator of those that a processor has computed,
        because the pool could not.
    """

    def __init__(self, rdd: pyspark.RDD[Any]) -> None:
        self.rdd = rdd
        self.served = rdd.context.accumulator(0)
        self.fallbacks = rdd.context.accumulator(0)

    def map_acc(
        self,
        accelerator: accelerators.Accelerator,
        *,
        group: str | None = None,
    ) -> pyspark.RDD[Any]:
        """Return an RDD of the results of the records, in their order.

        Each partition that is not empty opens a session on its executor, for
        as long as its slot computes.

        :param group: name of a group of the project with this accelerator;
            partitions are its clients then. None: they have a session each.
        :raises errors.InvalidRequest: if the accelerator is incomplete.
        """
        return self.rdd.mapPartitions(
            functools.partial(
                _run,
                accelerators.check(accelerator),
                self.rdd.context.applicationId,
                group,
                self.served,
                self.fallbacks,
            )
        )


def _run(
    accelerator: accelerators.Accelerator,
    application: str,
    group: str | None,
    served: pyspark.Accumulator[int],
    fallbacks: pyspark.Accumulator[int],
    records: Iterable[Any],
) -> Iterator[Any]:
    counts = partitions.Counts(
        functools.partial(served.add, 1), functools.partial(fallbacks.add, 1)
    )
    return partitions.Partition(accelerator, application, group, counts).run(
        records
    )
