# SPDX-License-Identifier: Apache-2.0

"""The two directions of a session, on plain events."""

from __future__ import annotations

import gc
import mmap
import weakref

import pytest

from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes

WINDOW_BYTES = 12
END = frames.END
SIDES = [stream.CLIENT, stream.WORKER]
IDS = ["client", "worker"]


def outbound(
    side: stream.Side, *lengths: int, end: bool = False, cuts: bool = False
) -> stream.Outbound[stream.Piece]:
    """Return a direction with pieces that were sent, the last with END."""
    out = stream.Outbound[stream.Piece](side, 0, WINDOW_BYTES, cuts)
    for number, length in enumerate(lengths):
        last = end and number == len(lengths) - 1
        out.add(piece(length, number), number + 1, last)
    while out.unsent:
        out.take()
    return out


def piece(length: int, number: int = 0) -> stream.Piece:
    return stream.Piece(memoryview(bytes([number + 1]) * length), number)


def data(offset: int, length: int, flags: int = 0) -> frames.FrameHeader:
    return frames.FrameHeader(frames.OUTPUT, flags, 0, 0, offset, length)


def numbers(pieces) -> list[int]:
    return [one.number for one in pieces]


# Sending.


def test_pieces_get_their_places_in_order():
    out = stream.Outbound[stream.Piece](stream.CLIENT, 100, WINDOW_BYTES)
    for length in (5, 3):
        out.add(piece(length), length, False)
    out.add(piece(0), 9, True)
    assert [one.offset_bytes for one in out.kept] == [100, 105, 108]
    assert [one.task_id for one in out.kept] == [5, 3, 9]
    assert [one.flags for one in out.kept] == [0, 0, END]
    assert (out.added_bytes, out.sent_bytes) == (108, 100)
    assert out.take() is out.kept[0]
    assert out.sent_bytes == 105
    assert len(out.unsent) == 2


@pytest.mark.parametrize("shared", [False, True])
def test_a_header_says_where_a_piece_is(shared):
    out = outbound(stream.WORKER, 5, 3, end=True)
    header = frames.FrameHeader.unpack_from(
        out.kept[1].header(frames.OUTPUT, shared)
    )
    assert header == frames.FrameHeader(
        frames.OUTPUT,
        END | frames.SHM if shared else END,
        task_id=2,
        offset_bytes=5,
        payload_length_bytes=3,
        aux=1 if shared else 0,
    )


def test_credit_ends_at_the_window():
    out = stream.Outbound[stream.Piece](stream.WORKER, 0, WINDOW_BYTES)
    assert not out.has_credit()
    assert out.has_room(WINDOW_BYTES)
    assert not out.has_room(WINDOW_BYTES + 1)
    for length in (WINDOW_BYTES - 1, 1, 1, 0):
        out.add(piece(length), 1, False)
    assert not out.has_room(0)
    assert out.has_credit()
    out.take()
    assert out.has_credit()
    out.take()
    assert not out.has_credit()
    out.acknowledge(WINDOW_BYTES - 1)
    assert out.has_credit()
    assert out.has_room(WINDOW_BYTES - 2)
    assert not out.has_room(WINDOW_BYTES - 1)


def test_an_end_needs_no_credit():
    out = outbound(stream.WORKER, WINDOW_BYTES)
    out.add(piece(0), 2, True)
    assert out.has_credit()


def test_room_does_not_grow_while_it_is_resumed():
    out = outbound(stream.CLIENT, 6, 6)
    out.resume(0)
    assert out.sent_bytes == 0
    assert not out.has_room(1)


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_acknowledged_pieces_are_let_go(side):
    out = outbound(side, 5, 3, 4)
    # A part of a piece frees none of it.
    assert out.acknowledge(4) == []
    assert numbers(out.acknowledge(8, 2)) == [0, 1]
    assert out.acknowledged_bytes == 8
    assert out.acknowledge(8, 2) == []
    assert numbers(out.acknowledge(12, 3)) == [2]
    assert not out.kept


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_what_is_checked_first_does_not_count_yet(side):
    out = outbound(side, 5, 3)
    seen = []

    def check(pieces):
        seen.extend(numbers(pieces))
        assert len(out.kept) == 2
        raise ValueError

    with pytest.raises(ValueError):
        out.acknowledge(5, 1, check)
    assert seen == [0]
    assert out.acknowledged_bytes == 0
    assert len(out.kept) == 2


@pytest.mark.parametrize(
    ("side", "code", "text"),
    [
        (
            stream.CLIENT,
            codes.PROTOCOL_ERROR,
            "input acknowledged at 6; the offset must be from 3 to 5",
        ),
        (
            stream.WORKER,
            codes.BAD_OFFSET,
            "output acknowledged at 6; the offset must be from 3 to 5",
        ),
    ],
    ids=IDS,
)
def test_nothing_is_acknowledged_that_was_never_sent(side, code, text):
    out = outbound(side, 3, 2)
    out.add(piece(4), 3, False)
    out.acknowledge(3, 1)
    with pytest.raises(frames.ProtocolError, match=text) as caught:
        out.acknowledge(6, 3)
    assert caught.value.code == code
    assert (out.acknowledged_bytes, len(out.kept)) == (3, 2)


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_acknowledgements_do_not_go_back(side):
    out = outbound(side, 3, 2)
    out.acknowledge(5, 2)
    with pytest.raises(frames.ProtocolError):
        out.acknowledge(3, 1)
    assert out.acknowledged_bytes == 5


def test_an_input_that_is_empty_is_acknowledged_by_its_task():
    out = outbound(stream.CLIENT, 5, 0, end=True)
    assert numbers(out.acknowledge(5, 1)) == [0]
    assert numbers(out.acknowledge(5, 2)) == [1]


def test_an_output_that_is_empty_is_acknowledged_by_its_offset():
    out = outbound(stream.WORKER, 5, 0, end=True)
    assert numbers(out.acknowledge(5)) == [0, 1]


def test_an_output_that_was_not_sent_is_kept():
    out = outbound(stream.WORKER, 5)
    out.add(piece(0, 1), 2, True)
    assert numbers(out.acknowledge(5)) == [0]
    assert numbers(out.unsent) == numbers(out.kept) == [1]


def test_an_end_that_is_done_lets_go_of_all_memory():
    out = stream.Outbound[stream.Piece](stream.WORKER, 0, WINDOW_BYTES)
    memory = mmap.mmap(-1, 4096)
    lives = weakref.ref(memory)
    out.add(stream.Piece(memoryview(memory)[:8]), 1, False)
    out.add(stream.Piece(memoryview(memory)[8:12]), 2, True)
    out.take()
    out.finish()
    assert out.acknowledged_bytes == out.sent_bytes == 12
    del memory
    gc.collect()
    assert lives() is None


# Sending again.


def test_a_client_sends_again_what_the_worker_lacks():
    for offset, again in ((0, [0, 1, 2]), (5, [1, 2]), (8, [2]), (12, [])):
        out = outbound(stream.CLIENT, 5, 3, 4)
        assert out.resume(offset) == []
        assert numbers(out.unsent) == again
        assert out.sent_bytes == offset
        # They stay until their output has come, too.
        assert numbers(out.kept) == [0, 1, 2]
        while out.unsent:
            assert out.has_credit()
            out.take()
        assert numbers(out.acknowledge(12, 3)) == [0, 1, 2]


@pytest.mark.parametrize("offset", [1, 4, 6, 7, 9, 11])
def test_a_client_does_not_resume_within_a_frame(offset):
    out = outbound(stream.CLIENT, 5, 3, 4)
    with pytest.raises(frames.ProtocolError, match="within a piece") as caught:
        out.resume(offset)
    assert caught.value.code == codes.PROTOCOL_ERROR


@pytest.mark.parametrize("offset", range(13))
def test_a_worker_sends_again_from_any_byte(offset):
    out = outbound(stream.WORKER, 5, 3, 4, cuts=True)
    whole = b"".join(one.data for one in out.kept)
    there = out.resume(offset)
    assert [one.number for one in there if one.end_offset_bytes > offset] == []
    assert out.acknowledged_bytes == out.sent_bytes == offset
    assert list(out.kept) == list(out.unsent)
    assert numbers(there) + numbers(out.kept) == [0, 1, 2]
    position, again = offset, b""
    while out.unsent:
        one = out.take()
        assert one.offset_bytes == position
        position = one.end_offset_bytes
        again += one.data
    assert again == whole[offset:]
    assert position == 12


@pytest.mark.parametrize("offset", [1, 4, 6, 7, 9, 11])
def test_a_worker_does_not_cut_what_is_in_shared_buffers(offset):
    out = outbound(stream.WORKER, 5, 3, 4)
    with pytest.raises(frames.ProtocolError, match="within a piece") as caught:
        out.resume(offset)
    assert caught.value.code == codes.BAD_OFFSET


@pytest.mark.parametrize("offset", [4, 13])
@pytest.mark.parametrize(
    ("side", "text"),
    [
        (
            stream.CLIENT,
            "input resumed at {}; the offset must be from 5 to 12",
        ),
        (
            stream.WORKER,
            "output resumed at {}; the offset must be from 5 to 12",
        ),
    ],
    ids=IDS,
)
def test_an_end_does_not_resume_where_nothing_is_left(side, text, offset):
    out = outbound(side, 5, 3, 4, cuts=True)
    out.acknowledge(5, 1)
    with pytest.raises(frames.ProtocolError) as caught:
        out.resume(offset)
    assert caught.value.message == text.format(offset)
    assert caught.value.code == side.code


def test_what_was_not_sent_yet_is_sent_when_resumed():
    out = outbound(stream.WORKER, 5, 3, cuts=True)
    out.add(piece(4, 2), 3, False)
    assert numbers(out.resume(5)) == [0]
    assert numbers(out.unsent) == [1, 2]


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_an_empty_end_always_goes_again(side):
    out = outbound(side, 5, 0, end=True)
    for _ in range(2):
        out.resume(5)
        assert numbers(out.unsent) == [1]
        one = out.take()
        assert (one.offset_bytes, one.flags) == (5, END)
        assert not one.data


def test_an_end_goes_again_though_all_bytes_have_arrived():
    out = stream.Outbound[stream.Piece](stream.WORKER, 0, WINDOW_BYTES)
    last = stream.Piece(memoryview(b"abcde"), 7, frames.TASK_END)
    out.add(last, 3, True)
    out.take()
    for _ in range(2):
        there = out.resume(5)
        assert [one for one in there if one.data] == [last] * len(there)
        assert bytes(last.data) == b"abcde"
        (end,) = out.unsent
        assert (end.offset_bytes, end.task_id, len(end.data)) == (5, 3, 0)
        assert end.flags == frames.TASK_END | END
        assert out.has_credit()
        out.take()
    out.acknowledge(5)
    out.resume(5)
    assert len(out.unsent) == len(out.kept) == 1


def test_a_client_repeats_no_end_that_arrived_with_data():
    out = outbound(stream.CLIENT, 5, end=True)
    out.resume(5)
    assert not out.unsent


# Receiving.


def inbound(
    side: stream.Side, *lengths: int, end: bool = False
) -> stream.Inbound:
    """Return a direction of which pieces were used, the last with END."""
    into = stream.Inbound(side, 0, WINDOW_BYTES, 1)
    offset = 0
    for number, length in enumerate(lengths):
        last = end and number == len(lengths) - 1
        assert into.accept(data(offset, length, END if last else 0))
        assert into.consume(length, number + 1, last) == 0
        offset += length
    return into


@pytest.mark.parametrize("offset", [4, 6])
@pytest.mark.parametrize(
    ("side", "text"),
    [(stream.CLIENT, "output at"), (stream.WORKER, "input at")],
    ids=IDS,
)
def test_pieces_come_in_order(side, text, offset):
    into = inbound(side, 5)
    with pytest.raises(frames.ProtocolError) as caught:
        into.accept(data(offset, 1))
    assert caught.value.message == f"{text} offset {offset}; expected offset 5"
    assert caught.value.code == side.code
    assert into.accept(data(5, 1))


def test_no_more_comes_than_the_credit():
    into = stream.Inbound(stream.WORKER, 0, WINDOW_BYTES)
    assert into.accept(data(0, 5))
    into.consume(5, 1, False)
    with pytest.raises(frames.ProtocolError) as caught:
        # Used, but not acknowledged.
        into.accept(data(5, WINDOW_BYTES - 4))
    assert caught.value.code == codes.CREDIT_EXCEEDED
    assert caught.value.message == (
        "more than 12 bytes of input are unacknowledged"
    )
    assert into.accept(data(5, WINDOW_BYTES - 5))
    assert into.accept(data(WINDOW_BYTES, 0))
    with pytest.raises(frames.ProtocolError):
        into.accept(data(WINDOW_BYTES, 1))
    into.acknowledge()
    assert into.accept(data(WINDOW_BYTES, 5))


@pytest.mark.parametrize("side", SIDES, ids=IDS)
@pytest.mark.parametrize(
    ("buffers", "flags", "number"),
    [(0, frames.SHM, 0), (2, 0, 0), (2, frames.SHM, 2)],
    ids=["none are shared", "all are shared", "there are fewer"],
)
def test_pieces_come_by_the_transport_that_was_agreed(
    side, buffers, flags, number
):
    into = stream.Inbound(side, 0)
    into.buffers = buffers
    strange = data(0, 3)._replace(flags=flags, aux=number)
    with pytest.raises(frames.ProtocolError, match="transport") as caught:
        into.accept(strange)
    assert caught.value.code == codes.PROTOCOL_ERROR
    assert into.received_bytes == 0
    # An END by itself is in no buffer.
    assert into.accept(data(0, 0)._replace(flags=frames.END))


def test_all_pieces_but_the_last_are_multiples():
    into = stream.Inbound(stream.WORKER, 0, WINDOW_BYTES, 4)
    assert into.accept(data(0, 8))
    assert into.accept(data(8, 3))
    with pytest.raises(frames.ProtocolError, match="multiple of 4") as caught:
        into.accept(data(11, 1))
    assert caught.value.code == codes.BAD_OFFSET


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_nothing_comes_after_the_end(side, used):
    into = stream.Inbound(side, 0)
    into.accept(data(0, 5, END))
    if used:
        into.consume(5, 1, True)
    for header in (data(5, 1), data(5, 0), data(5, 1, END), data(4, 0, END)):
        with pytest.raises(frames.ProtocolError, match="after the end") as got:
            into.accept(header)
        assert got.value.code == codes.PROTOCOL_ERROR


def test_nothing_comes_after_the_client_has_closed():
    into = inbound(stream.WORKER, 5, end=True)
    into.closed = True
    for flags in (0, END):
        with pytest.raises(frames.ProtocolError, match="after the end"):
            into.accept(data(5, 0, flags))


@pytest.mark.parametrize("side", SIDES, ids=IDS)
@pytest.mark.parametrize("length", [0, 5])
def test_an_end_that_was_used_may_come_again(side, length):
    into = inbound(side, length, end=True)
    into.acknowledge()
    assert not into.ack_due
    assert not into.accept(data(length, 0, END))
    assert into.ack_due == (side is stream.WORKER)
    assert into.consumed_bytes == length


def test_an_end_that_was_not_used_does_not_come_again():
    into = stream.Inbound(stream.WORKER, 0)
    into.accept(data(0, 0, END))
    with pytest.raises(frames.ProtocolError):
        into.accept(data(0, 0, END))


def test_an_acknowledgement_is_about_what_was_used():
    into = stream.Inbound(stream.WORKER, 0, WINDOW_BYTES)
    into.accept(data(0, 5))
    into.accept(data(5, 3))
    assert not into.ack_due
    into.consume(5, 7, False)
    assert into.ack_due
    assert (into.acknowledge(), into.task_id) == (5, 7)
    assert not into.ack_due
    assert (into.received_bytes, into.acknowledged_bytes) == (8, 5)


def test_a_client_acknowledges_when_enough_is_held():
    into = stream.Inbound(stream.CLIENT, 0, due_bytes=5)
    for offset, length, due in ((0, 3, False), (3, 0, False), (3, 2, True)):
        into.accept(data(offset, length))
        into.consume(length, 1, False)
        assert into.ack_due == due
    assert into.acknowledge() == 5
    assert not into.ack_due


def test_a_client_acknowledges_when_enough_buffers_are_held():
    into = stream.Inbound(stream.CLIENT, 0, due_bytes=100)
    into.due_pieces = 2
    for _ in range(2):
        for length, due in ((1, False), (0, False), (1, True)):
            into.accept(data(into.received_bytes, length))
            into.consume(length, 1, False)
            assert into.ack_due == due
        into.acknowledge()


# Receiving again.


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_what_was_not_used_comes_again(side):
    into = inbound(side, 5)
    into.accept(data(5, 3, END))
    into.resume(5)
    assert into.received_bytes == into.acknowledged_bytes == 5
    # A client says in HELLO what it has.
    assert into.ack_due == (side is stream.WORKER)
    assert into.accept(data(5, 3))


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_an_end_that_was_used_stays_used(side):
    into = inbound(side, 5, end=True)
    into.resume(5)
    with pytest.raises(frames.ProtocolError):
        into.accept(data(5, 1))
    assert not into.accept(data(5, 0, END))


def test_a_client_that_resumes_has_not_closed():
    into = inbound(stream.WORKER, 5)
    into.closed = True
    into.resume(0)
    assert into.accept(data(5, 1))


def test_there_is_nothing_to_acknowledge_before_the_first_piece():
    into = stream.Inbound(stream.WORKER, 40)
    into.resume(40)
    assert not into.ack_due
    assert into.accept(data(40, 1))


def test_a_worker_believes_no_acknowledgement_that_it_never_sent():
    into = inbound(stream.WORKER, 5)
    into.accept(data(5, 1))
    into.resume(3)
    with pytest.raises(frames.ProtocolError) as caught:
        into.resume(6)
    assert (
        caught.value.message
        == "input cannot resume at offset 6; it is at offset 5"
    )
    assert caught.value.code == codes.BAD_OFFSET


@pytest.mark.parametrize("offset", [4, 6])
def test_a_worker_goes_on_where_it_was_told(offset):
    into = inbound(stream.CLIENT, 5)
    with pytest.raises(
        frames.ProtocolError, match="it is at offset 5"
    ) as caught:
        into.resume(offset)
    assert caught.value.code == codes.PROTOCOL_ERROR


# Another slot.


def test_another_slot_goes_on_where_it_was_settled():
    into = inbound(stream.CLIENT, 5)
    into.accept(data(5, 4))
    into.settle()
    assert into.consume(4, 2, False) == 0
    into.move()
    into.resume(5)
    assert (into.consumed_bytes, into.delivered_bytes) == (5, 9)
    known = []
    for length in (3, 3, 2):
        assert into.accept(data(into.consumed_bytes, length))
        known.append(into.consume(length, 2, False))
    assert known == [3, 1, 0]
    assert into.delivered_bytes == 13


def test_slots_that_are_lost_again_and_again_deliver_once():
    into = stream.Inbound(stream.CLIENT, 0)
    for length, known in ((4, 0), (2, 2), (6, 4)):
        into.move()
        into.resume(0)
        assert into.accept(data(0, length))
        assert into.consume(length, 1, False) == known
    assert into.delivered_bytes == 6


def test_an_end_comes_again_from_another_slot():
    into = inbound(stream.CLIENT, 5, end=True)
    into.move()
    into.resume(0)
    assert into.accept(data(0, 5, END))
    assert into.consume(5, 1, True) == 5
    assert into.finished


def test_all_unacknowledged_input_goes_to_another_slot():
    out = outbound(stream.CLIENT, 5, 3, 0, end=True)
    out.acknowledge(5, 1)
    out.resume(out.acknowledged_bytes)
    assert numbers(out.unsent) == [1, 2]


def test_one_acknowledgement_covers_several_empty_pieces():
    out = outbound(stream.CLIENT, 0, 0, 5, 0, 0, 0)
    assert numbers(out.acknowledge(0, 2)) == [0, 1]
    assert numbers(out.acknowledge(5, 5)) == [2, 3, 4]
    assert numbers(out.acknowledge(5, 6)) == [5]
    assert not out.kept


def test_empty_pieces_before_data_that_arrived_do_not_come_again():
    out = outbound(stream.CLIENT, 0, 5, 0, 0)
    out.resume(5)
    assert numbers(out.unsent) == [2, 3]
    assert numbers(out.kept) == [0, 1, 2, 3]


def test_empty_pieces_at_the_end_may_come_again_behind_another_connection():
    into = stream.Inbound(stream.WORKER, 0)
    into.accept(data(0, 5))
    into.consume(5, 1, False)
    into.accept(data(5, 0, END))
    into.consume(0, 2, True)
    into.resume(0)
    assert not into.accept(data(5, 0))
    assert not into.accept(data(5, 0, END))
    with pytest.raises(frames.ProtocolError, match="after the end"):
        into.accept(data(5, 0))


def test_an_end_that_is_to_be_resent_may_be_acknowledged():
    out = outbound(stream.CLIENT, 5, 0, end=True)
    out.resume(5)
    assert numbers(out.unsent) == [1]
    assert numbers(out.acknowledge(5, 2)) == [0, 1]
    assert not out.kept
    assert not out.unsent


def test_an_acknowledgement_is_asked_for_once():
    out = outbound(stream.WORKER, 5, 3)
    assert not out.may_ask(False)
    assert out.may_ask(True)
    assert out.ask() == 8
    assert not out.may_ask(True)
    out.acknowledge(5)
    assert not out.may_ask(True)
    out.acknowledge(8)
    # There is nothing to be acknowledged.
    assert not out.may_ask(True)
    out.add(piece(5), 3, False)
    out.take()
    assert out.may_ask(True)


def test_an_acknowledgement_is_asked_for_if_credit_is_missing():
    out = outbound(stream.WORKER, WINDOW_BYTES)
    assert not out.may_ask(False)
    out.add(piece(1), 2, False)
    assert out.may_ask(False)
    out.ask()
    # The question is lost with its connection.
    out.resume(0)
    out.take()
    assert out.may_ask(False)
