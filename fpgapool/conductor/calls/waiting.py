# SPDX-License-Identifier: Apache-2.0

"""Threads that wait for answers on behalf of callers."""

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
    """Bounds the threads that wait.

    :param pumping: knows whether the database is away.
    :param most: how many may wait at the same time.
    """

    def __init__(self, pumping: pump.Pump, most: int) -> None:
        self._pump = pumping
        self._free = threading.BoundedSemaphore(most)
        self._taken = _Taken()

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Be one of the threads that may wait; a nested use takes no place.

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
            raise exception.Overloaded(reason="too many questions wait")
        self._taken.here = True
        try:
            yield
        finally:
            self._taken.here = False
            self._free.release()


class _Taken(threading.local):
    """Whether this thread has a place."""

    here = False


def durable(
    future: concurrent.futures.Future[_Answer], limit_s: float
) -> _Answer:
    """Return an answer that waits for the database.

    :raises DatabaseUnavailable: if there is none in time.
    """
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise not_durable() from None


def not_durable() -> exception.DatabaseUnavailable:
    """Return why an answer does not come."""
    return exception.DatabaseUnavailable(
        reason="no durable answer at the moment"
    )
