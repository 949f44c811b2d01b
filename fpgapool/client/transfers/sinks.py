# SPDX-License-Identifier: Apache-2.0

"""Destinations of a transfer's output."""

from __future__ import annotations

from typing import BinaryIO
from typing import Protocol

from fpgapool.client import errors
from fpgapool.client.transfers import feeding
from fpgapool.client.transfers import files
from fpgapool.vocabulary import codes


class Sink(Protocol):
    def place(self) -> memoryview | None:
        """Return memory for the next output; None if any memory will do."""
        return None

    def write(self, data: memoryview) -> object: ...

    def rewind(self) -> bool:
        """Discard all output; return whether that succeeded."""


class StreamSink(Sink):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._start = feeding.position(stream)
        self._empty = True

    def write(self, data: memoryview) -> None:
        self._empty = False
        files.write_all(self._stream, data)

    def rewind(self) -> bool:
        if self._empty:
            return True
        if not feeding.seek(self._stream, self._start):
            return False
        try:
            self._stream.truncate()
        except (AttributeError, OSError, ValueError):
            return False
        self._empty = True
        return True


class BufferSink(Sink):
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview) -> None:
        self.data += data

    def rewind(self) -> bool:
        self.data.clear()
        return True


class PlaceSink(Sink):
    """The caller's memory; output from a network goes directly into it."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._filled_bytes = 0

    @property
    def data(self) -> memoryview:
        return self._memory[: self._filled_bytes]

    def place(self) -> memoryview:
        return self._memory[self._filled_bytes :]

    def write(self, data: memoryview) -> None:
        start = self._filled_bytes
        end = start + len(data)
        if end > len(self._memory):
            raise errors.InvalidRequest(
                codes.SIZE_MISMATCH,
                f"the output is larger than into ({len(self._memory)} bytes)",
            )
        if data.obj is not self._memory.obj:
            self._memory[start:end] = data
        self._filled_bytes = end

    def rewind(self) -> bool:
        self._filled_bytes = 0
        return True
