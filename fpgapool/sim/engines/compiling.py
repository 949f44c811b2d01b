# SPDX-License-Identifier: Apache-2.0

"""Compiles the inner loops if numba is installed (``fpgapool[sim]``).

Without numba the same functions work on lists instead of arrays, and give the
same results more slowly.
"""

from __future__ import annotations

import importlib
import types
import typing
from collections.abc import Callable
from collections.abc import Sequence

import numpy as np

numba: types.ModuleType | None
try:
    numba = importlib.import_module("numba")
except ImportError:
    numba = None

_Function = typing.TypeVar("_Function", bound=Callable[..., object])

#: Whether loops are compiled.
IS_COMPILED: bool = numba is not None


def in_place(function: _Function) -> _Function:
    """Compile a function that changes arrays and makes none.

    The compiled function is cached on disk beside its source.
    """
    if numba is None:
        return function
    # Without _nrt=False each call between functions would count a reference
    # for each of some forty vectors, which took longer than everything else.
    # The caller keeps the arrays alive while the functions use them.
    compiler = numba.njit(cache=True, _nrt=False)
    return typing.cast(_Function, compiler(function))


def floats(values: Sequence[float]) -> list[float]:
    """Return a vector of numbers for compiled functions."""
    vector: list[float] = _vector(values, np.float64)
    return vector


def integers(values: Sequence[int]) -> list[int]:
    """Return a vector of whole numbers for compiled functions."""
    vector: list[int] = _vector(values, np.int64)
    return vector


def _vector(values: Sequence[float], kind: type) -> typing.Any:
    # The functions use arrays, if compiled, in the same ways as lists.
    return np.array(values, dtype=kind) if IS_COMPILED else list(values)
