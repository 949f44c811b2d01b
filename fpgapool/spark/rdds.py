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
    """Return an RDD that can use accelerators."""
    return AccRDD(rdd)


class AccRDD:
    """An RDD that can use accelerators; created by :func:`wrap`.

    An action increases the accumulators as it computes partitions; Spark may
    compute a partition more than once.

    :ivar served: counts the non-empty partitions that the pool computed.
    :ivar fallbacks: counts those that a CPU computed instead.
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
        """Return an RDD with the results of all records, in the same order.

        Each non-empty partition opens its own session.

        :param group: name of a group with this accelerator, to be used instead
            of sessions; None: use sessions.
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
