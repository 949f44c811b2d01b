# SPDX-License-Identifier: Apache-2.0

"""Process inputs with accelerators in background threads."""

from __future__ import annotations

import collections
import concurrent.futures
import threading
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from fpgapool.client import arrays
from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.vocabulary import shapes

Result: typing.TypeAlias = Any


@session_options.shown
def submit(
    accelerator: str,
    data: Any,
    *,
    convert: bool = False,
    timeout_s: float | None = None,
    **named: Any,
) -> concurrent.futures.Future[Result]:
    """Process an array or bytes in the background.

    ``asyncio.wrap_future`` makes the future awaitable. Cancelling the future,
    or the task that awaits it, ends the session at once. The background thread
    does not prevent the interpreter from exiting.

    :param data: ``bytes`` or similar memory, as in :func:`run_buffer`;
        anything else is an array, as in :func:`run_array`.
    :param named: see :func:`run_array`.
    :returns: the future of the output: a ``bytearray`` or an array. Its errors
        are those of :func:`run_buffer` and :func:`run_array`.
    :raises errors.InvalidRequest: if a check that needs no request fails.
    """
    call = arrays.Call("submit", accelerator, named, convert=convert)
    checks.seconds(timeout_s, "timeout_s")
    return _start(call, data, timeout_s)


@session_options.shown
def map(
    accelerator: str,
    inputs: Iterable[Any],
    *,
    sessions: int = 4,
    convert: bool = False,
    timeout_s: float | None = None,
    **named: Any,
) -> Iterator[Result]:
    """Process many arrays or byte buffers.

    Each input has its own session. For many short inputs, a group is faster:
    :meth:`Group.map`. Closing the iterator, or an error, ends the running
    sessions.

    :param inputs: see ``data`` of :func:`submit`; they are read as sessions
        end, so at most ``sessions`` inputs and outputs are in memory.
    :param sessions: maximum number of open and waiting sessions.
    :param timeout_s: time limit for each input.
    :param named: see :func:`run_array`; the same for all inputs.
    :raises errors.InvalidRequest: immediately, if an argument is invalid;
        ``request_id`` is not accepted, because it names a single session.
    :raises TypeError: immediately, for the same reasons as :func:`run_array`.
    :raises: as :func:`run_array` and :func:`run_buffer`, when the iterator
        reaches the input that failed; the error's ``index`` is the input's
        number, from 0.
    """
    call = arrays.Call("map", accelerator, named, convert=convert)
    checks.argument(shapes.integer(1), sessions, "sessions")
    if call.options.get("request_id") is not None:
        raise errors.invalid(
            "map() opens several sessions, so it does not accept request_id"
        )
    call.check(timeout_s)
    return _outputs(call, inputs, sessions, timeout_s)


def _outputs(
    call: arrays.Call,
    inputs: Iterable[Any],
    sessions: int,
    timeout_s: float | None,
) -> Iterator[Result]:
    running: collections.deque[concurrent.futures.Future[Result]] = (
        collections.deque()
    )
    index = 0
    try:
        for data in inputs:
            running.append(_start(call, data, timeout_s))
            # Do not keep an input alive after its session.
            del data
            if len(running) == sessions:
                yield _first(running, index)
                index += 1
        while running:
            yield _first(running, index)
            index += 1
    finally:
        for future in running:
            future.cancel()


def _first(
    running: collections.deque[concurrent.futures.Future[Result]], index: int
) -> Result:
    try:
        output = running[0].result()
    except Exception as exc:
        exc.add_note(f"input {index} of map()")
        if isinstance(exc, errors.FpgapoolError):
            exc.index = index
        raise
    running.popleft()
    return output


class _Future(concurrent.futures.Future[Result]):
    """A future that is never marked as running, so it remains cancellable."""

    def __init__(self) -> None:
        super().__init__()
        self.token = cancelling.LinkedToken()

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if cancelled:
            self.token.cancel()
        return cancelled


def _start(
    call: arrays.Call, data: Any, timeout_s: float | None
) -> concurrent.futures.Future[Result]:
    future = _Future()
    threading.Thread(
        target=_run,
        args=(call, data, timeout_s, future),
        name="fpgapool-submit",
        daemon=True,
    ).start()
    return future


def _run(
    call: arrays.Call, data: Any, timeout_s: float | None, future: _Future
) -> None:
    output, error = None, None
    try:
        output = _cancellable(call, data, timeout_s, future.token)
    except BaseException as exc:
        errors.release_frames(exc)
        error = exc
    if future.set_running_or_notify_cancel():
        if error is None:
            future.set_result(output)
        else:
            future.set_exception(error)
    # See errors.FpgapoolError.again().
    del error, future


def _cancellable(
    call: arrays.Call,
    data: Any,
    timeout_s: float | None,
    token: cancelling.LinkedToken,
) -> Result:
    callers = cancelling.token_of(call.options.get("cancel"))
    callers.attach(token)
    try:
        return call.run(data, timeout_s, token)
    finally:
        callers.detach(token)
        cancelling.release(callers)
