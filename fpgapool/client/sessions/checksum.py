# SPDX-License-Identifier: Apache-2.0

"""End-to-end checksums: the client's data compared with the core's.

With each acknowledgement a worker reports how much input its core has received
and how much output it has produced in this slot, and the CRC-32 of both. The
client compares them with what it has sent and received before the
acknowledgement counts, so a later loss of the slot does not matter.

The next slot repeats the unacknowledged output of a lost slot, and the client
drops the repetition. The first output was not checked, so its checksum is
compared with that of the complete repetition. Until then, some input is
unacknowledged, so no caller regards the output as complete.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable

from fpgapool.client import errors
from fpgapool.client.sessions import pieces
from fpgapool.protocol import frames


@dataclasses.dataclass(slots=True)
class _Again:
    """Output that is received a second time, and the output after it.

    :ivar expected: CRC-32 of the output that was passed on.
    """

    expected: int
    crc32: int
    settled_crc32: int
    end_bytes: int


class Verifier:
    """Checks one session; separate threads may send and receive.

    :param input_offset_bytes: position at which the first slot's input starts.
    """

    def __init__(
        self, input_offset_bytes: int, output_offset_bytes: int
    ) -> None:
        self._acknowledged_bytes = input_offset_bytes
        self._settled_bytes = output_offset_bytes
        self._again: _Again | None = None
        self._start()

    def _start(self) -> None:
        """Start with a slot, at the last checked position."""
        self._start_bytes = (self._acknowledged_bytes, self._settled_bytes)
        self._sent_crc32 = 0
        self._acknowledged_crc32 = 0
        self._output_crc32 = 0
        self._settled_crc32 = 0
        self._output_bytes = self._settled_bytes
        self._claim: tuple[frames.FrameHeader, frames.Checksums] | None = None

    def add_input(self, piece: pieces.Piece) -> None:
        """Add a piece to the checksum of this slot's input."""
        self._sent_crc32 = zlib.crc32(piece.data, self._sent_crc32)
        piece.input_crc32 = self._sent_crc32

    def add_output(self, data: memoryview, known_bytes: int) -> None:
        """Add completely received output to the checksums.

        :param known_bytes: how much of it another slot has already returned.
        """
        self._output_bytes += len(data)
        self._output_crc32 = zlib.crc32(data, self._output_crc32)
        again = self._again
        if again is not None:
            again.crc32 = zlib.crc32(data, again.crc32)
            again.expected = zlib.crc32(data[known_bytes:], again.expected)

    def resume(self) -> None:
        """Discard the last report of a broken connection."""
        self._claim = None

    def move(
        self, received_bytes: int, unacknowledged: Iterable[pieces.Piece]
    ) -> None:
        """Continue in another slot, from the last acknowledgement on."""
        again = self._again
        if again is not None:
            again.crc32 = again.settled_crc32
            again.end_bytes = received_bytes
        elif received_bytes > self._settled_bytes:
            self._again = _Again(
                self._output_crc32,
                self._settled_crc32,
                self._settled_crc32,
                received_bytes,
            )
        self._start()
        for piece in unacknowledged:
            self.add_input(piece)

    def take(self, header: frames.FrameHeader, payload: bytearray) -> None:
        """Record the worker's report before an acknowledgement.

        :raises frames.ProtocolError: if it is malformed.
        """
        self._claim = header, frames.Checksums.decode(payload)

    def check(
        self,
        header: frames.FrameHeader,
        covered: pieces.Piece | None,
        idle: bool,
    ) -> None:
        """Compare checksums before an acknowledgement takes effect.

        :param covered: the last piece that is newly acknowledged, or None.
        :raises errors.ChecksumMismatch: if input or output differ.
        :raises frames.ProtocolError: if the worker has not sent its report.
        """
        claim, self._claim = self._claim, None
        if claim is None or (
            (claim[0].task_id, claim[0].offset_bytes)
            != (header.task_id, header.offset_bytes)
        ):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "the acknowledgement has no checksum",
            )
        input_bytes, input_crc32 = (
            (self._acknowledged_bytes, self._acknowledged_crc32)
            if covered is None
            else (covered.end_offset_bytes, covered.input_crc32)
        )
        if header.offset_bytes != input_bytes:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "the acknowledged offset is not at the end of a frame",
            )
        self._compare(claim[1], input_bytes, input_crc32)
        self._compare_again(idle)
        self._acknowledged_bytes = input_bytes
        self._acknowledged_crc32 = input_crc32
        self._settled_bytes = self._output_bytes
        self._settled_crc32 = self._output_crc32

    def _compare(
        self, sums: frames.Checksums, input_bytes: int, input_crc32: int
    ) -> None:
        first_input_bytes, first_output_bytes = self._start_bytes
        for direction, checked_bytes, end_bytes, found, reported in (
            (
                errors.INPUT,
                self._acknowledged_bytes,
                input_bytes,
                (input_bytes - first_input_bytes, input_crc32),
                (sums.input_bytes, sums.input_crc32),
            ),
            (
                errors.OUTPUT,
                self._settled_bytes,
                self._output_bytes,
                (self._output_bytes - first_output_bytes, self._output_crc32),
                (sums.output_bytes, sums.output_crc32),
            ),
        ):
            if found != reported:
                raise errors.ChecksumMismatch(
                    direction,
                    checked_bytes,
                    end_bytes,
                    _difference(found, reported),
                    self._acknowledged_bytes,
                )

    def _compare_again(self, idle: bool) -> None:
        again = self._again
        if again is None:
            return
        again.settled_crc32 = again.crc32
        whole = self._output_bytes >= again.end_bytes
        if not whole and not idle:
            return
        if not whole or again.crc32 != again.expected:
            raise errors.ChecksumMismatch(
                errors.OUTPUT,
                self._settled_bytes,
                again.end_bytes,
                "two slots returned different output",
                self._acknowledged_bytes,
            )
        self._again = None


def _difference(found: tuple[int, int], reported: tuple[int, int]) -> str:
    if found[0] != reported[0]:
        return (
            f"{found[0]} bytes here since this slot started, {reported[0]} at"
            " the accelerator"
        )
    return f"CRC-32 {found[1]:08x} here, {reported[1]:08x} at the accelerator"
