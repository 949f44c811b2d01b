# SPDX-License-Identifier: Apache-2.0

"""Frames and records of a group's clients."""

import pytest

from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from tests.harness import wire

CHUNK_BYTES = 16
MAX_BYTES = 100


def _task(number=1, params=b"{}", data=b"", offset=0, lock_id=0):
    kind = records.TASK | lock_id << groups.KIND_BITS
    return records.header(kind, number, len(params), offset) + params + data


def _feed(reader, *pieces):
    found = []
    for frame in wire.read(b"".join(bytes(piece) for piece in pieces)):
        record = reader.feed(frame.header, frame.payload)
        if record is not None:
            found.append(record)
    return found


@pytest.mark.parametrize(
    "record",
    [
        _task(),
        _task(params=b"", data=b"x"),
        _task(params=b'{"a":1}', data=b"x" * 16),
        _task(data=b"x" * 33, offset=7, lock_id=5),
        records.header(groups.LOCK, 3),
        records.header(groups.UNLOCK, 3),
    ],
)
def test_a_clients_record_survives_the_way(record):
    pieces = groups.task_frames(record, CHUNK_BYTES)
    assert _feed(groups.TaskReader(MAX_BYTES), *pieces) == [record]


@pytest.mark.parametrize(
    "record",
    [
        records.header(records.DONE, 1),
        records.header(records.DONE, 2) + b"x" * 16,
        records.header(records.DONE, 2) + b"x" * 40,
        records.header(records.FAILED, 3, 2) + b"{}",
        records.header(groups.LOCKED, 4),
        records.header(groups.UNLOCK, 4, 2) + b"{}",
        records.header(groups.MEMBERS, 0, 2) + b"{}",
    ],
)
def test_a_desks_record_survives_the_way(record):
    pieces = groups.result_frames(record, CHUNK_BYTES)
    assert _feed(groups.ResultReader(MAX_BYTES), *pieces) == [record]


def test_pieces_of_a_task():
    record = _task(params=b"", data=b"x" * 20, offset=8, lock_id=2)
    first, _, second, last = groups.task_frames(record, CHUNK_BYTES)
    assert frames.FrameHeader.unpack_from(first) == frames.FrameHeader(
        frames.INPUT, frames.TASK_MORE, 0, 1, 8, 16, 2
    )
    assert frames.FrameHeader.unpack_from(second) == frames.FrameHeader(
        frames.INPUT, 0, 0, 1, 24, 4, 2
    )
    assert last == b"x" * 4


def test_a_task_that_is_too_large_is_named_and_not_kept():
    reader = groups.TaskReader(MAX_BYTES)
    pieces = [
        *groups.task_frames(_task(7, data=b"x" * 99), CHUNK_BYTES),
        *groups.task_frames(_task(8, data=b"x" * 98), CHUNK_BYTES),
    ]
    large, fits = _feed(reader, *pieces)
    assert large == records.header(groups.TOO_LARGE, 7)
    assert fits == _task(8, data=b"x" * 98)


def _input(number=1, flags=0, offset=0, aux=0, data=b"xy", stream=0):
    return (
        frames.FrameHeader(
            frames.INPUT, flags, stream, number, offset, len(data), aux
        ),
        data,
    )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([_input(stream=1)], codes.STREAM_LIMIT),
        ([_input(flags=frames.SHM)], codes.PROTOCOL_ERROR),
        ([_input(aux=1 << 24)], codes.BAD_OFFSET),
        (
            [_input(flags=frames.TASK_MORE), _input(offset=3)],
            codes.BAD_OFFSET,
        ),
        (
            [_input(flags=frames.TASK_MORE), _input(offset=2, aux=1)],
            codes.BAD_OFFSET,
        ),
        (
            [_input(flags=frames.TASK_MORE), _input(2, offset=2)],
            codes.PROTOCOL_ERROR,
        ),
        (
            [
                _input(flags=frames.TASK_MORE),
                (frames.FrameHeader(frames.LOCK, task_id=1), b""),
            ],
            codes.PROTOCOL_ERROR,
        ),
        (
            [(frames.FrameHeader(frames.LOCK), b"")],
            codes.PROTOCOL_ERROR,
        ),
        (
            [(frames.FrameHeader(frames.LOCK, task_id=1 << 24), b"")],
            codes.PROTOCOL_ERROR,
        ),
        ([(frames.FrameHeader(frames.ACK), b"")], codes.PROTOCOL_ERROR),
    ],
)
def test_wrong_frames_of_a_client(sent, code):
    reader = groups.TaskReader(MAX_BYTES)
    *before, last = sent
    for header, payload in before:
        assert reader.feed(header, payload) is None
    with pytest.raises(frames.ProtocolError) as caught:
        reader.feed(*last)
    assert caught.value.code == code


def test_wrong_frames_of_a_desk():
    reader = groups.ResultReader(MAX_BYTES)
    assert reader.feed(frames.FrameHeader(200), b"new") is None
    for header in (
        frames.FrameHeader(frames.OUTPUT, offset_bytes=1),
        frames.FrameHeader(frames.OUTPUT, frames.SHM),
        frames.FrameHeader(frames.INPUT),
    ):
        with pytest.raises(frames.ProtocolError):
            reader.feed(header, b"")
    with pytest.raises(frames.ProtocolError) as caught:
        reader.feed(frames.FrameHeader(frames.OUTPUT), b"x" * 101)
    assert caught.value.code == frames.FRAME_TOO_LARGE


HELLO = groups.Hello("g", "c", "s", groups.SHM, 10)
OPENED = groups.Opened(10, 100, 16, 1.5)
MEMBERS = groups.MemberList(
    3, (groups.Host("h", 2, (("data", "::1", 5), ("local", "", 0)), "00"),)
)


@pytest.mark.parametrize("message", [HELLO, OPENED, MEMBERS])
def test_documents_survive_the_way(message):
    encoded = frames.encode_json(message.document())
    assert type(message).parse(frames.decode_json(encoded)) == message


def test_a_secret_is_not_shown():
    assert "'s'" not in repr(HELLO)


@pytest.mark.parametrize(
    ("message", "members"),
    [
        (HELLO, {"features": []}),
        (HELLO, {"secret": 1}),
        (HELLO, {"transport": "pigeon"}),
        (HELLO, {"window_tasks": 0}),
        (HELLO, {"window_tasks": 4097}),
        (OPENED, {"max_task_bytes": 0}),
        (OPENED, {"chunk_bytes": "1"}),
        (OPENED, {"resume_grace_s": -1}),
        (MEMBERS, {"revision": -1}),
        (MEMBERS, {"hosts": [1]}),
        (MEMBERS, {"hosts": [{}] * 1025}),
        (MEMBERS, {"hosts": [{"members": -1}]}),
        (
            MEMBERS,
            {"hosts": [{"members": 1, "host_id": "h", "endpoints": [1]}]},
        ),
        (
            MEMBERS,
            {
                "hosts": [
                    {
                        "members": 1,
                        "host_id": "h",
                        "endpoints": [
                            {"network": "n", "address": "a", "port": 65536}
                        ],
                    }
                ]
            },
        ),
    ],
)
def test_wrong_documents(message, members):
    with pytest.raises(frames.ProtocolError):
        type(message).parse({**message.document(), **members})
