# SPDX-License-Identifier: Apache-2.0

"""Compute on this machine's CPU instead of in a slot.

The CPU runs the same software cores as emulated slots, so the output is
identical. They are imported only when needed.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import socket
import threading
import time
import typing
from collections.abc import Iterator
from typing import Any

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.protocol import blocks
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import platforms
from fpgapool.vocabulary import states

if typing.TYPE_CHECKING:
    from fpgapool.accelerators import base

#: Error codes of a pool that cannot do the work now, or at all.
FALLBACK_CODES = frozenset(
    {
        codes.ACCELERATOR_OUT_OF_USE,
        codes.CONDUCTOR_UNAVAILABLE,
        codes.DATABASE_UNAVAILABLE,
        codes.NO_COMPATIBLE_SLOT,
        codes.QUEUE_FULL,
        codes.TOO_MANY_CONNECTIONS,
        codes.WAIT_TIMEOUT,
        codes.FRONT_DOOR_UNAVAILABLE,
        # Several slots in a row could not be prepared.
        codes.HOST_OUT_OF_MEMORY,
        codes.PREPARE_FAILED,
        codes.PREPARE_TIMEOUT,
        codes.PROGRAM_FAILED,
        codes.WORKER_DIED,
        codes.WORKER_LOST,
    }
)

# The same size as in the pool. With two buffers, reading the next piece
# overlaps with processing this one; more buffers would not help.
_CHUNK_BYTES = 4 * 1024 * 1024
_BUFFERS = 2


def load(
    accelerator: str,
    params: dict[str, Any],
    core_name: str | None,
    cause: errors.FpgapoolError,
    chunk_bytes: object,
    *,
    is_own: bool,
) -> Software:
    """Load an accelerator that this machine is to compute.

    :param cause: why it is; raised if this machine does not have the core.
    :param is_own: whether it is a bitstream that belongs to a project.
    :raises errors.FpgapoolError: as :class:`Software`.
    """
    if is_own:
        # This machine's accelerator of that name may compute something else:
        # it may be another one, or lack the bitstream's parameters.
        raise errors.InvalidRequest(
            codes.CORE_UNAVAILABLE,
            f"no slot is available ({cause}), and the CPU cannot run a "
            "project's bitstream",
        ) from cause
    return Software(accelerator, params, core_name, cause, chunk_bytes)


def movable(
    accelerator: str,
    params: dict[str, Any],
    core_name: str | None,
    chunk_bytes: object,
    *,
    is_own: bool,
) -> Software:
    """Load an accelerator whose work a slot is to continue.

    :raises errors.InvalidRequest: if no slot can; otherwise as :func:`load`.
    """
    missing = errors.InvalidRequest(
        codes.CORE_UNAVAILABLE,
        f"this machine has no software core for {accelerator!r}, so the CPU "
        "cannot compute meanwhile",
    )
    loaded = load(
        accelerator, params, core_name, missing, chunk_bytes, is_own=is_own
    )
    if not loaded.movable:
        raise errors.invalid(
            f"meanwhile: {accelerator!r} is stateful and has no checkpoints, "
            "so a slot cannot continue the CPU's work"
        )
    return loaded


class Processor:
    """A core, and the memory for its output."""

    def __init__(self, core: base.Core) -> None:
        self.core = core
        self._result = memoryview(b"")

    def compute(
        self, piece: memoryview, offset_bytes: int, end: bool
    ) -> memoryview:
        """Return the output of a piece, which is valid until the next call.

        :param end: whether it is the end of the input.
        """
        core = self.core
        needed_bytes = core.max_output_bytes(0) if end else 0
        if piece:
            needed_bytes += core.max_output_bytes(len(piece))
        if len(self._result) < needed_bytes:
            self._result = memoryview(bytearray(needed_bytes))
        written_bytes = 0
        if piece:
            written_bytes = core.process(piece, self._result, offset_bytes)
        if end:
            written_bytes += core.finish(self._result[written_bytes:])
        return self._result[:written_bytes]


class Software:
    """A session's accelerator on this machine.

    :param core_name: the pool's name for the software core; None if unknown.
    :param unavailable: raised if this machine does not have the core.
    :param chunk_bytes: maximum piece length of the pool's workers, if known.
    :raises errors.InvalidParams: if the parameters are invalid.
    :raises errors.InvalidRequest: with code ``CORE_UNAVAILABLE``, if a library
        that the core needs is not installed.

    :ivar movable: whether a slot can continue the work.
    :ivar stateless: whether that takes no state of the core.
    :ivar multiple_bytes: the length of every piece but the last is a multiple
        of this.
    :ivar chunk_bytes: maximum length of a piece.
    """

    def __init__(
        self,
        accelerator: str,
        params: dict[str, Any],
        core_name: str | None,
        unavailable: errors.FpgapoolError,
        chunk_bytes: object = None,
    ) -> None:
        self._params = params
        most_bytes = _CHUNK_BYTES
        if isinstance(chunk_bytes, int) and chunk_bytes > 0:
            most_bytes = chunk_bytes
        self.busy_s = 0.0
        self._core_class, profile = _load(
            accelerator, params, core_name, unavailable
        )
        core = self._make_core()
        self._core_w = platforms.active_w(profile.platforms, platforms.CPU)
        self.stateless = profile.stateless
        self.movable = profile.stateless or (
            profile.checkpoint and core.has_snapshots
        )
        self.multiple_bytes = (
            core.chunk_multiple_bytes or profile.chunk_multiple_bytes
        )
        if self.multiple_bytes > most_bytes:
            raise errors.InvalidParams(
                f"these parameters require pieces of {self.multiple_bytes} "
                f"bytes, larger than the limit of {most_bytes}"
            )
        self.chunk_bytes = min(
            most_bytes, max(_CHUNK_BYTES, self.multiple_bytes)
        )

    @property
    def cpu_energy_j(self) -> float | None:
        """Joules that this machine's CPU has used so far; None if unknown."""
        return None if self._core_w is None else self._core_w * self.busy_s

    def processor(self) -> Processor:
        """Make a core."""
        return Processor(self._make_core())

    def _make_core(self) -> base.Core:
        from fpgapool.accelerators import base

        try:
            return self._core_class(self._params)
        except base.InvalidParams as exc:
            raise errors.InvalidParams(exc.message) from exc

    def connect(
        self,
        cancel: cancelling.CancelToken,
        input_offset_bytes: int = 0,
        output_offset_bytes: int = 0,
        *,
        moves: bool = False,
        former: connections.Opened | None = None,
    ) -> CpuConnection:
        """Make a worker with a new core.

        :param former: OPENED of the lost worker: the client keeps using its
            piece and window sizes.
        """
        chunk_bytes = self.chunk_bytes
        window_bytes = _BUFFERS * chunk_bytes
        if former is not None:
            chunk_bytes = max(chunk_bytes, former.chunk_bytes)
            window_bytes = max(window_bytes, former.window_bytes)
        opened = connections.Opened(
            resume_secret="",
            chunk_bytes=chunk_bytes,
            window_bytes=window_bytes,
            input_offset_bytes=input_offset_bytes,
            output_offset_bytes=output_offset_bytes,
            stateless=self.stateless and moves,
            chunk_multiple_bytes=self.multiple_bytes,
            resume_grace_s=0.0,
            shared_buffers=0,
            features=frozenset({frames.BLOCKS_FEATURE}),
        )
        worker = CpuWorker(self, self.processor(), opened)
        cancel.attach(worker)
        return CpuConnection(worker, opened)


class CpuWorker:
    """A worker in this process that uses the same frames as other workers.

    The receiving thread computes. Other threads may send, pause the worker
    between two pieces, and end it.
    """

    def __init__(
        self,
        software: Software,
        processor: Processor,
        opened: connections.Opened,
    ) -> None:
        self._software = software
        self._core = processor.core
        self._compute = processor.compute
        self._chunk_bytes = opened.chunk_bytes
        self._input = stream.Inbound(
            stream.WORKER,
            opened.input_offset_bytes,
            multiple_bytes=opened.chunk_multiple_bytes,
        )
        self._output_bytes = opened.output_offset_bytes
        self._changed = threading.Condition()
        self._requests: collections.deque[
            tuple[frames.FrameHeader, frames.Buffer]
        ] = collections.deque()
        # Bytes for the client; used only by its receiving thread.
        self._replies: collections.deque[memoryview] = collections.deque()
        self._computing = False
        self._paused = False
        # Number of the argument that follows; 0 if input follows.
        self._argument = 0
        self._farewell: bytes | None = None
        self._closed = False

    @property
    def finished(self) -> bool:
        """Whether the end of the input was processed."""
        return self._input.finished

    @property
    def input_bytes(self) -> int:
        """Input that was processed, here and in earlier slots."""
        return self._input.consumed_bytes

    def pause(self) -> tuple[int, int]:
        """Pause computing; return the positions in input and output."""
        with self._changed:
            self._paused = True
            self._changed.wait_for(lambda: not self._computing)
            return self._input.consumed_bytes, self._output_bytes

    def go_on(self) -> None:
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def end(self, code: str, message: str) -> None:
        """Stop computing, and send the client the reason."""
        with self._changed:
            self._farewell = frames.error_frame(code, message)
            self._changed.notify_all()

    def send(
        self, *parts: frames.Buffer, deadline_s: float | None = None
    ) -> None:
        """Accept frames; input and arguments are in a second part."""
        front = memoryview(parts[0])
        with self._changed:
            if self._closed:
                raise channel.ChannelClosed(
                    "the computation on this machine's CPU was stopped"
                )
            while front:
                header = frames.FrameHeader.unpack_from(
                    front, max_data_bytes=self._chunk_bytes
                )
                front = front[frames.HEADER_BYTES :]
                payload: frames.Buffer = parts[-1]
                if header.type != frames.INPUT or header.flags & frames.BLOCK:
                    payload = front[: header.payload_length_bytes]
                    front = front[header.payload_length_bytes :]
                elif not header.payload_length_bytes:
                    payload = b""
                self._requests.append((header, payload))
            self._changed.notify_all()

    def recv_exact_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        """See :meth:`channel.Channel.recv_exact_into`.

        The deadline is checked between two pieces.
        """
        while buffer:
            self._compute_replies(deadline_s)
            part = self._replies.popleft()
            received_bytes = min(len(part), len(buffer))
            buffer[:received_bytes] = part[:received_bytes]
            buffer = buffer[received_bytes:]
            if received_bytes < len(part):
                self._replies.appendleft(part[received_bytes:])

    recv_small_into = recv_exact_into

    def _compute_replies(self, deadline_s: float | None) -> None:
        """Process requests until there is a reply to receive."""
        while not self._replies:
            header, payload = self._next_request(deadline_s)
            began_s = time.monotonic()
            try:
                waits.offload(functools.partial(self._answer, header, payload))
            finally:
                self._software.busy_s += time.monotonic() - began_s
                with self._changed:
                    self._computing = False
                    self._changed.notify_all()

    def _next_request(
        self, deadline_s: float | None
    ) -> tuple[frames.FrameHeader, frames.Buffer]:
        with self._changed:
            while True:
                left_s = channel.remaining_s(deadline_s)
                if self._closed:
                    raise channel.ChannelClosed(
                        "the computation on this machine's CPU was stopped"
                    )
                if left_s == 0:
                    raise channel.DeadlineExceeded("deadline passed")
                if self._farewell is not None:
                    return _GOODBYE, self._farewell
                if self._requests and not self._paused:
                    self._computing = True
                    return self._requests.popleft()
                self._changed.wait(left_s)

    def _answer(
        self, header: frames.FrameHeader, payload: frames.Buffer
    ) -> None:
        if header.type == frames.ERROR:
            if self._core.has_snapshots:
                self._reply(
                    frames.checkpoint_frame(
                        self._input.consumed_bytes, self._core.snapshot()
                    )
                )
            self._reply(payload)
        elif header.type == frames.CHECKPOINT:
            self._core.restore(
                frames.checkpoint_state(payload), header.offset_bytes
            )
        elif header.type == frames.CLOSE:
            self._reply(
                frames.encode_frame(
                    frames.FrameHeader(frames.CLOSED), {"code": codes.OK}
                )
            )
        elif header.type == frames.INPUT:
            try:
                self._process(header, memoryview(payload))
            except exceptions.CodedError as exc:
                self._fail(exc.code, exc.message)
            except Exception as exc:
                # Omit the exception's text, which may contain keys or data.
                self._fail(
                    codes.CORE_FAILED,
                    f"{type(exc).__name__} at input offset "
                    f"{header.offset_bytes}",
                )

    def _fail(self, code: str, message: str) -> None:
        with self._changed:
            if self._closed:
                # A cancelled core may fail with any error.
                raise channel.ChannelClosed(
                    "the computation on this machine's CPU was stopped"
                )
        offset_bytes = self._input.consumed_bytes
        self._reply(frames.error_frame(code, message, offset_bytes))

    def _process(self, header: frames.FrameHeader, piece: memoryview) -> None:
        if header.flags & frames.BLOCK:
            reference = blocks.Reference.decode(piece, self._chunk_bytes)
            self._argument = reference.argument
            return
        if self._argument:
            self._core.set_argument(self._argument, piece)
            self._argument = 0
            return
        end = bool(header.flags & frames.END)
        if self._input.accept(header):
            output = self._compute(piece, header.offset_bytes, end)
            self._give(output, header.task_id, end)
            self._input.consume(len(piece), header.task_id, end)
        self._reply(
            frames.pack_header(
                frames.ACK,
                task_id=header.task_id,
                offset_bytes=self._input.acknowledge(),
            )
        )

    def _give(self, output: memoryview, task_id: int, end: bool) -> None:
        """Reply with output, in pieces that the client accepts."""
        while output or end:
            part, output = (
                output[: self._chunk_bytes],
                output[self._chunk_bytes :],
            )
            last = not output
            flags = frames.TASK_END if last else 0
            if last and end:
                flags |= frames.END
            piece = stream.Piece(part, flags=flags)
            piece.task_id, piece.offset_bytes = task_id, self._output_bytes
            self._reply(piece.header(frames.OUTPUT, False))
            self._reply(part)
            self._output_bytes += len(part)
            end = end and not last

    def _reply(self, part: frames.Buffer) -> None:
        if len(part):
            self._replies.append(memoryview(part))

    def shutdown(self) -> None:
        """Make all current and later calls return soon."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._core.cancel()

    def close(self) -> None:
        self.shutdown()


_GOODBYE = frames.FrameHeader(frames.ERROR)


class CpuConnection(connections.Connection):
    """A connection to a worker in this process."""

    transport = connections.CPU

    def __init__(self, worker: CpuWorker, opened: connections.Opened) -> None:
        super().__init__(worker, opened, None)
        self.worker = worker


class CpuDialer(connections.Dialer):
    """Connects to a worker in this process instead of a slot's."""

    def __init__(
        self, view: views.SessionView, cancel: cancelling.CancelToken
    ) -> None:
        self.view = view
        self.features = frozenset()
        self._cancel = cancel

    def outcome(self, deadline_s: float | None) -> views.SessionView | None:
        return None

    def resume(
        self,
        resume_secret: str,
        input_offset_bytes: int,
        output_offset_bytes: int,
        deadline_s: float | None,
    ) -> connections.Connection:
        """Fail: the connection breaks only if the computation was stopped."""
        raise connections.WorkerError(
            codes.SESSION_LOST,
            "the computation on this machine's CPU was stopped",
        )


class CpuOnly:
    """Replaces the seeker of a session that never gets a slot."""

    def __init__(
        self,
        software: Software,
        token: cancelling.CancelToken,
        cause: errors.FpgapoolError,
    ) -> None:
        self._software = software
        self.token = token
        self.fallback_reason = cause.code

    @property
    def cpu_energy_j(self) -> float | None:
        return self._software.cpu_energy_j

    def worker_lost(self, gives_up_s: float) -> None:
        """See :meth:`waiting.SlotSeeker.worker_lost`."""

    def worker_found(self) -> None:
        """See :meth:`waiting.SlotSeeker.worker_found`."""

    def stop(self) -> None:
        """See :meth:`waiting.SlotSeeker.stop`."""

    def give_up(self, session_id: str) -> None:
        """See :meth:`waiting.SlotSeeker.give_up`."""

    def report_close(self, *_served: object) -> None:
        """See :meth:`waiting.SlotSeeker.report_close`."""

    def close(self) -> None:
        """See :meth:`waiting.SlotSeeker.close`."""


def view_of(cause: errors.FpgapoolError) -> views.SessionView:
    """Return the view of a session that uses the CPU."""
    return views.SessionView(
        session_id="",
        state=states.READY,
        reason=cause.code,
        message=f"this machine's CPU computes: {cause.message}",
        host_name=socket.gethostname(),
        local=True,
    )


def params_schema(
    accelerator: str, unavailable: errors.FpgapoolError
) -> dict[str, Any]:
    """Return the schema of an accelerator's parameters on this machine.

    :param unavailable: raised if this machine does not have the accelerator.
    :raises errors.InvalidRequest: with code ``CORE_UNAVAILABLE``, if a library
        is not installed.
    """
    from fpgapool.accelerators import base

    with _loading(unavailable):
        return base.load_profile(accelerator).params_schema


def _load(
    accelerator: str,
    params: dict[str, Any],
    core_name: str | None,
    unavailable: errors.FpgapoolError,
) -> tuple[type[base.Core], base.Profile]:
    from fpgapool.accelerators import base

    with _loading(unavailable):
        profile = base.load_profile(accelerator)
        if core_name not in (None, profile.core):
            # The pool's accelerator of this name is a different one.
            raise unavailable
        core_class = base.load_core(profile.core)
    checks.params_schema(params, profile.params_schema)
    return core_class, profile


@contextlib.contextmanager
def _loading(unavailable: errors.FpgapoolError) -> Iterator[None]:
    from fpgapool.accelerators import base

    try:
        yield
    except ModuleNotFoundError as exc:
        raise _not_installed(exc, unavailable) from exc
    except base.AcceleratorError as exc:
        if isinstance(exc.__cause__, ModuleNotFoundError):
            raise _not_installed(exc.__cause__, unavailable) from exc
        raise unavailable from None


def _not_installed(
    exc: ModuleNotFoundError, cause: errors.FpgapoolError
) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        codes.CORE_UNAVAILABLE,
        f"{cause}; the CPU cannot compute, because its software cores are not "
        f"installed: pip install 'fpgapool[emulator]' ({exc})",
    )
