# SPDX-License-Identifier: Apache-2.0

"""Processing a session's data on this machine's CPU instead of a slot.

It uses the software cores of the emulator's slots, so the output is the same
byte by byte. They are imported when they are needed.
"""

from __future__ import annotations

import socket
import typing

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import dataflow as flows
from fpgapool.client import errors
from fpgapool.client import view as views
from fpgapool.common import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

if typing.TYPE_CHECKING:
    from fpgapool.accelerators import base

TRANSPORT = "cpu"

#: Codes with which the pool cannot do the work, or not now.
FALLBACK_CODES = frozenset(
    {
        codes.CONDUCTOR_UNAVAILABLE,
        codes.DATABASE_UNAVAILABLE,
        codes.NO_COMPATIBLE_SLOT,
        codes.QUEUE_FULL,
        codes.TOO_MANY_CONNECTIONS,
        codes.WAIT_TIMEOUT,
        codes.FRONT_DOOR_UNAVAILABLE,
    }
)

# As in the pool. Reading the next piece overlaps with computing the present
# one; more buffers would not help.
_CHUNK_BYTES = 4 * 1024 * 1024
_BUFFERS = 2


class SoftwareFlow(flows.DataFlow):
    """Data that is processed by a software core.

    :param accelerator: its name.
    :param params: its parameters.
    :param core_name: the pool's name of the software core; None if unknown.
    :param cause: why there is no slot; raised if this machine does not have
        the core.
    :param cancel: cancels the work.
    :raises errors.InvalidParams: if the parameters are wrong.
    :raises errors.InvalidRequest: code ``CORE_UNAVAILABLE``, if a library of
        the core is not installed.
    """

    transport = TRANSPORT

    def __init__(
        self,
        accelerator: str,
        params: dict[str, typing.Any],
        core_name: str | None,
        cause: errors.FpgapoolError,
        cancel: cancelling.CancelToken,
    ) -> None:
        self._core, profile = _load(accelerator, params, core_name, cause)
        super().__init__(
            _CHUNK_BYTES,
            _BUFFERS * _CHUNK_BYTES,
            self._core.chunk_multiple_bytes or profile.chunk_multiple_bytes,
            _BUFFERS,
        )
        if self.chunk_multiple_bytes > self.chunk_bytes:
            raise errors.InvalidParams(
                f"these parameters need pieces of {self.chunk_multiple_bytes} "
                f"bytes; a piece has at most {self.chunk_bytes}"
            )
        self.view = _view(cause)
        self.received_bytes = 0
        self._output = memoryview(b"")
        self._cancel = cancel
        cancel.attach(self)

    def send(
        self,
        piece: flows.Piece,
        *,
        end: bool,
        deadline_s: float | None,
        release_output: bool = False,
    ) -> None:
        """Have a piece processed, see :meth:`flows.DataFlow.send`."""
        with self._changed:
            self._input.add(piece, 0, end)
            self._changed.notify_all()

    def receive(
        self, place: memoryview, deadline_s: float | None
    ) -> flows.Output:
        """Process the next piece, see :meth:`flows.DataFlow.receive`.

        The deadline is checked between two pieces.
        """
        with self._changed:
            self._wait_for(lambda: bool(self._input.unsent), deadline_s)
            piece = self._input.unsent[0]
        if channel.remaining_s(deadline_s) == 0:
            raise channel.DeadlineExceeded("deadline passed")
        written_bytes = self._process(piece)
        with self._changed:
            self._input.take()
            self._input.acknowledge(piece.end_offset_bytes)
            self._free.append(piece.number)
            self._changed.notify_all()
        self.received_bytes += written_bytes
        self.ended = _is_end(piece)
        return flows.Output(self._output[:written_bytes], True)

    def _check(self) -> None:
        self._cancel.check()
        super()._check()

    def _process(self, piece: flows.Piece) -> int:
        if piece.offset_bytes % self.chunk_multiple_bytes:
            raise self._failure(
                codes.BAD_OFFSET,
                "the length of the piece before was not a multiple of "
                f"{self.chunk_multiple_bytes} bytes",
            )
        self._make_room(piece)
        try:
            return self._compute(piece)
        except Exception as exc:
            # A cancelled core may fail with any error.
            self._check()
            raise self._core_failure(exc, piece) from None

    def _core_failure(
        self, exc: Exception, piece: flows.Piece
    ) -> errors.SessionFailed:
        from fpgapool.accelerators import base

        if isinstance(exc, base.AcceleratorError):
            return self._failure(exc.code, exc.message)
        # Without the exception's text: it may contain keys or data.
        return self._failure(
            codes.CORE_FAILED,
            f"{type(exc).__name__} at input offset {piece.offset_bytes}",
        )

    def _make_room(self, piece: flows.Piece) -> None:
        core = self._core
        needed_bytes = core.max_output_bytes(0) if _is_end(piece) else 0
        if piece.data:
            needed_bytes += core.max_output_bytes(len(piece.data))
        if len(self._output) < needed_bytes:
            self._output = memoryview(bytearray(needed_bytes))

    def _compute(self, piece: flows.Piece) -> int:
        written_bytes = 0
        if piece.data:
            written_bytes = self._core.process(
                piece.data, self._output, piece.offset_bytes
            )
        if _is_end(piece):
            written_bytes += self._core.finish(self._output[written_bytes:])
        return written_bytes

    def _failure(self, code: str, message: str) -> errors.SessionFailed:
        return errors.SessionFailed(code, message, self.acknowledged_bytes)

    def close(self, place: memoryview, deadline_s: float | None) -> None:
        """End the session in order."""
        self.closed = {"code": codes.OK}

    def stop(self) -> None:
        """Make every thread in the flow return soon, for good."""
        super().stop()
        self._core.cancel()

    def shutdown(self) -> None:
        """Stop, because the token was cancelled."""
        self.stop()

    def hang_up(self) -> None:
        """Detach from the token."""
        self._cancel.detach(self)


def _is_end(piece: flows.Piece) -> bool:
    return bool(piece.flags & frames.END)


def _load(
    accelerator: str,
    params: dict[str, typing.Any],
    core_name: str | None,
    cause: errors.FpgapoolError,
) -> tuple[base.Core, base.Profile]:
    from fpgapool.accelerators import base

    try:
        profile = _load_profile(accelerator, cause)
        if core_name not in (None, profile.core):
            # The pool has a different accelerator of this name.
            raise cause
        core_class = base.load_core(profile.core)
        checks.params_schema(params, profile.params_schema)
        return core_class(params), profile
    except base.InvalidParams as exc:
        raise errors.InvalidParams(exc.message) from exc
    except base.AcceleratorError as exc:
        if isinstance(exc.__cause__, ModuleNotFoundError):
            raise _not_installed(exc.__cause__, cause) from exc
        raise cause from None


def _load_profile(
    accelerator: str, cause: errors.FpgapoolError
) -> base.Profile:
    from fpgapool.accelerators import base

    try:
        return base.load_profile(accelerator)
    except ModuleNotFoundError as exc:
        raise _not_installed(exc, cause) from exc


def _not_installed(
    exc: ModuleNotFoundError, cause: errors.FpgapoolError
) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        codes.CORE_UNAVAILABLE,
        f"the CPU needs software cores, pip install 'fpgapool[emulator]' "
        f"({exc}); there is no slot: {cause}",
    )


def _view(cause: errors.FpgapoolError) -> views.SessionView:
    return views.SessionView(
        session_id="",
        state=states.READY,
        reason=cause.code,
        message=f"this machine's CPU computes: {cause.message}",
        host_name=socket.gethostname(),
        local=True,
    )
