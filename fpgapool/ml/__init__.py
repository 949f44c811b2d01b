# SPDX-License-Identifier: Apache-2.0

"""Estimators with scikit-learn's interface that compute in the pool.

:class:`KMeans`, :class:`LogisticRegression` and :class:`KNeighborsClassifier`
fit into pipelines, searches and other tools of scikit-learn; :func:`dtw`
measures distances between series. They need ``fpgapool[ml]``, and to compute
without the pool ``fpgapool[emulator]``. Importing this package loads neither
scikit-learn nor NumPy.

``steps`` runs an accelerator on the same records again and again;
``kmeans``, ``logistic`` and ``neighbors`` contain the estimators.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from fpgapool.ml.kmeans import KMeans as KMeans
    from fpgapool.ml.logistic import LogisticRegression as LogisticRegression
    from fpgapool.ml.neighbors import (
        KNeighborsClassifier as KNeighborsClassifier,
    )
    from fpgapool.ml.neighbors import dtw as dtw

_MODULES = {
    "KMeans": "kmeans",
    "KNeighborsClassifier": "neighbors",
    "LogisticRegression": "logistic",
    "dtw": "neighbors",
}
#: What the extra ``ml`` installs, as Python imports it.
_LIBRARIES = ("numpy", "scipy", "sklearn")

__all__ = list(_MODULES)

if not typing.TYPE_CHECKING:

    def __getattr__(name):
        """Import the module of a public name.

        :raises AttributeError: if there is no such name.
        :raises ModuleNotFoundError: if the extra ``ml`` is not installed.
        """
        if name not in _MODULES:
            raise AttributeError(f"module {__name__} has no attribute {name}")
        try:
            module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        except ModuleNotFoundError as exc:
            if (exc.name or "").partition(".")[0] not in _LIBRARIES:
                raise
            raise ModuleNotFoundError(
                f"fpgapool.ml requires scikit-learn: pip install "
                f"'fpgapool[ml]' ({exc})",
                name=exc.name,
            ) from exc
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
