# SPDX-License-Identifier: Apache-2.0

"""Logistic regression, whose gradients come from the accelerator ``lr``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy
import scipy.optimize
import scipy.special
import sklearn.base
import sklearn.exceptions
import sklearn.utils.multiclass
import sklearn.utils.validation

from fpgapool import client
from fpgapool.ml import steps

_ACCELERATOR = "lr"
# As in scikit-learn's solver ``lbfgs``.
_MOST_LINE_STEPS = 50
_LEAST_PROGRESS = 64 * numpy.finfo(float).eps


class LogisticRegression(sklearn.base.ClassifierMixin, steps.PoolEstimator):
    """Logistic regression, like ``sklearn.linear_model.LogisticRegression``.

    It minimises what scikit-learn's solver ``lbfgs`` minimises, with an L2
    penalty. Parameters that are not listed, and all attributes, have
    scikit-learn's meaning. The accelerator rounds records and weights to
    single precision and computes in double precision; coefficients differ
    from scikit-learn's by about 1e-3 of the largest with the default ``tol``.
    Each gradient is computed in the pool; predictions are computed here.

    :param C: inverse of the penalty's strength; ``math.inf``: no penalty.
    :param random_state: ignored, because nothing here is random.
    :param group: see :class:`KMeans`; its accelerator is ``lr``.
    :param options: see :class:`KMeans`.
    """

    classes_: steps.Array
    coef_: steps.Array
    intercept_: steps.Array
    n_iter_: steps.Array

    def __init__(
        self,
        *,
        C: float = 1.0,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int = 100,
        random_state: Any = None,
        group: str | client.Group | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.C = C
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.random_state = random_state
        self.group = group
        self.options = options

    def fit(self, X: Any, y: Any) -> LogisticRegression:
        """Find the weights.

        :param X: records, one in each row.
        :param y: the class of each record.
        :raises ValueError: if a parameter, a record or a class is invalid.
        :raises: as :meth:`KMeans.fit`.
        """
        records, y = sklearn.utils.validation.validate_data(
            self, X, y, dtype=numpy.float64
        )
        sklearn.utils.multiclass.check_classification_targets(y)
        if not self.C > 0:
            raise ValueError(f"C must be more than 0, not {self.C}")
        self.classes_, labels = numpy.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, "
                f"but the data contains only one class: {self.classes_[0]!r}"
            )
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        weights = self._minimised(records, labels, rows)
        features = records.shape[1]
        self.coef_ = weights[:, :features].copy()
        self.intercept_ = (
            weights[:, features].copy()
            if self.fit_intercept
            else numpy.zeros(rows)
        )
        return self

    def _minimised(
        self, records: steps.Array, labels: steps.Array, rows: int
    ) -> steps.Array:
        """Return the best weights, one row for each class or one for two."""
        columns = [labels, steps.as_numbers(records)]
        if self.fit_intercept:
            columns.append(numpy.ones(len(records)))
        table = numpy.column_stack(columns).astype(steps.NUMBER_TYPE)
        features = table.shape[1] - 1
        count = len(records)
        strength = 0.0 if math.isinf(self.C) else 1 / (self.C * count)
        with self._place(_ACCELERATOR) as place:
            of_records = steps.Steps(
                place,
                table,
                rows * features + 1,
                features=features,
                labels=rows,
            )

            def loss(flat: steps.Array) -> tuple[float, steps.Array]:
                weights = flat.reshape(rows, features)
                result = of_records.sum(weights) / count
                gradient = result[:-1].reshape(rows, features).copy()
                penalised = weights[:, : records.shape[1]]
                gradient[:, : records.shape[1]] += strength * penalised
                penalty = strength * numpy.square(penalised).sum() / 2
                return float(result[-1] + penalty), gradient.ravel()

            found = scipy.optimize.minimize(
                loss,
                numpy.zeros(rows * features),
                method="L-BFGS-B",
                jac=True,
                options={
                    "maxiter": self.max_iter,
                    "maxls": _MOST_LINE_STEPS,
                    "gtol": self.tol,
                    "ftol": _LEAST_PROGRESS,
                },
            )
        if found.status == 1:
            warnings.warn(
                f"the weights did not converge in {found.nit} steps "
                f"(max_iter={self.max_iter}); scale the data or allow more",
                sklearn.exceptions.ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = numpy.array([min(found.nit, self.max_iter)], "i4")
        best: steps.Array = found.x.reshape(rows, features)
        return best

    def decision_function(self, X: Any) -> steps.Array:
        """Return the scores of records; computed here.

        :returns: for two classes one number for each record, otherwise one for
            each record and class.
        """
        sklearn.utils.validation.check_is_fitted(self)
        records = sklearn.utils.validation.validate_data(
            self, X, dtype=numpy.float64, reset=False
        )
        scores = records @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> steps.Array:
        """Return the most probable class of each record; computed here."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> steps.Array:
        """Return the probability of each class; computed here."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            ones = scipy.special.expit(scores)
            return numpy.column_stack([1 - ones, ones])
        return scipy.special.softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> steps.Array:
        """Return the logarithm of each class's probability."""
        with numpy.errstate(divide="ignore"):
            return numpy.log(self.predict_proba(X))
