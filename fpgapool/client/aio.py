# SPDX-License-Identifier: Apache-2.0

"""The client library for asyncio, without a thread for each session.

The functions are those of :mod:`fpgapool.client`, with the same arguments and
errors; they are awaited. Whenever a call waits for a socket or for time to
pass, the event loop runs other tasks. Cancelling a task, or a timeout, ends
its request or session, and gives the slot back before the task ends.

At most :data:`MAX_THREADS` threads, for the whole process, do what cannot be
awaited: requests to the REST API, the search for an API, and computing on the
CPU as a fallback. A session through the front door of its host, with shared
memory, TCP or TLS, needs none. This requires ``fpgapool[aio]``, which installs
greenlet: it lets a call that waits hand over to the event loop.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import functools
import select
import threading
import types
import typing
from collections.abc import AsyncIterable
from collections.abc import AsyncIterator
from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Self
from typing import TypeVar
from typing import Unpack

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client import shown
from fpgapool.client.chains import chain as chains
from fpgapool.client.chains import transfer as chain_transfers
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import opening
from fpgapool.client.sessions import session as sessions
from fpgapool.client.sessions import together
from fpgapool.client.transfers import feeding
from fpgapool.client.transfers import sinks
from fpgapool.client.transfers import transfer
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes

if typing.TYPE_CHECKING:
    from fpgapool.client import arrays

#: Most threads that this module uses in a process.
MAX_THREADS = 16
# How many outputs of a stream may wait for whoever takes them.
_AHEAD = 2

_T = TypeVar("_T")
_Result: typing.TypeAlias = Any


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(
        MAX_THREADS, thread_name_prefix="fpgapool-aio"
    )


class _Waiter:
    """Runs a call that blocks; where it would wait, the event loop goes on.

    The call is in a greenlet. To wait, it switches back to the task with a
    future, and the task continues it when the future is done.
    """

    def __init__(self, token: cancelling.CancelToken) -> None:
        try:
            import greenlet
        except ModuleNotFoundError as exc:
            raise ModuleNotFoundError(
                "fpgapool.client.aio requires greenlet: pip install "
                f"'fpgapool[aio]' ({exc})",
                name=exc.name,
            ) from exc
        self._greenlet = greenlet
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._token = token
        self._parked: asyncio.Future[None] | None = None
        self._woken = False

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run the call.

        If this task is cancelled, the token is: the call then gives up what it
        has, which takes seconds at most, and this raises CancelledError.
        """
        self._token.attach(self)
        cancelled: asyncio.CancelledError | None = None
        try:
            work = self._greenlet.greenlet(call)
            work.gr_context = contextvars.copy_context()
            result = self._switch(work)
            while not work.dead:
                try:
                    await result
                except asyncio.CancelledError as exc:
                    if cancelled is None:
                        cancelled = exc.with_traceback(None)
                        self._token.cancel()
                result = self._switch(work)
            if cancelled is None:
                return typing.cast(_T, result)
            if isinstance(result, sessions.Session):
                # It was opened at the last moment.
                await _Waiter(cancelling.CancelToken()).run(result.abort)
        except errors.Cancelled:
            if cancelled is None:
                raise
        finally:
            self._token.detach(self)
            # The errors of the call may refer to this task's variables.
            result = work = None
        try:
            raise cancelled
        finally:
            cancelled = None

    def _switch(self, work: Any) -> Any:
        former = waits.current()
        waits.use(self)
        try:
            return work.switch()
        finally:
            waits.use(former)

    def ready(self, fd: int, events: int, timeout_s: float | None) -> bool:
        """See :meth:`waits.Waiter.ready`."""
        loop = self._loop
        reads, writes = events & select.POLLIN, events & select.POLLOUT
        if reads:
            loop.add_reader(fd, self._wake)
        if writes:
            loop.add_writer(fd, self._wake)
        try:
            return self._park(timeout_s)
        finally:
            if reads:
                loop.remove_reader(fd)
            if writes:
                loop.remove_writer(fd)

    def park(self, timeout_s: float | None) -> None:
        """See :meth:`waits.Waiter.park`."""
        self._park(timeout_s)

    def _park(self, timeout_s: float | None) -> bool:
        """Wait to be woken; return False after the limit."""
        if self._woken:
            self._woken = False
            return True
        parked = self._parked = self._loop.create_future()
        timer = None
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, self._end, parked)
        self._greenlet.getcurrent().parent.switch(parked)
        self._parked = None
        if timer is not None:
            timer.cancel()
        woken, self._woken = self._woken, False
        return woken or parked.cancelled()

    @staticmethod
    def _end(parked: asyncio.Future[None]) -> None:
        if not parked.done():
            parked.set_result(None)

    def _wake(self) -> None:
        self._woken = True
        if self._parked is not None:
            self._end(self._parked)

    def wake(self) -> None:
        """See :meth:`waits.Waiter.wake`."""
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            self._loop.call_soon_threadsafe(self._wake)

    #: For the token, when another thread cancels it.
    shutdown = wake

    def start(self, work: Callable[[], object]) -> None:
        """See :meth:`waits.Waiter.start`."""
        _threads().submit(work)

    def spawn(self, work: Callable[[], object]) -> _Beside:
        """See :meth:`waits.Waiter.spawn`."""
        return _Beside(self._loop.create_task(_Waiter(self._token).run(work)))

    def await_(
        self, awaitable: Awaitable[_T], is_over: Callable[[], bool]
    ) -> _T:
        """Wait for what tasks await.

        :param is_over: asked when this is woken.
        :raises waiting.Stopped: if it is over.
        """
        future = asyncio.ensure_future(awaitable, loop=self._loop)
        future.add_done_callback(lambda _: self._wake())
        try:
            while not future.done():
                self._token.check()
                if is_over():
                    raise waiting.Stopped
                self._park(None)
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def offload(self, work: Callable[[], _T]) -> _T:
        """See :meth:`waits.Waiter.offload`."""
        future = _threads().submit(work)
        future.add_done_callback(lambda _: self.wake())
        while not future.done():
            self._park(None)
        return future.result()


class _Beside:
    """A call that runs beside another one, as a task of its own."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        # Its errors are its own affair: see waits.spawn().
        task.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )

    def is_alive(self) -> bool:
        """See :meth:`waits.Running.is_alive`."""
        return not self._task.done()

    def join(self, timeout_s: float | None = None) -> None:
        """See :meth:`waits.Running.join`."""
        waiter = waits.current()
        assert waiter is not None
        due_s = channel.deadline_after(timeout_s)
        self._task.add_done_callback(lambda _: waiter.wake())
        while not self._task.done() and channel.remaining_s(due_s) != 0:
            waiter.park(channel.remaining_s(due_s))


async def _run(
    call: Callable[[], _T], token: cancelling.CancelToken | None = None
) -> _T:
    return await _Waiter(token or cancelling.CancelToken()).run(call)


async def _run_with(
    call: Callable[..., _T],
    options: session_options.Options,
    token: cancelling.LinkedToken | None = None,
    *,
    bridges: bool = False,
) -> _T:
    """Run a call that opens sessions, with a token for this task alone.

    :param bridges: whether it accepts ``meanwhile``.
    """
    if options.get("meanwhile") is not None and not bridges:
        raise errors.invalid(
            "meanwhile needs a thread for each session, so the functions of "
            "client.aio do not accept it; use client.submit()"
        )
    token = token or cancelling.LinkedToken()
    callers = cancelling.token_of(options.get("cancel"))
    callers.attach(token)
    try:
        return await _run(functools.partial(call, cancel=token), token)
    finally:
        callers.detach(token)
        cancelling.release(callers)


class Session(shown.Shown):
    """An open session, returned by :func:`acc_open`.

    It is an asynchronous context manager. Only one task at a time may use it.
    Attributes such as ``view``, ``pin`` and ``statistics`` are those of
    :class:`fpgapool.client.Session`.
    """

    def __init__(
        self, session: sessions.Session, token: cancelling.LinkedToken
    ) -> None:
        self._session = session
        self._token = token

    def _facts(self) -> Mapping[str, object]:
        return self._session._facts()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("using", "flow"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        return getattr(self._session, name)

    async def run(
        self,
        data: int | transfer.Buffer | blocks.Block | None = None,
        *,
        timeout_s: float | None = None,
    ) -> memoryview:
        """Process data; see :meth:`fpgapool.client.Session.run`.

        :param data: number of bytes of ``pin``, None for all; a block; or the
            input itself, which is copied into ``pin``.
        :returns: the output, valid until the next :meth:`run`.
        """
        call = functools.partial(self._session.run, data, timeout_s=timeout_s)
        return await self._use(call)

    async def finish(self, *, timeout_s: float | None = None) -> memoryview:
        """End the input; see :meth:`fpgapool.client.Session.finish`."""
        call = functools.partial(self._session.finish, timeout_s=timeout_s)
        return await self._use(call)

    async def _use(self, call: Callable[[], _T]) -> _T:
        try:
            return await _run(call, self._token)
        except asyncio.CancelledError:
            await _run(self._session.abort)
            raise

    async def close(
        self, *, timeout_s: float | None = sessions.CLOSE_TIMEOUT_S
    ) -> None:
        """Release the slot; see :meth:`fpgapool.client.Session.close`."""
        call = functools.partial(self._session.close, timeout_s=timeout_s)
        await self._use(call)

    async def abort(self) -> None:
        """Release the slot at once, whatever its state; never raises."""
        await _run(self._session.abort)

    async def __aenter__(self) -> Self:
        self._session.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if kind is not None:
            await self.abort()
        elif not self._session.closed:
            await self.close()


@session_options.accepted
async def acc_open(
    accelerator: str,
    size_bytes: int,
    *,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> Session:
    """Get a slot with an accelerator; see :func:`fpgapool.client.acc_open`.

    ``meanwhile`` is not accepted.
    """
    token = cancelling.LinkedToken()

    def call(cancel: cancelling.CancelToken) -> sessions.Session:
        given: session_options.Options = {**options, "cancel": cancel}
        return opening.acc_open(
            accelerator, size_bytes, timeout_s=timeout_s, **given
        )

    return Session(await _run_with(call, options, token), token)


class SessionSet(together.Members[Session]):
    """The sessions of a set; see :class:`fpgapool.client.SessionSet`.

    It is an asynchronous context manager, which closes all.
    """

    async def close(
        self, *, timeout_s: float | None = sessions.CLOSE_TIMEOUT_S
    ) -> None:
        """Release all slots; see :meth:`fpgapool.client.SessionSet.close`."""
        found = await asyncio.gather(
            *(one.close(timeout_s=timeout_s) for one in self),
            return_exceptions=True,
        )
        failed = {
            number: exc
            for number, exc in enumerate(found)
            if isinstance(exc, BaseException)
        }
        if failed:
            raise together.first_cause(failed)

    async def abort(self) -> None:
        """Release all slots at once, whatever their state; never raises."""
        await asyncio.gather(*(one.abort() for one in self))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if kind is not None:
            await self.abort()
        else:
            await self.close()


@session_options.accepted
async def acc_open_set(
    members: Iterable[together.Member],
    *,
    placement: str | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> SessionSet:
    """Get several slots at the same time, or none.

    See :func:`fpgapool.client.acc_open_set`.
    """
    plan = together.Plan(members, placement, options)
    tasks = [
        asyncio.ensure_future(acc_open(**call, timeout_s=timeout_s))
        for call in plan.calls
    ]
    failed: dict[int, BaseException] = {}

    def note(task: asyncio.Future[Session]) -> None:
        if not task.cancelled() and task.exception() is not None:
            failed[tasks.index(task)] = typing.cast(
                BaseException, task.exception()
            )

    for task in tasks:
        task.add_done_callback(note)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        opened = await _ended(tasks)
    if len(opened) == len(tasks):
        return SessionSet(plan.set_id, opened)
    raise together.first_cause(failed)


async def _ended(tasks: Sequence[asyncio.Future[Session]]) -> list[Session]:
    """Return the sessions if all are open; else end those that are."""
    if all(
        task.done() and not task.cancelled() and task.exception() is None
        for task in tasks
    ):
        return [task.result() for task in tasks]
    for task in tasks:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    for one in found:
        if isinstance(one, Session):
            await one.abort()
    return []


@session_options.accepted
async def run_buffer(
    accelerator: str,
    data: transfer.Buffer,
    *,
    into: bytearray | memoryview | None = None,
    progress: transfer.Progress | bool | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> tuple[bytearray | memoryview, transfer.RunReport]:
    """Send bytes through an accelerator.

    See :func:`fpgapool.client.run_buffer`; ``meanwhile`` is not accepted.
    """

    def call(cancel: cancelling.CancelToken) -> Any:
        given: session_options.Options = {**options, "cancel": cancel}
        return transfer.run_buffer(
            accelerator,
            data,
            into=into,  # type: ignore[arg-type]
            progress=progress,
            timeout_s=timeout_s,
            **given,
        )

    found: tuple[bytearray | memoryview, transfer.RunReport]
    found = await _run_with(call, options)
    return found


@session_options.shown
async def run_array(
    accelerator: str,
    array: arrays.ArrayLike,
    *,
    convert: bool = False,
    timeout_s: float | None = None,
    **named: Any,
) -> arrays.Array:
    """Process an array; see :func:`fpgapool.client.run_array`.

    ``meanwhile`` is not accepted.
    """
    from fpgapool.client import arrays

    made = arrays.Call("run_array", accelerator, named, convert=convert)

    def call(cancel: cancelling.CancelToken) -> Any:
        return made.run(array, timeout_s, cancel)

    return await _run_with(call, made.options)


@session_options.accepted
async def run_stream(
    accelerator: str,
    source: AsyncIterable[bytes],
    size_bytes: int,
    *,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> AsyncIterator[bytes]:
    """Send a stream through an accelerator, piece by piece.

    A piece is sent when it is as long as the slot's buffer, or the source has
    ended; its output is yielded before the next piece is read.

    :param source: yields the input.
    :param size_bytes: size of the input.
    :param timeout_s: time limit for each wait: for the slot, and for the
        output of a piece.
    :raises errors.InvalidRequest: with code ``SIZE_MISMATCH`` if the input has
        another size.
    :raises: as :func:`acc_open` and :meth:`Session.run`.
    """
    session = await acc_open(
        accelerator, max(size_bytes, 1), timeout_s=timeout_s, **options
    )
    left_bytes = size_bytes
    async with session:
        whole_bytes = len(session.pin)
        multiple_bytes = session._session.flow.chunk_multiple_bytes
        whole_bytes -= whole_bytes % multiple_bytes
        filled_bytes = 0
        async for data in source:
            rest = memoryview(data)
            left_bytes -= len(rest)
            if left_bytes < 0:
                raise _wrong_size("longer")
            while rest:
                part = rest[: whole_bytes - filled_bytes]
                rest = rest[len(part) :]
                session.pin[filled_bytes : filled_bytes + len(part)] = part
                filled_bytes += len(part)
                if filled_bytes == whole_bytes:
                    filled_bytes = 0
                    output = await session.run(
                        whole_bytes, timeout_s=timeout_s
                    )
                    yield bytes(output)
        if left_bytes:
            raise _wrong_size("shorter")
        if filled_bytes:
            yield bytes(await session.run(filled_bytes, timeout_s=timeout_s))
        yield bytes(await session.finish(timeout_s=timeout_s))


def _wrong_size(how: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        codes.SIZE_MISMATCH, f"the input is {how} than the specified size"
    )


class Chain(shown.Shown):
    """Accelerators one after the other; :func:`chain` makes it.

    See :class:`fpgapool.client.Chain`. Its stages have no threads: each is a
    task.
    """

    def __init__(self, made: chains.Chain) -> None:
        self._made = made

    @property
    def accelerators(self) -> tuple[str, ...]:
        """The names of the accelerators, in order."""
        return self._made.accelerators

    def _facts(self) -> Mapping[str, object]:
        return self._made._facts()

    async def run_buffer(
        self,
        data: transfer.Buffer,
        *,
        progress: transfer.Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> tuple[bytearray, chain_transfers.ChainReport]:
        """Send bytes through the chain.

        See :meth:`fpgapool.client.Chain.run_buffer`.
        """
        options = self._made._options

        def call(cancel: cancelling.CancelToken) -> Any:
            given: session_options.Options = {**options, "cancel": cancel}
            return chains.Chain(self._made._stages, given).run_buffer(
                data, progress=progress, timeout_s=timeout_s
            )

        found: tuple[bytearray, chain_transfers.ChainReport]
        found = await _run_with(call, options, bridges=True)
        return found

    async def run_stream(
        self,
        source: AsyncIterable[bytes],
        size_bytes: int,
        *,
        timeout_s: float | None = None,
    ) -> AsyncIterator[bytes]:
        """Send a stream through the chain, and yield its output.

        Input is read as long as there is room for it, and a few outputs ahead
        of whoever takes them.

        :param source: yields the input.
        :param size_bytes: size of the input.
        :param timeout_s: time limit for all of it.
        :raises errors.InvalidRequest: with code ``SIZE_MISMATCH`` if the input
            has another size.
        :raises: as :meth:`run_buffer`.
        """
        options, sink = self._made._options, _Outputs()

        def call(cancel: cancelling.CancelToken) -> Any:
            given: session_options.Options = {**options, "cancel": cancel}
            return chains.Chain(self._made._stages, given)._run(
                _AsyncSource(source), sink, size_bytes, timeout_s=timeout_s
            )

        work = asyncio.ensure_future(_run_with(call, options, bridges=True))
        work.add_done_callback(lambda _: sink.end())
        try:
            while (output := await sink.next()) is not None:
                yield output
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


@session_options.accepted
async def chain(
    *accelerators: str,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> Chain:
    """Put accelerators one after the other; see :func:`fpgapool.client.chain`.

    With ``meanwhile``, the CPU computes in one of this module's threads.
    """

    def call(cancel: cancelling.CancelToken) -> chains.Chain:
        given: session_options.Options = {**options, "cancel": cancel}
        return chains.chain(*accelerators, timeout_s=timeout_s, **given)

    made = await _run_with(call, options, bridges=True)
    return Chain(chains.Chain(made._stages, options))


class _Outputs(sinks.Sink):
    """Takes the output of a call, for the task that yields it."""

    def __init__(self) -> None:
        self._outputs: collections.deque[bytes] = collections.deque()
        self._news = asyncio.Event()
        self._writer: waits.Waiter | None = None
        self._ended = False

    def write(self, data: memoryview) -> None:
        self._outputs.append(bytes(data))
        self._news.set()
        self._writer = waits.current()
        assert self._writer is not None
        while len(self._outputs) > _AHEAD and not self._ended:
            self._writer.park(None)

    def rewind(self) -> bool:
        return False

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def next(self) -> bytes | None:
        """Wait for the next output; None if there is no more."""
        while not self._outputs:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        output = self._outputs.popleft()
        if self._writer is not None:
            self._writer.wake()
        return output


class _AsyncSource:
    """The input of a call, which a task yields."""

    def __init__(self, source: AsyncIterable[bytes]) -> None:
        self._pieces = aiter(source)
        self._rest = memoryview(b"")
        self._waiter: _Waiter | None = None
        self._stopped = False

    def feeder(
        self, flow: flows.Flow, size_bytes: int, deadline_s: float | None
    ) -> feeding.Feeder:
        return _AsyncFeeder(self, flow, size_bytes, deadline_s)

    def check_end(self, _check: object) -> None:
        # What sends the input has been stopped.
        self._stopped = False
        if self._more():
            raise _wrong_size("longer")

    def rewind(self) -> bool:
        return False

    def stop(self) -> None:
        self._stopped = True
        if self._waiter is not None:
            self._waiter.wake()

    def read_into(self, buffer: memoryview) -> int:
        """Read some data."""
        if not self._more():
            raise _wrong_size("shorter")
        part = self._rest[: len(buffer)]
        buffer[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)

    def _more(self) -> bool:
        while not self._rest:
            waiter = waits.current()
            assert isinstance(waiter, _Waiter)
            self._waiter = waiter
            piece = waiter.await_(
                anext(self._pieces, None), lambda: self._stopped
            )
            self._waiter = None
            if piece is None:
                return False
            self._rest = memoryview(piece)
        return True


class _AsyncFeeder(feeding.Feeder):
    def __init__(self, source: _AsyncSource, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._source = source

    def _feed(self, length_bytes: int) -> None:
        piece = self._flow.reserve(
            length_bytes, filled=True, deadline_s=self._deadline_s
        )
        shared, piece.data = piece.shared, piece.data[:length_bytes]
        filled_bytes = 0
        while filled_bytes < length_bytes:
            filled_bytes += self._source.read_into(piece.data[filled_bytes:])
        if shared is not None:
            shared.check_held(self._flow.acknowledged_bytes)
        self._send(piece)

    def stop(self) -> None:
        self._source.stop()
        super().stop()
