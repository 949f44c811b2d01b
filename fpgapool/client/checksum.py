# SPDX-License-Identifier: Apache-2.0

"""End-to-end checksums: what the client sees against what the core saw.

A worker says with each acknowledgement how much its core was given and has
produced in this slot, and the CRC-32 of both. It is compared with what was
sent and what has arrived before the acknowledgement counts, so it does not
matter when the slot is lost later.

What was received of a lost slot and not acknowledged comes again from the
next one, and is dropped. It was not checked, so the checksum of what came
first is compared with that of what came again, once all of it has. Until then
something is unacknowledged, so no caller takes the output for complete.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing
import zlib

from fpgapool.client import errors
from fpgapool.protocol import frames


class Sent(typing.Protocol):
    """A piece of input.

    :ivar data: its bytes.
    :ivar input_crc32: of the slot's input up to its end.
    """

    data: memoryview
    input_crc32: int

    @property
    def end_offset_bytes(self) -> int:
        """Position behind its last byte."""


@dataclasses.dataclass(slots=True)
class _Again:
    """Output that comes a second time, and what follows it.

    :ivar expected: CRC-32 of what was passed on.
    :ivar crc32: the same of what this slot gives.
    :ivar settled_crc32: the same at the last acknowledgement.
    :ivar end_bytes: where the repetition ends.
    """

    expected: int
    crc32: int
    settled_crc32: int
    end_bytes: int


class Verifier:
    """Checks one session. Sending and receiving may be two threads.

    :param input_offset_bytes: where the input begins in the first slot.
    :param output_offset_bytes: the same of the output.
    """

    def __init__(
        self, input_offset_bytes: int, output_offset_bytes: int
    ) -> None:
        self._acknowledged_bytes = input_offset_bytes
        self._settled_bytes = output_offset_bytes
        self._again: _Again | None = None
        self._start()

    def _start(self) -> None:
        """Begin with a slot, which goes on where all is checked."""
        self._start_bytes = (self._acknowledged_bytes, self._settled_bytes)
        self._sent_crc32 = 0
        self._acknowledged_crc32 = 0
        self._output_crc32 = 0
        self._settled_crc32 = 0
        self._output_bytes = self._settled_bytes
        self._claim: tuple[frames.FrameHeader, frames.Checksums] | None = None

    def add_input(self, piece: Sent) -> None:
        """Take a piece into account that is sent for the first time.

        :param piece: its ``input_crc32`` is set.
        """
        self._sent_crc32 = zlib.crc32(piece.data, self._sent_crc32)
        piece.input_crc32 = self._sent_crc32

    def add_output(self, data: memoryview, known_bytes: int) -> None:
        """Take output into account that has arrived completely.

        :param data: the output.
        :param known_bytes: how much of it another slot gave already.
        """
        self._output_bytes += len(data)
        self._output_crc32 = zlib.crc32(data, self._output_crc32)
        again = self._again
        if again is not None:
            again.crc32 = zlib.crc32(data, again.crc32)
            again.expected = zlib.crc32(data[known_bytes:], again.expected)

    def resume(self) -> None:
        """Forget what a connection that broke has said last."""
        self._claim = None

    def move(
        self,
        received_bytes: int,
        unacknowledged: collections.abc.Iterable[Sent],
    ) -> None:
        """Go on in another slot, where the last acknowledgement left off.

        :param received_bytes: output that was passed on.
        :param unacknowledged: the pieces that will be sent again.
        """
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
        """Note what the worker says before an acknowledgement.

        :param header: of a CHECKSUM frame.
        :param payload: the rest of it.
        :raises frames.ProtocolError: if it is malformed.
        """
        self._claim = header, frames.Checksums.decode(payload)

    def check(
        self,
        header: frames.FrameHeader,
        covered: Sent | None,
        idle: bool,
    ) -> None:
        """Compare before an acknowledgement counts.

        :param header: of the ACK.
        :param covered: the last piece that it newly covers, None if there is
            none.
        :param idle: whether it covers all that was sent.
        :raises errors.ChecksumMismatch: if input or output differ.
        :raises frames.ProtocolError: if the worker has not said what there
            is to compare.
        """
        claim, self._claim = self._claim, None
        if claim is None or (
            (claim[0].task_id, claim[0].offset_bytes)
            != (header.task_id, header.offset_bytes)
        ):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "acknowledgement without its checksum"
            )
        input_bytes, input_crc32 = (
            (self._acknowledged_bytes, self._acknowledged_crc32)
            if covered is None
            else (covered.end_offset_bytes, covered.input_crc32)
        )
        if header.offset_bytes != input_bytes:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "acknowledgement of a part of a frame"
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
        for direction, checked_bytes, end_bytes, found, told in (
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
            if found != told:
                raise errors.ChecksumMismatch(
                    direction,
                    checked_bytes,
                    end_bytes,
                    _difference(found, told),
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
                "it came from two slots and differs",
                self._acknowledged_bytes,
            )
        self._again = None


def _difference(found: tuple[int, int], told: tuple[int, int]) -> str:
    if found[0] != told[0]:
        return (
            f"{found[0]} bytes in this slot here, {told[0]} at the accelerator"
        )
    return f"CRC-32 {found[1]:08x} here, {told[1]:08x} at the accelerator"
