# SPDX-License-Identifier: Apache-2.0

"""K-means: ten kinds of handwritten digits."""

import operator
import sys

import numpy
from pyspark import sql
from sklearn import datasets

from fpgapool import spark as fpga

STEPS = 20


def nearest(point, centres):
    """Return the sums and counts that a record adds to, and the loss."""
    distances = ((point.astype(float) - centres) ** 2).sum(axis=1)
    sums = numpy.zeros((10, 65))
    sums[distances.argmin()] = [*point, 1]
    return numpy.append(sums, distances.min())


class Step(fpga.Accelerator):
    id = "km"
    params = {"features": 64, "centres": 10, "block_records": 64}
    codec = fpga.ArrayCodec("<f4", 64)
    results = fpga.ArrayCodec("<f8", 651)


points = datasets.load_digits().data.astype("<f4")
context = sql.SparkSession.builder.getOrCreate().sparkContext
records = context.parallelize(points, 2).cache()
centres, losses = points[:10], []
for _ in range(STEPS):
    results = fpga.wrap(records).map_acc(Step({1: centres}))
    total = results.reduce(operator.add)
    sums = total[:-1].reshape(10, 65)
    centres = (sums[:, :-1] / sums[:, -1:]).astype("<f4")
    losses.append(total[-1])

print("the first digits are of the kinds", end="")
for point in points[:10]:
    sums = nearest(point, centres)[:-1].reshape(10, 65)
    print("", sums[:, -1].argmax(), end="")
print()
numpy.savez(sys.argv[1], model=centres, losses=losses)
