# SPDX-License-Identifier: Apache-2.0

"""Compiles inner loops with numba, if installed, once that is worthwhile.

Without numba, the same functions work on lists instead of arrays; they give
the same results more slowly. With numba (``fpgapool[sim]``), engines also
start this way, because importing numba takes longer than a small simulation.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import typing
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fpgapool.sim import progress

_Function = typing.TypeVar("_Function", bound=Callable[..., object])
_Vectors = typing.TypeVar("_Vectors", bound=tuple[typing.Any, ...])

#: Number of steps without numba that take as long as importing it.
PLAIN_STEPS = 4000

# Without _nrt=False, each call between functions would count a reference to
# each of about forty vectors, which takes longer than everything else. The
# caller keeps the arrays alive while the functions use them.
_OPTIONS = {"_nrt": False}

_KINDS: dict[object, type] = {list[int]: np.int64, list[float]: np.float64}

# Functions that compiled ones may call.
_in_place: list[Callable[..., object]] = []
_steps = 0


def in_place(function: _Function) -> _Function:
    """Mark a function that changes vectors and creates none."""
    _in_place.append(function)
    return function


def pays(steps: int) -> bool:
    """Return whether compiled functions should do the next steps.

    :param steps: number of steps that plain functions would do now. All steps
        of the process are added up.
    """
    global _steps
    _steps += steps
    return _steps > PLAIN_STEPS and _is_installed()


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("numba") is not None


@functools.cache
def compiled(function: _Function) -> _Function:
    """Compile a function that works on :func:`arrays`.

    Its code is cached on disk: next to its source or, if that directory is
    read-only, in the user's cache. If neither is writable, each process
    compiles it again.
    """
    register()
    numba = importlib.import_module("numba")
    try:
        made = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        # Neither directory is writable.
        made = numba.njit(**_OPTIONS)(function)
    return typing.cast(_Function, made)


@functools.cache
def register() -> None:
    """Let compiled functions call the functions marked by in_place.

    From then on, the progress says when one is compiled.
    """
    _note_compiling()
    extending = importlib.import_module("numba.extending")
    for function in _in_place:
        extending.register_jitable(**_OPTIONS)(function)


def _note_compiling() -> None:
    event = importlib.import_module("numba.core.event")

    class Listener(event.Listener):  # type: ignore[misc,name-defined]
        def on_start(self, event: object) -> None:
            progress.begin_note("compiling the engine")

        def on_end(self, event: object) -> None:
            progress.end_note()

    event.register("numba:compile", Listener())


def arrays(vectors: _Vectors) -> _Vectors:
    """Convert a named tuple of lists of numbers to one of arrays."""
    kinds = typing.get_type_hints(type(vectors)).values()
    return type(vectors)(
        *(
            np.array(vector, dtype=_KINDS[kind])
            for vector, kind in zip(vectors, kinds, strict=True)
        )
    )


def matrices(
    vectors: _Vectors,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Convert a named tuple of lists to the rows of two matrices.

    Compiled functions inspect each array that they get, which takes longer
    than a small step on it. All rows are as long as the longest one.
    """
    kinds = typing.get_type_hints(type(vectors)).values()
    width = max(map(len, vectors))
    made: list[npt.NDArray[typing.Any]] = []
    for wanted in (list[int], list[float]):
        rows = [
            vector
            for vector, kind in zip(vectors, kinds, strict=True)
            if kind == wanted
        ]
        made.append(np.zeros((len(rows), width), dtype=_KINDS[wanted]))
        for row, vector in zip(made[-1], rows, strict=True):
            row[: len(vector)] = vector
    return made[0], made[1]
