# SPDX-License-Identifier: Apache-2.0

"""Blocks: data that a slot caches, so that it need not be sent again."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import shown
from fpgapool.client.links import connection as connections
from fpgapool.client.sessions import pieces
from fpgapool.protocol import blocks
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

#: What holds data.
Buffer: typing.TypeAlias = bytes | bytearray | memoryview


def unfit(data: Any) -> errors.InvalidRequest:
    """Return the error for data that is not bytes."""
    text = f"data must be bytes or a buffer, not {type(data).__name__}"
    if isinstance(data, str):
        text = "data must be bytes; encode the text"
    elif hasattr(data, "dtype"):
        text = f"data must be an array of numbers, not of {data.dtype}"
    return errors.InvalidRequest(codes.INVALID_INPUT, text)


def bytes_of(data: Any) -> bytes | memoryview:
    """Return the bytes of a buffer, copied if they are not contiguous.

    :raises errors.InvalidRequest: if it is not a buffer.
    """
    try:
        view = memoryview(data)
        if view.format == "O":
            # The bytes are addresses in this process.
            raise unfit(data)
        if not view.c_contiguous:
            return view.tobytes()
        return view.cast("B") if view.nbytes else b""
    except (TypeError, ValueError):
        raise unfit(data) from None


def input_of(given: Any) -> bytes | memoryview:
    """Return the bytes that a call got where it also takes a number.

    :raises errors.InvalidRequest: code ``INVALID_SIZE``, if it is no data, or
        empty.
    """
    try:
        view = memoryview(given)
    except (TypeError, ValueError):
        view = None
    # NumPy's numbers are buffers, too.
    if view is None or not view.ndim:
        raise errors.InvalidRequest(
            codes.INVALID_SIZE, "n_bytes must be an integer, data or a Block"
        )
    if not view.nbytes:
        raise errors.InvalidRequest(
            codes.INVALID_SIZE, "the data is empty; finish() ends the input"
        )
    return bytes_of(view)


class Block(shown.Shown):
    """Data that a slot or a group may use repeatedly.

    The slot keeps the data while it has space; the next time, only a 32-byte
    reference is sent. Do not change the data.

    :param data: any object with the buffer protocol and at least 1 byte.
    :raises errors.InvalidRequest: if the data is invalid.
    """

    def __init__(self, data: Any) -> None:
        self.source = data
        self.data = memoryview(bytes_of(data))
        if not self.data.nbytes:
            raise errors.InvalidRequest(
                codes.INVALID_SIZE, "a block must have at least 1 byte"
            )
        self.reference = blocks.Reference.of(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def _facts(self) -> Mapping[str, object]:
        return {"bytes": len(self)}


_NUMBER = shapes.integer(1, blocks.MAX_ARGUMENT)


def checked_arguments(arguments: Mapping[int, Any] | None) -> dict[int, Block]:
    """Turn arguments into blocks.

    :param arguments: blocks or other data, by number.
    :raises errors.InvalidRequest: if a number or the data is invalid.
    """
    found: dict[int, Block] = {}
    if len(arguments or ()) >= blocks.MAX_REFERENCES:
        raise errors.InvalidRequest(
            codes.INVALID_ARGUMENT,
            f"at most {blocks.MAX_REFERENCES - 1} arguments are allowed",
        )
    for number, data in dict(arguments or {}).items():
        checks.argument(
            _NUMBER, number, "an argument's number", codes.INVALID_ARGUMENT
        )
        found[number] = data if isinstance(data, Block) else Block(data)
    return found


class BlockPiece(pieces.Piece):
    """A block that is a task's input; ``brought`` says whether it is sent."""

    __slots__ = ("block", "brought")

    def __init__(self, number: int, block: Block) -> None:
        super().__init__(number, block.data, None)
        self.block = block
        self.brought = False
        # The block is in the caller's memory, which no slot can clear.
        self.origin = block.data


class BlockSender:
    """Tracks which blocks a session's worker has.

    The worker uses the same rules, so it rarely lacks a referenced block.
    """

    def __init__(self, arguments: dict[int, Block] | None = None) -> None:
        self._arguments = arguments or {}
        self._there: blocks.Shelf[blocks.Reference] = blocks.Shelf(0)

    def move(self, capacity_bytes: int) -> None:
        """Switch to a worker without blocks."""
        self._there = blocks.Shelf(capacity_bytes)

    def announce(self, piece: BlockPiece) -> bytes:
        """Return the frame to send before a piece; set ``brought``."""
        reference = piece.block.reference
        piece.brought = not self._there.use(reference)
        if not piece.brought:
            return _frame(reference, piece, 0)
        if self._there.add(reference, reference.length_bytes) is None:
            return b""
        return _frame(reference, piece, frames.TASK_MORE)

    def missed(self, piece: pieces.Piece) -> None:
        """Record that the worker lacks a piece's block.

        :raises frames.ProtocolError: if the piece was sent with its data.
        """
        if not isinstance(piece, BlockPiece) or piece.brought:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "the worker reports that data is missing, but it was sent",
            )
        self._there.drop(piece.block.reference)

    def send_arguments(
        self, connection: connections.Connection, deadline_s: float | None
    ) -> None:
        """Send all arguments; a worker that already has them ignores them.

        :raises errors.SessionFailed: if the worker does not accept them.
        """
        opened = connection.opened
        place = opened.input_offset_bytes
        for number, block in self._arguments.items():
            reference = block.reference
            if (
                frames.BLOCKS_FEATURE not in opened.features
                or reference.length_bytes > opened.chunk_bytes
            ):
                raise errors.SessionFailed(
                    codes.INCOMPATIBLE_SLOT,
                    "the slot's worker does not accept an argument of "
                    f"{reference.length_bytes} bytes",
                    place,
                )
            self._there.add(reference, reference.length_bytes, lasting=True)
            announced = frames.pack_header(
                frames.INPUT,
                frames.BLOCK | frames.TASK_MORE,
                offset_bytes=place,
                payload_length_bytes=blocks.REFERENCE_BYTES,
            )
            header = frames.pack_header(
                frames.INPUT,
                offset_bytes=place,
                payload_length_bytes=reference.length_bytes,
            )
            named = reference._replace(argument=number).encode()
            connection.channel.send(
                announced + named + header, block.data, deadline_s=deadline_s
            )


def _frame(
    reference: blocks.Reference, piece: BlockPiece, flags: int
) -> bytes:
    return (
        frames.pack_header(
            frames.INPUT,
            frames.BLOCK | flags | piece.flags,
            0,
            piece.task_id,
            piece.offset_bytes,
            blocks.REFERENCE_BYTES,
            piece.number,
        )
        + reference.encode()
    )
