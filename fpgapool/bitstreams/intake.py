# SPDX-License-Identifier: Apache-2.0

"""Counts, hashes and limits incoming files while they arrive."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Protocol

from fpgapool.common import exception
from fpgapool.vocabulary import codes

_READ_BYTES = 64 * 1024


class Stream(Protocol):
    """The request body of a web server."""

    def read(self, size: int, /) -> bytes:
        """Return at most this many bytes, or none at the end."""


class Intake:
    """The body of an upload; its parts can be read once, in order.

    If the iteration raises an exception, the file must not be stored.

    :param length_bytes: length announced by the sender; None: unknown.
    :param timeout_s: maximum duration of the upload from now on.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self,
        stream: Stream,
        length_bytes: int | None,
        max_bytes: int,
        *,
        timeout_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._until_s = clock() + timeout_s
        self._stream = stream
        self.length_bytes = length_bytes
        self._max_bytes = max_bytes
        self._sum = hashlib.sha256()
        self.size_bytes = 0

    @property
    def checksum_sha256(self) -> str:
        """SHA-256 of the data read so far, in hexadecimal."""
        return self._sum.hexdigest()

    def check_length(self) -> None:
        """Raise BitstreamRefused if the announced length is too large."""
        if (self.length_bytes or 0) > self._max_bytes:
            raise self._too_large()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts.

        :raises BitstreamRefused: if the file is too large or incomplete.
        """
        while chunk := self._read():
            self.size_bytes += len(chunk)
            if self.size_bytes > self._max_bytes:
                raise self._too_large()
            if self._clock() > self._until_s:
                raise _incomplete("the upload took too long")
            self._sum.update(chunk)
            yield chunk
        expected = self.length_bytes
        if expected is not None and self.size_bytes != expected:
            raise _incomplete(
                f"received {self.size_bytes} of {expected} bytes"
            )
        if not self.size_bytes:
            raise _incomplete("the file is empty")

    def _read(self) -> bytes:
        try:
            # Small parts arrive often even from a slow sender, and the time
            # limit is checked after each.
            return self._stream.read(_READ_BYTES)
        except Exception as error:
            # Each web server has its own exceptions for a closed connection.
            raise _incomplete(
                f"the connection was lost after {self.size_bytes} bytes"
            ) from error

    def _too_large(self) -> exception.BitstreamRefused:
        return exception.BitstreamRefused(
            f"the file is larger than the limit of {self._max_bytes} bytes",
            code=codes.BITSTREAM_TOO_LARGE,
        )


def _incomplete(what: str) -> exception.BitstreamRefused:
    return exception.BitstreamRefused(
        f"the upload is incomplete: {what}", code=codes.UPLOAD_INCOMPLETE
    )
