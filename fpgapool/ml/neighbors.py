# SPDX-License-Identifier: Apache-2.0

"""Nearest series, by distances from the accelerator ``dtw``."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy
import numpy.typing
import sklearn.base
import sklearn.utils.multiclass
import sklearn.utils.validation

from fpgapool import client
from fpgapool.client import arrays
from fpgapool.ml import steps

_ACCELERATOR = "dtw"
_DISTANCE_TYPE = numpy.dtype("<f8")
#: About how many bytes of pairs are sent at once.
_PIECE_BYTES = 1 << 20


def dtw(
    a: numpy.typing.ArrayLike,
    b: numpy.typing.ArrayLike,
    *,
    window_samples: int | None = None,
    **options: Any,
) -> Any:
    """Measure the distance between two series by dynamic time warping.

    The last dimension is a series; the others are broadcast. Numbers are
    converted to double precision.

    :param window_samples: maximum distance in time between aligned samples;
        None means no limit.
    :param options: those of :func:`fpgapool.client.acc_open`.
    :returns: a number for two series, otherwise an array.
    :raises: as :func:`fpgapool.client.arrays.dtw`.
    """
    distances = arrays.dtw(
        numpy.asarray(a, _DISTANCE_TYPE),
        numpy.asarray(b, _DISTANCE_TYPE),
        window_samples=window_samples,
        **options,
    )
    return distances if distances.ndim else float(distances)


class KNeighborsClassifier(sklearn.base.ClassifierMixin, steps.PoolEstimator):
    """Classifies series by their nearest neighbours.

    It is like ``sklearn.neighbors.KNeighborsClassifier``, with the distance of
    dynamic time warping, which the pool computes in double precision for each
    pair. Of equally near neighbours, the first is nearer; of classes with as
    many neighbours, the first wins.

    :param n_neighbors: how many neighbours vote.
    :param window_samples: see :func:`dtw`.
    :param group: see :class:`KMeans`; its accelerator is ``dtw``.
    :param options: see :class:`KMeans`.
    """

    classes_: steps.Array

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        window_samples: int | None = None,
        group: str | client.Group | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.window_samples = window_samples
        self.group = group
        self.options = options

    def fit(self, X: Any, y: Any) -> KNeighborsClassifier:
        """Keep the series and their classes.

        :param X: series of equal length, one in each row.
        :raises ValueError: if a parameter, a series or a class is invalid.
        """
        series, y = sklearn.utils.validation.validate_data(
            self, X, y, dtype=_DISTANCE_TYPE
        )
        sklearn.utils.multiclass.check_classification_targets(y)
        if self.n_neighbors < 1:
            raise ValueError("n_neighbors must be at least 1")
        self._series = series
        self.classes_, self._labels = numpy.unique(y, return_inverse=True)
        self.n_samples_fit_ = len(series)
        return self

    def kneighbors(
        self,
        X: Any,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest of the series that were given to :meth:`fit`.

        :param n_neighbors: how many; None: as many as vote.
        :returns: their distances and their numbers, the nearest first, or only
            their numbers.
        :raises ValueError: if there are fewer series.
        :raises: as :meth:`KMeans.fit`.
        """
        sklearn.utils.validation.check_is_fitted(self, "classes_")
        series = sklearn.utils.validation.validate_data(
            self, X, dtype=_DISTANCE_TYPE, reset=False
        )
        wanted = self.n_neighbors if n_neighbors is None else n_neighbors
        if not 1 <= wanted <= len(self._series):
            raise ValueError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = "
                f"{wanted}, n_samples_fit = {len(self._series)}"
            )
        distances = self._distances(series)
        order = distances.argsort(axis=1, kind="stable")[:, :wanted]
        if not return_distance:
            return order
        return numpy.take_along_axis(distances, order, axis=1), order

    def _distances(self, series: steps.Array) -> steps.Array:
        """Return the distances of all series to all known ones."""
        length = series.shape[1]
        params = {"length_samples": length, "dtype": _DISTANCE_TYPE.name}
        if self.window_samples is not None:
            params["window_samples"] = self.window_samples
        pair_bytes = 2 * length * _DISTANCE_TYPE.itemsize
        count = len(series) * len(self._series)
        with self._place(_ACCELERATOR) as place:
            outputs = place.outputs(
                self._pieces(series, max(1, _PIECE_BYTES // pair_bytes)),
                count * pair_bytes,
                **params,
            )
            distances = numpy.frombuffer(b"".join(outputs), _DISTANCE_TYPE)
        return distances.reshape(len(series), -1)

    def _pieces(
        self, series: steps.Array, piece_pairs: int
    ) -> Iterator[memoryview]:
        """Yield all pairs, so many at once."""
        known = self._series
        count = len(series) * len(known)
        for start in range(0, count, piece_pairs):
            numbers = numpy.arange(start, min(start + piece_pairs, count))
            first, second = numpy.divmod(numbers, len(known))
            pairs = numpy.stack([series[first], known[second]], axis=1)
            yield pairs.reshape(-1).view(numpy.uint8).data

    def predict_proba(self, X: Any) -> steps.Array:
        """Return the share of each class among the neighbours."""
        nearest = self.kneighbors(X, return_distance=False)
        near = self._labels[nearest]
        votes = near[:, :, None] == numpy.arange(len(self.classes_))
        shares: steps.Array = votes.mean(axis=1)
        return shares

    def predict(self, X: Any) -> steps.Array:
        """Return the class of most neighbours of each series."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]
