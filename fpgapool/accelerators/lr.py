# SPDX-License-Identifier: Apache-2.0

"""Logistic regression: the gradient of the loss."""

from __future__ import annotations

import typing

import numpy

from fpgapool.accelerators import base
from fpgapool.accelerators import records

_FEATURES = 32


def _known() -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """Return two records, their result, and weights of 0.

    With these weights, both labels have a probability of one half.
    """
    features = numpy.arange(2 * _FEATURES).reshape(2, _FEATURES)
    block = numpy.column_stack([[0, 1], features])
    result = [*(features[0] - features[1]) / 2, 2 * numpy.log(2)]
    return (
        block.astype(records.NUMBER_TYPE).tobytes(),
        numpy.array(result, records.RESULT_TYPE).tobytes(),
        (bytes(_FEATURES * records.NUMBER_TYPE.itemsize),),
    )


class LrCore(records.BlockCore):
    """Returns the gradient and loss for each block of records, stateless.

    A record consists of its label and its features, in single precision. With
    one row of weights, the label is 0 or 1, and the weights give the log-odds
    of 1. With more rows, the label is the number of a row, from 0, and the
    softmax function gives the probability of each. The loss is the negative
    log-likelihood, summed over the block, without regularisation. A result
    consists of the gradient, shaped like the weights, and the loss, both in
    double precision.

    :param params: ``features``: features in a record; ``labels``: rows of
        weights, 1 by default; ``block_records``: 256 by default. Argument 1
        contains the weights.
    """

    known_answers = (
        base.KnownAnswer(
            {"features": _FEATURES, "block_records": 2}, *_known()
        ),
    )
    usual_params: typing.ClassVar = {"features": _FEATURES}

    rows_name = "labels"
    default_rows = 1
    matrix_name = "weights"
    labels_of_record = 1

    @property
    def result_numbers(self) -> int:
        return self.rows * self.features + 1

    def add(
        self,
        batch: records.Matrix,
        matrix: records.Matrix,
        result: records.Matrix,
    ) -> None:
        labels, features = batch[:, 0], batch[:, 1:]
        self._refuse_labels(labels)
        scores = features @ matrix.T
        if self.rows == 1:
            scores = scores[:, 0]
            losses = numpy.logaddexp(0, scores) - labels * scores
            # The logistic function, which cannot overflow in this form.
            errors = (numpy.tanh(scores / 2) + 1) / 2 - labels
            errors = errors[:, None]
        else:
            own = numpy.arange(len(labels)), labels.astype(int)
            scores -= scores.max(axis=1, keepdims=True)
            errors = numpy.exp(scores)
            sums = errors.sum(axis=1)
            losses = numpy.log(sums) - scores[own]
            errors /= sums[:, None]
            errors[own] -= 1
        result[:-1] += (errors.T @ features).ravel()
        result[-1] += losses.sum()

    def _refuse_labels(self, labels: records.Matrix) -> None:
        highest = max(self.rows, 2) - 1
        right = (labels >= 0) & (labels <= highest)
        right &= labels == numpy.floor(labels)
        if not right.all():
            raise base.InvalidInput(
                f"a record's label is not an integer from 0 to {highest}"
            )
