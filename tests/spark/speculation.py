# SPDX-License-Identifier: Apache-2.0

"""A program in which Spark attempts a slow partition twice.

usage: python -m tests.spark.speculation MASTER DIRECTORY

The first attempt waits until the second one is done. Prints what is counted,
as JSON. Spark attempts a partition twice only on two hosts.
"""

from __future__ import annotations

import json
import pathlib
import sys
import threading
from collections.abc import Iterable
from collections.abc import Iterator

import numpy
import pyspark

from fpgapool import spark as acc
from tests.spark import work

RECORDS = 1000
PARTITIONS = 7
SLOW = 3
_LIMIT_S = 120.0


class Straggler:
    """Makes the first attempt of a partition slow, behind the accelerator.

    :param directory: has files that attempts make and wait for.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def __call__(
        self, partition: int, records: Iterable[numpy.ndarray]
    ) -> Iterator[numpy.ndarray]:
        """Yield the records; the slot has computed them by then."""
        computed = list(records)
        context = pyspark.TaskContext.get()
        assert context is not None
        if partition == SLOW:
            attempt = context.attemptNumber()
            (self._directory / f"attempt-{attempt}").touch()
            if attempt == 0:
                self._wait()
        yield from computed

    def _wait(self) -> None:
        other = self._directory / "attempt-1"
        pause = threading.Event()
        for _ in range(int(_LIMIT_S / 0.05)):
            if other.exists():
                return
            pause.wait(0.05)
        raise TimeoutError("there is no second attempt")


def main(master: str, directory: str, *settings: str) -> None:
    """Run it, and print what is counted."""
    conf = pyspark.SparkConf().setMaster(master).setAppName("speculation")
    for setting in settings:
        conf.set(*setting.split("=", 1))
    with pyspark.SparkContext(conf=conf) as context:
        numbers = context.parallelize(range(RECORDS), PARTITIONS)
        wrapped = acc.wrap(numbers.map(work.frame))
        results = (
            wrapped.map_acc(work.Fft())
            .mapPartitionsWithIndex(Straggler(pathlib.Path(directory)))
            .collect()
        )
    right = len(results) == RECORDS and all(
        numpy.allclose(
            result,
            expected := work.transformed(number),
            atol=1e-5 * float(numpy.abs(expected).max()),
        )
        for number, result in enumerate(results)
    )
    counted = {"right": right, "fallbacks": wrapped.fallbacks.value}
    sys.stdout.write(f"{json.dumps(counted)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
