# SPDX-License-Identifier: Apache-2.0

"""Logistic regression: which tumours are benign?"""

import operator
import sys

import numpy
from pyspark import sql
from sklearn import datasets
from sklearn import preprocessing

STEPS = 30


def gradient(point, weights):
    """Return what a record adds to the gradient, and to the loss."""
    label, features = point[0], point[1:].astype(float)
    score = features @ weights
    error = 1 / (1 + numpy.exp(-score)) - label
    loss = numpy.logaddexp(0, score) - label * score
    return numpy.append(error * features, loss)


known = datasets.load_breast_cancer()
features = preprocessing.scale(known.data)
points = numpy.column_stack([known.target, features]).astype("<f4")
context = sql.SparkSession.builder.getOrCreate().sparkContext
records = context.parallelize(points, 2).cache()
weights, losses = numpy.zeros(30, "<f4"), []
for _ in range(STEPS):
    results = records.map(lambda one, w=weights: gradient(one, w))
    total = results.reduce(operator.add)
    weights -= (total[:-1] / len(points)).astype("<f4")
    losses.append(total[-1])

right = (points[:, 1:] @ weights > 0) == points[:, 0]
print(f"{right.mean():.1%} of the tumours are told apart")
numpy.savez(sys.argv[1], model=weights, losses=losses)
