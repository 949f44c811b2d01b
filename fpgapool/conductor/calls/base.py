# SPDX-License-Identifier: Apache-2.0

"""The base of all calls: checks arguments, and waits for answers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fractions
import functools
import inspect
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import TypeVar

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.views import questions
from fpgapool.conductor.runtime import dry_runs
from fpgapool.conductor.runtime import pump
from fpgapool.db import api as db_api
from fpgapool.vocabulary import shapes

# Shorter than the callers' timeouts, so that callers receive the reason. The
# first limit is for calls that callers retry, the second for the others.
ANSWER_S = 3.0
CHANGE_S = 5.0

# Share of the threads that may wait for answers: while the database does not
# answer, the others continue to process agents' messages.
_ASKING_SHARE = fractions.Fraction(3, 4)
# With fewer threads, queries and agents' messages would block each other.
_MIN_THREADS = 4

# A call is refused with Overloaded if no place is free within this time.
_PLACE_S = 0.05

_SHAPES: dict[Any, shapes.Shape[Any]] = {
    "str": shapes.text(),
    "int": shapes.integer(),
}

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Answer = TypeVar("_Answer")


def places(threads: int) -> int:
    """Return how many calls may wait for an answer at the same time.

    :raises ConfigurationError: if there are too few threads.
    """
    if threads < _MIN_THREADS:
        raise exception.ConfigurationError(
            reason=f"[DEFAULT] executor_thread_pool_size is {threads}; the"
            f" conductor needs at least {_MIN_THREADS}"
        )
    return int(threads * _ASKING_SHARE)


def call(method: _Method) -> _Method:
    """Mark a method as a call; its callers receive its errors.

    ``str`` and ``int`` arguments are checked: callers may send anything.
    """
    signature = inspect.signature(method)
    expected: dict[str, shapes.Shape[Any]] = {
        name: _SHAPES[parameter.annotation]
        for name, parameter in signature.parameters.items()
        if parameter.annotation in _SHAPES
    }
    checked: Callable[..., Any] = method
    if expected:
        shape = shapes.Members({}, expected, others=True)

        @functools.wraps(method)
        def checked(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            limits.argument(shape, given, "")
            return method(*args, **kwargs)

    expects = messaging.expected_exceptions(exception.FpgapoolException)
    return expects(checked)  # type: ignore[no-any-return]


class Calls(rpc.Endpoint):
    """The base of all calls.

    A call with a malformed payload fails with ``INVALID_REQUEST``; a cast with
    one is logged and dropped.

    :param database: for rows that the engine no longer keeps in memory.
    :param signer: returns the name of the key that signed a bitstream, given
        its signature, SHA-256 and format; None: callers have verified the
        signature.
    """

    def __init__(
        self,
        pumping: pump.Pump,
        database: db_api.Database,
        epoch: int,
        max_asking: int = 48,
        signer: Callable[[str, str, str], str] | None = None,
    ) -> None:
        self._pump = pumping
        self._database = database
        self._epoch = epoch
        self._signer = signer
        self._places = Places(pumping, max_asking)
        self._dry_runs = dry_runs.DryRuns()
        # Each host's last report: raw payload and parsed object.
        self._reports: dict[str, tuple[Any, objects.AgentReport]] = {}
        self._reported = threading.Condition()

    def _change(self, wanted: inputs.Change) -> Any:
        """Process a change, and return its answer once it is durable."""
        with self._places.take():
            self._offer(wanted)
            answer = durable(wanted.future, CHANGE_S)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _offer(
        self, item: inputs.Input, project_id: str | None = None
    ) -> None:
        """Queue an input that a caller waits for."""
        if not self._pump.offer(item, project_id):
            raise exception.Overloaded(reason="too many requests are waiting")

    def _ask(
        self,
        question: Callable[[questions.Questions], _Answer],
        *,
        durable: bool = True,
    ) -> _Answer:
        # A query that does not need the database is answered immediately.
        place = self._places.take() if durable else contextlib.nullcontext()
        with place:
            try:
                return self._pump.ask(question, ANSWER_S, durable=durable)
            except TimeoutError:
                raise not_durable() from None


class Places:
    """Limits the number of waiting threads."""

    def __init__(self, pumping: pump.Pump, most: int) -> None:
        self._pump = pumping
        self._free = threading.BoundedSemaphore(most)
        self._taken = _Taken()

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Count the current thread as waiting; nested use counts once.

        :raises DatabaseUnavailable: if all places are taken by calls that wait
            for the database.
        :raises Overloaded: if all places are taken by other calls.
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
    """Wait for an answer, which is durable once it arrives."""
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise not_durable() from None


def not_durable() -> exception.DatabaseUnavailable:
    """Return the error for an answer that does not arrive in time."""
    return exception.DatabaseUnavailable(
        reason="the database did not answer in time"
    )
