# SPDX-License-Identifier: Apache-2.0

"""What a client compares, without any connection."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.client import errors
from fpgapool.client.sessions import checksum
from fpgapool.client.sessions import pieces
from fpgapool.protocol import frames


class Exchange:
    """One session and the sums of a slot that is right.

    :param output_of: what the core makes of a piece.
    """

    def __init__(self, output_of=lambda data: data) -> None:
        self.verifier = checksum.Verifier(0, 0)
        self._output_of = output_of
        self.pending: list[pieces.Piece] = []
        self.sent_bytes = self.acknowledged_bytes = 0
        self.received_bytes = self.settled_bytes = 0
        self.enter_slot()

    def enter_slot(self) -> None:
        self.position_bytes = self.settled_bytes
        self.sums = frames.Checksums()

    def send(self, data: bytes) -> pieces.Piece:
        piece = pieces.Piece(0, memoryview(data), None)
        piece.offset_bytes = self.sent_bytes
        self.sent_bytes += len(data)
        self.verifier.add_input(piece)
        self.pending.append(piece)
        return piece

    def compute(
        self, piece: pieces.Piece, spoiled: bytes | None = None
    ) -> None:
        """Let the slot process a piece, and its output arrive."""
        output = self._output_of(bytes(piece.data))
        self.sums = frames.Checksums(
            self.sums.input_bytes + len(piece.data),
            self.sums.output_bytes + len(output),
            zlib.crc32(piece.data, self.sums.input_crc32),
            zlib.crc32(output, self.sums.output_crc32),
        )
        output = output if spoiled is None else spoiled
        known = min(self.received_bytes - self.position_bytes, len(output))
        self.verifier.add_output(memoryview(output), known)
        self.position_bytes += len(output)
        self.received_bytes = max(self.received_bytes, self.position_bytes)

    def announce(self) -> None:
        payload = bytearray(self.sums.encode())
        self.verifier.take(self._ack(), payload)

    def _ack(self) -> frames.FrameHeader:
        offset_bytes = self._covered().end_offset_bytes
        return frames.FrameHeader(frames.ACK, 0, 0, 1, offset_bytes)

    def _covered(self) -> pieces.Piece:
        return self.pending[self.count - 1]

    def acknowledge(self, count: int) -> None:
        self.count = count
        self.announce()
        self.verifier.check(
            self._ack(), self._covered(), idle=count == len(self.pending)
        )
        self.acknowledged_bytes = self._covered().end_offset_bytes
        del self.pending[:count]
        self.settled_bytes = self.position_bytes

    def move(self) -> None:
        self.verifier.move(self.received_bytes, self.pending)
        self.enter_slot()


@pytest.fixture
def exchange():
    return Exchange()


def test_all_is_well(exchange):
    for number in range(5):
        exchange.compute(exchange.send(bytes([number]) * number))
        exchange.acknowledge(1)


def test_one_acknowledgement_of_several_pieces(exchange):
    for data in (b"abc", b"", b"d"):
        exchange.compute(exchange.send(data))
    exchange.acknowledge(3)


def test_what_is_on_its_way_does_not_count_yet(exchange):
    first, second = exchange.send(b"abc"), exchange.send(b"def")
    exchange.compute(first)
    exchange.acknowledge(1)
    exchange.compute(second)
    exchange.acknowledge(1)


def test_a_difference_lies_between_two_acknowledgements(exchange):
    exchange.compute(exchange.send(b"abc"))
    exchange.acknowledge(1)
    exchange.compute(exchange.send(b"defg"), b"dEfg")
    with pytest.raises(errors.ChecksumMismatch) as caught:
        exchange.acknowledge(1)
    failure = caught.value
    assert (failure.direction, failure.start_bytes) == ("output", 3)
    assert (failure.end_bytes, failure.offset_bytes) == (7, 3)
    assert "output bytes 3 to 7 " in str(failure)


@pytest.mark.parametrize("spoiled", [b"ab", b"abcd", b""])
def test_output_of_another_length(exchange, spoiled):
    exchange.compute(exchange.send(b"abc"), spoiled)
    with pytest.raises(errors.ChecksumMismatch) as caught:
        exchange.acknowledge(1)
    assert f"{len(spoiled)} bytes here since" in str(caught.value)


def test_resuming_counts_once(exchange):
    exchange.compute(exchange.send(b"abc"))
    exchange.count = 1
    # CHECKSUM arrived, its ACK did not: both come again.
    exchange.announce()
    exchange.verifier.resume()
    exchange.acknowledge(1)
    # Neither did the client's word that it did: the ACK is repeated.
    header = frames.FrameHeader(frames.ACK, 0, 0, 1, 3)
    exchange.verifier.take(header, bytearray(exchange.sums.encode()))
    exchange.verifier.check(header, None, idle=False)
    exchange.compute(exchange.send(b"def"))
    exchange.acknowledge(1)


def test_what_a_broken_connection_said_is_void(exchange):
    exchange.compute(exchange.send(b"abc"))
    exchange.count = 1
    exchange.announce()
    exchange.verifier.resume()
    with pytest.raises(frames.ProtocolError):
        exchange.verifier.check(
            exchange._ack(), exchange._covered(), idle=True
        )


def test_each_slot_counts_from_where_it_begins(exchange):
    exchange.compute(exchange.send(b"abc"))
    exchange.acknowledge(1)
    pieces = [exchange.send(data) for data in (b"def", b"ghi")]
    exchange.move()
    for piece in pieces:
        exchange.compute(piece)
        exchange.acknowledge(1)
    assert exchange.sums.input_bytes == 6


def test_a_part_of_a_piece_is_not_acknowledged(exchange):
    piece = exchange.send(b"abc")
    exchange.compute(piece)
    header = frames.FrameHeader(frames.ACK, 0, 0, 1, 2)
    exchange.verifier.take(header, bytearray(exchange.sums.encode()))
    with pytest.raises(frames.ProtocolError):
        exchange.verifier.check(header, None, idle=False)


def test_the_other_slot_gives_less_than_the_first(exchange):
    piece = exchange.send(b"abc")
    exchange.compute(piece, b"abcd")
    exchange.move()
    exchange.compute(piece)
    with pytest.raises(errors.ChecksumMismatch) as caught:
        exchange.acknowledge(1)
    assert (caught.value.start_bytes, caught.value.end_bytes) == (0, 4)


def _spoiled(data, output: bytes) -> bytes:
    """Leave the output as it is in most cases."""
    match data.draw(st.sampled_from(["right"] * 8 + ["changed", "shorter"])):
        case "changed" if output:
            return bytes([output[0] ^ 1]) + output[1:]
        case "shorter":
            return output[:-1]
    return output


@given(st.data())
def test_nothing_wrong_is_believed_and_nothing_right_refused(data):
    exchange = Exchange(lambda piece: piece * 2)
    pieces = data.draw(st.lists(st.binary(max_size=5), max_size=6))
    wanted = b"".join(piece * 2 for piece in pieces)
    passed_on = bytearray()
    spoiled = False
    computed = 0
    losses = data.draw(st.integers(0, 5))
    try:
        while pieces or exchange.pending:
            steps = ["lose"] if losses else []
            steps += ["send"] * 3 if pieces else []
            steps += (
                ["compute"] * 6 if computed < len(exchange.pending) else []
            )
            steps += ["settle"] * 3 if computed else []
            match data.draw(st.sampled_from(steps)):
                case "send":
                    exchange.send(pieces.pop(0))
                case "compute":
                    piece = exchange.pending[computed]
                    right = bytes(piece.data) * 2
                    output = _spoiled(data, right)
                    spoiled = spoiled or output != right
                    position = exchange.position_bytes
                    exchange.compute(piece, output)
                    passed_on += output[len(passed_on) - position :]
                    computed += 1
                case "settle":
                    exchange.acknowledge(computed)
                    computed = 0
                case "lose":
                    losses -= 1
                    exchange.move()
                    computed = 0
    except errors.ChecksumMismatch:
        assert spoiled
    else:
        assert passed_on == wanted
