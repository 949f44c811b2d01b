# SPDX-License-Identifier: Apache-2.0

"""k-means, whose steps run on the accelerator ``km``."""

from __future__ import annotations

import typing
import warnings
from collections.abc import Mapping
from typing import Any

import numpy
import sklearn.base
import sklearn.cluster
import sklearn.exceptions
import sklearn.metrics
import sklearn.utils
import sklearn.utils.validation

from fpgapool import client
from fpgapool.ml import steps

_ACCELERATOR = "km"
#: Tries with ``n_init="auto"`` if the initial centres are not spread out.
_RANDOM_TRIES = 10


class _Found(typing.NamedTuple):
    """What one try has found."""

    centers: steps.Array
    labels: steps.Array
    inertia: float
    steps: int


class KMeans(
    sklearn.base.ClassNamePrefixFeaturesOutMixin,
    sklearn.base.TransformerMixin,
    sklearn.base.ClusterMixin,
    steps.PoolEstimator,
):
    """k-means clustering, like ``sklearn.cluster.KMeans``.

    Parameters that are not listed, and all attributes, have scikit-learn's
    meaning. From the same ``random_state`` it starts with the same centres.
    The accelerator compares distances in double precision, between records
    and centres that were rounded to single precision; so labels differ from
    scikit-learn's only for records whose two nearest centres are equally near
    up to a relative difference of about 1e-6. Each step of Lloyd's algorithm
    runs in the pool; this machine chooses the first centres, and assigns
    records to the last ones, as it does in :meth:`predict`.

    :param group: name of a group with the accelerator ``km``, or an open
        :class:`fpgapool.client.Group`: its members keep the records between
        steps. None: each step is a session, which gets all records.
    :param options: options by name, such as ``front_door`` or ``fallback``:
        those of :func:`fpgapool.client.acc_open`, or, with the name of a
        group, of :func:`fpgapool.client.group_open`.
    """

    cluster_centers_: steps.Array
    labels_: steps.Array
    inertia_: float
    n_iter_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        group: str | client.Group | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.group = group
        self.options = options

    def fit(self, X: Any, y: object = None) -> KMeans:
        """Find the centres.

        :param X: records, one in each row.
        :param y: ignored.
        :raises ValueError: if a parameter or the records are invalid.
        :raises: as :func:`fpgapool.client.run_buffer`, or with a group as
            :func:`fpgapool.client.group_open` and
            :meth:`fpgapool.client.Group.run`.
        """
        records = sklearn.utils.validation.validate_data(
            self, X, dtype=numpy.float64, order="C"
        )
        self._check(records)
        chance = sklearn.utils.check_random_state(self.random_state)
        given = None
        if not isinstance(self.init, str) and not callable(self.init):
            given = self._as_centers(self.init, records)
        # As scikit-learn does it: distances are more precise near zero.
        mean = records.mean(axis=0)
        centred = records - mean
        limit = self.tol * numpy.var(records, axis=0).mean()
        best: _Found | None = None
        with self._place(_ACCELERATOR) as place:
            of_records = steps.Steps(
                place,
                steps.as_numbers(centred),
                self.n_clusters * (records.shape[1] + 1) + 1,
                features=records.shape[1],
                centres=self.n_clusters,
            )
            for _ in range(self._tries(given)):
                if given is not None:
                    first = given - mean
                else:
                    first = self._first(records, centred, mean, chance)
                found = self._try(of_records, centred, first, limit)
                if best is None or found.inertia < best.inertia:
                    best = found
        assert best is not None
        self.cluster_centers_ = best.centers + mean
        self.labels_ = best.labels
        self.inertia_ = best.inertia
        self.n_iter_ = best.steps
        self._n_features_out = self.n_clusters
        distinct = len(numpy.unique(best.labels))
        if distinct < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({distinct}) found smaller than "
                f"n_clusters ({self.n_clusters}). Possibly due to duplicate "
                "points in X.",
                sklearn.exceptions.ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check(self, records: steps.Array) -> None:
        if self.n_clusters < 1 or self.max_iter < 1:
            raise ValueError("n_clusters and max_iter must be at least 1")
        if len(records) < self.n_clusters:
            raise ValueError(
                f"n_samples={len(records)} should be >= "
                f"n_clusters={self.n_clusters}."
            )

    def _tries(self, given: steps.Array | None) -> int:
        if given is not None:
            return 1
        if self.n_init != "auto":
            return int(self.n_init)
        return 1 if self.init == "k-means++" else _RANDOM_TRIES

    def _first(
        self,
        records: steps.Array,
        centred: steps.Array,
        mean: steps.Array,
        chance: numpy.random.RandomState,
    ) -> steps.Array:
        """Choose the first centres, as scikit-learn does."""
        if callable(self.init):
            chosen = self.init(centred, self.n_clusters, random_state=chance)
            return self._as_centers(chosen, records)
        if self.init == "random":
            weights = numpy.ones(len(records)) / len(records)
            chosen = chance.choice(
                len(records), self.n_clusters, replace=False, p=weights
            )
            return centred[chosen]
        if self.init != "k-means++":
            raise ValueError(
                "init must be 'k-means++', 'random', an array or a function, "
                f"not {self.init!r}"
            )
        centers, _ = sklearn.cluster.kmeans_plusplus(
            centred, self.n_clusters, random_state=chance
        )
        return centers

    def _as_centers(self, given: Any, records: steps.Array) -> steps.Array:
        centers = sklearn.utils.check_array(given, dtype=numpy.float64)
        wanted = self.n_clusters, records.shape[1]
        if centers.shape != wanted:
            raise ValueError(
                f"the shape of the initial centers is {centers.shape}, not "
                f"{wanted}"
            )
        return centers

    def _try(
        self,
        of_records: steps.Steps,
        centred: steps.Array,
        centers: steps.Array,
        limit: float,
    ) -> _Found:
        """Move the centres until they stay where they are."""
        taken = 0
        for _ in range(self.max_iter):
            taken += 1
            sums = of_records.sum(centers)[:-1].reshape(self.n_clusters, -1)
            moved = _centers(centred, centers, sums)
            shift = numpy.square(moved - centers).sum()
            centers = moved
            if shift <= limit:
                break
        labels = _nearest(centred, centers)
        apart = centred - centers[labels]
        inertia = float(numpy.einsum("ij,ij->", apart, apart))
        return _Found(centers, labels, inertia, taken)

    def predict(self, X: Any) -> steps.Array:
        """Return the nearest centre of each record; computed here."""
        return _nearest(self._checked(X), self.cluster_centers_)

    def transform(self, X: Any) -> steps.Array:
        """Return the distances of records to all centres; computed here."""
        return sklearn.metrics.euclidean_distances(
            self._checked(X), self.cluster_centers_
        )

    def score(self, X: Any, y: object = None) -> float:
        """Return the negative inertia of records; computed here."""
        records = self._checked(X)
        labels = _nearest(records, self.cluster_centers_)
        apart = records - self.cluster_centers_[labels]
        return -float(numpy.einsum("ij,ij->", apart, apart))

    def _checked(self, X: Any) -> steps.Array:
        sklearn.utils.validation.check_is_fitted(self)
        return sklearn.utils.validation.validate_data(
            self, X, dtype=numpy.float64, reset=False
        )


def _nearest(records: steps.Array, centers: steps.Array) -> steps.Array:
    labels = sklearn.metrics.pairwise_distances_argmin(records, centers)
    return labels.astype(numpy.int32)


def _centers(
    records: steps.Array, former: steps.Array, sums: steps.Array
) -> steps.Array:
    """Return the next centres.

    A centre without records goes to the record that is farthest from its own
    centre, as in scikit-learn.

    :param sums: for each centre, the sum of its records and their count.
    """
    totals, counts = sums[:, :-1].copy(), sums[:, -1].copy()
    empty = numpy.flatnonzero(counts == 0)
    if len(empty):
        labels = _nearest(records, former)
        apart = numpy.square(records - former[labels]).sum(axis=1)
        if apart.max() == 0:
            # All records are on centres, so there is nowhere to go.
            totals[empty], counts[empty] = former[empty], 1
            return totals / counts[:, None]
        far = numpy.argpartition(apart, -len(empty))[: -len(empty) - 1 : -1]
        for centre, record in zip(empty, far, strict=True):
            totals[labels[record]] -= records[record]
            counts[labels[record]] -= 1
            totals[centre], counts[centre] = records[record], 1
        emptied = counts <= 0
        totals[emptied], counts[emptied] = former[emptied], 1
    return totals / counts[:, None]
