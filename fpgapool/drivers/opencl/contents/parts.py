# SPDX-License-Identifier: Apache-2.0

"""Reads parts of a file that is too large to keep in memory."""

from __future__ import annotations

from collections.abc import Iterable


class Forward:
    """Reads parts of a file whose bytes can be read only once, in order.

    :param pieces: the file, in pieces of any length.
    """

    def __init__(self, pieces: Iterable[bytes], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._pieces = iter(pieces)
        # The unread part of the current piece, and its position in the file.
        self._piece = memoryview(b"")
        self._position = 0

    def part(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Return a part of the file; it is shorter if the file ends within it.

        :param offset_bytes: its position, not before the end of the previous
            part.
        :param size_bytes: its length; the whole part is kept in memory.
        :raises EOFError: if the pieces end before the file's size.
        """
        self._pass(offset_bytes - self._position)
        found = []
        while size_bytes and self._next():
            taken = self._piece[:size_bytes]
            found.append(taken)
            size_bytes -= len(taken)
            self._pass(len(taken))
        return b"".join(found)

    def _pass(self, count_bytes: int) -> None:
        while count_bytes > 0 and self._next():
            passed_bytes = min(count_bytes, len(self._piece))
            self._piece = self._piece[passed_bytes:]
            self._position += passed_bytes
            count_bytes -= passed_bytes

    def _next(self) -> bool:
        """Advance to a piece with data; False at the end of the file."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                if self._position < self.size_bytes:
                    raise EOFError(f"truncated after {self._position} bytes")
                return False
            self._piece = memoryview(piece)
        return True
