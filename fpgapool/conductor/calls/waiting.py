# SPDX-License-Identifier: Apache-2.0

"""Limits the number of threads that wait for answers."""

import concurrent.futures
import contextlib
import threading
from collections.abc import Iterator
from typing import TypeVar

from fpgapool.common import exception
from fpgapool.conductor.runtime import pump

_Answer = TypeVar("_Answer")

# A place is free soon, or the conductor is overloaded.
_PLACE_S = 0.05


class Places:
    """Limits the threads that wait."""

    def __init__(self, pumping: pump.Pump, most: int) -> None:
        self._pump = pumping
        self._free = threading.BoundedSemaphore(most)
        self._taken = _Taken()

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Count the current thread as waiting; nested use counts once.

        :raises DatabaseUnavailable: if all of them wait for the database.
        :raises Overloaded: if all of them wait for something else.
        """
        if self._taken.here:
            yield
            return
        failing = self._pump.database_failing
        if not self._free.acquire(timeout=0 if failing else _PLACE_S):
            if failing:
                raise not_durable()
            raise exception.Overloaded(reason="too many queries are waiting")
        self._taken.here = True
        try:
            yield
        finally:
            self._taken.here = False
            self._free.release()


class _Taken(threading.local):
    """Whether this thread already counts as waiting."""

    here = False


def durable(
    future: concurrent.futures.Future[_Answer], limit_s: float
) -> _Answer:
    """Return an answer once it is durable in the database."""
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise not_durable() from None


def not_durable() -> exception.DatabaseUnavailable:
    """Return the error for an answer that is not durable in time."""
    return exception.DatabaseUnavailable(
        reason="the database did not answer in time"
    )
