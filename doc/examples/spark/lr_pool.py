# SPDX-License-Identifier: Apache-2.0

"""Logistic regression: which tumours are benign?"""

import operator
import sys

import numpy
from pyspark import sql
from sklearn import datasets
from sklearn import preprocessing

from fpgapool import spark as fpga

STEPS = 30


def gradient(point, weights):
    """Return what a record adds to the gradient, and to the loss."""
    label, features = point[0], point[1:].astype(float)
    score = features @ weights
    error = 1 / (1 + numpy.exp(-score)) - label
    loss = numpy.logaddexp(0, score) - label * score
    return numpy.append(error * features, loss)


class Gradient(fpga.Accelerator):
    id = "lr"
    params = {"features": 30, "block_records": 64}
    codec = fpga.ArrayCodec("<f4", 31)
    results = fpga.ArrayCodec("<f8", 31)

    def call(self, point):
        return gradient(point, self.arguments[1])


known = datasets.load_breast_cancer()
features = preprocessing.scale(known.data)
points = numpy.column_stack([known.target, features]).astype("<f4")
context = sql.SparkSession.builder.getOrCreate().sparkContext
records = context.parallelize(points, 2).cache()
weights, losses = numpy.zeros(30, "<f4"), []
for _ in range(STEPS):
    results = fpga.wrap(records).map_acc(Gradient({1: weights}))
    total = results.reduce(operator.add)
    weights -= (total[:-1] / len(points)).astype("<f4")
    losses.append(total[-1])

right = (points[:, 1:] @ weights > 0) == points[:, 0]
print(f"{right.mean():.1%} of the tumours are told apart")
numpy.savez(sys.argv[1], model=weights, losses=losses)
