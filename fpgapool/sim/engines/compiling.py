# SPDX-License-Identifier: Apache-2.0

"""Compile the inner loops, where numba is installed (``fpgapool[sim]``).

Without it the same functions run as they are, on lists instead of arrays,
and give the same results more slowly.
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
    """Compile a function that works in the arrays that it is given.

    It must not make any itself. It is remembered on disk beside its source.
    """
    if numba is None:
        return function
    # Without _nrt=False each call from one function to another would count
    # a reference for each of some forty vectors, which took longer than all
    # the rest. Our caller holds the arrays as long as we use them.
    compiler = numba.njit(cache=True, _nrt=False)
    return typing.cast(_Function, compiler(function))


def floats(values: Sequence[float]) -> list[float]:
    """A vector of numbers that compiled functions take."""
    vector: list[float] = _vector(values, np.float64)
    return vector


def integers(values: Sequence[int]) -> list[int]:
    """A vector of whole numbers that compiled functions take."""
    vector: list[int] = _vector(values, np.int64)
    return vector


def _vector(values: Sequence[float], kind: type) -> typing.Any:
    # An array, where compiled, can do all that is done with these lists.
    return np.array(values, dtype=kind) if IS_COMPILED else list(values)
