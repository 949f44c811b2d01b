# SPDX-License-Identifier: Apache-2.0

"""Read a transfer's input, and send it into a flow."""

from __future__ import annotations

import io
import threading
import time
import typing
from collections.abc import Callable
from typing import BinaryIO
from typing import Protocol

from fpgapool.client import errors
from fpgapool.client.links import waiting
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import pieces
from fpgapool.client.transfers import files
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes

# How long to wait for a feeder; reading a pipe cannot be interrupted.
_JOIN_S = 1.0
# How long to keep an incomplete piece while waiting for more data.
_LONGEST_KEPT_S = 1.0
# Input that is copied into shared memory: maximum size of a piece, and of all
# pieces in flight. These fit in the CPU's caches, so that both copies and the
# core are faster. Even shorter pieces cost more time in Python than they save.
_COPIED_BYTES = 1024 * 1024
_COPIED_AHEAD_BYTES = 4 * _COPIED_BYTES


class Source(Protocol):
    """The input of a transfer."""

    def feeder(
        self, flow: flows.Flow, size_bytes: int, deadline_s: float | None
    ) -> Feeder:
        """Make what sends the input."""

    def check_end(self, check: Callable[[], object]) -> None:
        """See :func:`files.check_end`."""

    def rewind(self) -> bool:
        """Go back to the start; return whether that succeeded."""


class StreamSource:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream: typing.Any = stream
        self._start = position(stream)
        # readinto() of such streams waits until the buffer is full. BytesIO
        # does not wait, because no more data arrives.
        self._waits = isinstance(stream, io.BufferedIOBase) and not (
            isinstance(stream, io.BytesIO)
        )

    def feeder(
        self, flow: flows.Flow, size_bytes: int, deadline_s: float | None
    ) -> Feeder:
        return _StreamFeeder(self, flow, size_bytes, deadline_s)

    def check_end(self, check: Callable[[], object]) -> None:
        files.check_end(self._stream, check)

    def rewind(self) -> bool:
        return seek(self._stream, self._start)

    def read_into(self, buffer: memoryview) -> int:
        """Read the available data.

        :raises errors.InvalidRequest: with code ``SIZE_MISMATCH``, if the
            stream has ended.
        """
        read_bytes = self._read_into(buffer)
        if not read_bytes:
            raise errors.InvalidRequest(
                codes.SIZE_MISMATCH,
                "the input is shorter than the specified size",
            )
        return read_bytes

    def _read_into(self, buffer: memoryview) -> int:
        if self._waits:
            try:
                return self._stream.readinto1(buffer) or 0
            except io.UnsupportedOperation:
                self._waits = False
        if hasattr(self._stream, "readinto"):
            return self._stream.readinto(buffer) or 0
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class BufferSource:
    """Memory that is sent directly."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def feeder(
        self, flow: flows.Flow, size_bytes: int, deadline_s: float | None
    ) -> Feeder:
        return _BufferFeeder(self._data, flow, size_bytes, deadline_s)

    def check_end(self, _check: object) -> None:
        """Do nothing: the size of memory is known."""

    def rewind(self) -> bool:
        return True


def position(stream: BinaryIO) -> int | None:
    """Return the position of a stream; None if it is unknown."""
    try:
        return stream.tell()
    except (AttributeError, OSError, ValueError):
        return None


def seek(stream: BinaryIO, start: int | None) -> bool:
    """Go to a position in a stream; return whether that succeeded."""
    if start is None:
        return False
    try:
        stream.seek(start)
    except (AttributeError, OSError, ValueError):
        return False
    return True


class Feeder:
    """Sends the input, up to one window ahead of the output."""

    def __init__(
        self, flow: flows.Flow, size_bytes: int, deadline_s: float | None
    ) -> None:
        self._flow = flow
        self._left_bytes = size_bytes
        self._deadline_s = deadline_s
        self._multiple_bytes = flow.chunk_multiple_bytes
        self._piece_bytes = (
            flow.piece_bytes - flow.piece_bytes % self._multiple_bytes
        )
        self.failure: BaseException | None = None
        self._fed = False
        self._running: waits.Running | None = None

    def start(self) -> None:
        """Begin to send beside what receives."""
        self._running = waits.spawn(self.run, "fpgapool-feeder")

    def is_alive(self) -> bool:
        """Whether it may still send, or read its source."""
        return self._running is not None and self._running.is_alive()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until it has ended, at most for so long."""
        if self._running is not None:
            self._running.join(timeout_s)

    def run(self) -> None:
        try:
            if not self._left_bytes:
                # Send the end of an empty input.
                self._feed(0)
            while self._left_bytes:
                self._feed(min(self._left_bytes, self._piece_bytes))
        except waiting.Stopped:
            return
        except BaseException as exc:
            self._fail(exc)

    def feed(self) -> None:
        """Send as much as the window has room for; instead of the thread.

        For input that is in memory.
        """
        while self._left_bytes or not self._fed:
            length_bytes = min(self._left_bytes, self._piece_bytes)
            if not self._flow.window.has_room(length_bytes):
                return
            self._feed(length_bytes)
            self._fed = True

    def _feed(self, length_bytes: int) -> None:
        """Send the next piece, or a part of it."""
        raise NotImplementedError

    def _send(self, piece: pieces.Piece) -> None:
        self._left_bytes -= len(piece.data)
        self._flow.send(
            piece, end=not self._left_bytes, deadline_s=self._deadline_s
        )

    def _fail(self, exc: BaseException) -> None:
        self.failure = exc
        self._flow.stop()

    def check(self) -> None:
        """Raise the thread's error, if any."""
        failure, self.failure = self.failure, None
        try:
            if failure is not None:
                raise failure from None
        finally:
            # Avoid a cycle: the error refers to this function's variables.
            failure = None

    def stop(self) -> None:
        """Wait briefly for the thread; its source may never have more data."""
        self.join(_JOIN_S)


class _BufferFeeder(Feeder):
    def __init__(self, data: memoryview, *arguments: typing.Any) -> None:
        super().__init__(*arguments)
        self._data = data
        if self._flow.shared is not None:
            most_bytes = max(_COPIED_BYTES, self._multiple_bytes)
            most_bytes -= most_bytes % self._multiple_bytes
            self._piece_bytes = min(self._piece_bytes, most_bytes)
            if not self._flow.lags:
                self._flow.window.limit(
                    max(2, _COPIED_AHEAD_BYTES // self._piece_bytes)
                )

    def _feed(self, length_bytes: int) -> None:
        piece = self._flow.reserve(
            length_bytes, filled=False, deadline_s=self._deadline_s
        )
        start = len(self._data) - self._left_bytes
        data = self._data[start : start + length_bytes]
        if piece.shared is None:
            piece.data = data
        else:
            piece.data = piece.data[:length_bytes]
            piece.data[:] = data
            piece.origin = data
        self._send(piece)


class _StreamFeeder(Feeder):
    """Reads whole pieces, unless that takes too long.

    Reading cannot be interrupted, so another thread watches the piece that is
    being filled. If that takes too long, it sends the part read so far, and
    later data goes into the next piece.
    """

    def __init__(self, source: StreamSource, *arguments: typing.Any) -> None:
        super().__init__(*arguments)
        self._source = source
        self._ended = threading.Event()
        self._lock = threading.Lock()
        # The piece that is being filled; None if its first part was sent.
        self._piece: pieces.Piece | None = None
        self._filled_bytes = 0
        # When the first data of the piece arrived.
        self._filled_since_s = 0.0
        # Data that was read but is not in a piece yet.
        self._rest = b""

    def run(self) -> None:
        threading.Thread(
            target=self._send_old_parts, name="fpgapool-parts", daemon=True
        ).start()
        try:
            super().run()
        finally:
            self._ended.set()

    def stop(self) -> None:
        self._ended.set()
        super().stop()

    def _feed(self, length_bytes: int) -> None:
        piece = self._flow.reserve(
            length_bytes, filled=True, deadline_s=self._deadline_s
        )
        shared, buffer = piece.shared, piece.data[:length_bytes]
        filled_bytes = len(self._rest)
        buffer[:filled_bytes] = self._rest
        with self._lock:
            self._piece, self._filled_bytes = piece, 0
        while True:
            with self._lock:
                if self._piece is None:
                    # Copy: the buffer belongs to the slot, which may be lost.
                    self._rest = bytes(buffer[len(piece.data) : filled_bytes])
                    if shared is not None:
                        shared.check_held(self._flow.acknowledged_bytes)
                    return
                if filled_bytes == length_bytes:
                    self._rest = b""
                    self._send_front(piece, length_bytes)
                    return
                if filled_bytes and not self._filled_bytes:
                    self._filled_since_s = time.monotonic()
                self._filled_bytes = filled_bytes
            filled_bytes += self._source.read_into(buffer[filled_bytes:])

    def _send_front(self, piece: pieces.Piece, length_bytes: int) -> None:
        piece.data = piece.data[:length_bytes]
        self._piece = None
        self._send(piece)

    def _send_old_parts(self) -> None:
        try:
            wait_s = _LONGEST_KEPT_S
            while not self._ended.wait(wait_s):
                with self._lock:
                    wait_s = self._send_old_part()
        except BaseException as exc:
            self._fail(exc)

    def _send_old_part(self) -> float:
        """Send an old part, if any; return the seconds to the next check."""
        piece = self._piece
        part_bytes = self._filled_bytes
        part_bytes -= part_bytes % self._multiple_bytes
        if piece is None or not part_bytes:
            return _LONGEST_KEPT_S
        kept_s = time.monotonic() - self._filled_since_s
        if kept_s < _LONGEST_KEPT_S:
            return _LONGEST_KEPT_S - kept_s
        self._send_front(piece, part_bytes)
        return _LONGEST_KEPT_S
