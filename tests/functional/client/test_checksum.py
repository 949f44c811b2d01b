# SPDX-License-Identifier: Apache-2.0

"""End-to-end checksums of the client library, against a pool made for it."""

import random

import pytest

from fpgapool import client
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.functional.client import fakepool

CHUNK = fakepool.CHUNK_BYTES
PARAMS = {"key": b"\x12\x34"}
TIMEOUT_S = 60


def _open(pool, size_bytes=1000, **options):
    options = {
        "params": PARAMS,
        "timeout_s": TIMEOUT_S,
        "checksum": True,
        **options,
    }
    return client.acc_open("copy", size_bytes, front_door=pool.path, **options)


def _run(pool, data, **options):
    options = {"checksum": True, "timeout_s": TIMEOUT_S, **options}
    return client.run_buffer(
        "copy", data, params=PARAMS, front_door=pool.path, **options
    )


def _expected(core: str, data: bytes) -> bytes:
    made = fakepool.Core(core)
    return made.process(data, 0) + made.finish()


def test_off_unless_asked_for(pools):
    pool = pools()
    _, report = _run(pool, b"abc", checksum=False)
    assert not report.checksum
    assert [hello["features"] for hello in pool.worker.hellos] == [
        ["blocks", "checkpoint"]
    ]
    with pytest.raises(client.InvalidRequest) as caught:
        _run(pool, b"abc", checksum="yes")
    assert caught.value.code == "INVALID_REQUEST"
    assert pool.operations().count("open") == 1


# The slot gives its output, changes it and is gone before it says how it was:
# what the client passed on comes again from the next slot, and is right there.


def _dies_before_it_acknowledges(worker, number):
    """Let a slot be lost before its acknowledgement of that number."""
    frames_left = [number]

    def lie(frame):
        frames_left[0] -= 1
        if frames_left[0]:
            return frame
        worker.dead = True
        raise channel.ChannelClosed("lost on purpose")

    worker.lie = lie


@pytest.mark.parametrize("spoils", [True, False])
@pytest.mark.parametrize("losses", [1, 3])
def test_what_a_lost_slot_changed_is_found(pools, losses, spoils):
    spares = [fakepool.Worker("double") for _ in range(losses)]
    pool = pools("double", spares=spares)
    _dies_before_it_acknowledges(pool.worker, 3)
    if spoils:
        pool.worker.spoils_output_at = 4 * CHUNK
    for spare in spares[:-1]:
        _dies_before_it_acknowledges(spare, 1)
    data = random.Random(losses).randbytes(6 * CHUNK)
    # One piece at a time, of whose output a part at least arrives: the client
    # sees the end of the connection when it acknowledges that part.
    with _open(pool, len(data)) as session:
        for number in range(2):
            _run_piece(session, data, number)
        if spoils:
            with pytest.raises(client.ChecksumMismatch) as caught:
                _run_piece(session, data, 2)
            failure = caught.value
            assert "two slots returned different output" in failure.message
            assert failure.start_bytes == 4 * CHUNK
            assert failure.end_bytes in (5 * CHUNK, 6 * CHUNK)
        else:
            for number in range(2, 6):
                _run_piece(session, data, number)
        assert session.reopens == losses


def _run_piece(session, data, number):
    start = number * CHUNK
    session.pin[:] = data[start : start + CHUNK]
    output = _expected("double", data)[2 * start : 2 * start + 2 * CHUNK]
    assert session.run() == output


def test_the_other_slot_has_no_checksums(pools):
    pool = pools(yields_at=100, spares=[fakepool.Worker(features=[])])
    with _open(pool) as session:
        session.run(100)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert caught.value.code == codes.CHECKSUM_UNAVAILABLE
    assert caught.value.offset_bytes == 100


def _frame(sums: bytes, **members) -> bytes:
    header = frames.FrameHeader(
        frames.CHECKSUM, payload_length_bytes=len(sums), **members
    )
    return header.pack() + sums


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (lambda frame: b"", "PROTOCOL_ERROR"),
        (lambda frame: _frame(b""), "PROTOCOL_ERROR"),
        (lambda frame: _frame(bytes(23)), "PROTOCOL_ERROR"),
        (lambda frame: _frame(bytes(4096)), "PROTOCOL_ERROR"),
        # For another acknowledgement.
        (
            lambda frame: _frame(frame[32:], task_id=9, offset_bytes=100),
            "PROTOCOL_ERROR",
        ),
        (
            lambda frame: _frame(frame[32:], task_id=1, offset_bytes=99),
            "PROTOCOL_ERROR",
        ),
        (lambda frame: frame[:32] + bytes(24), "CHECKSUM_MISMATCH"),
        (lambda frame: frame[:32] + b"\xff" * 24, "CHECKSUM_MISMATCH"),
        # The last of several counts.
        (lambda frame: frame + frame[:32] + bytes(24), "CHECKSUM_MISMATCH"),
    ],
)
def test_workers_that_lie(pools, lie, code):
    pool = pools()
    pool.worker.lie = lie
    with _open(pool) as session:
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert caught.value.code == code
    assert caught.value.offset_bytes == 0


@pytest.mark.parametrize(
    ("member", "direction"),
    [
        ("input_bytes", "input"),
        ("input_crc32", "input"),
        ("output_bytes", "output"),
        ("output_crc32", "output"),
    ],
)
def test_every_member_counts(pools, member, direction):
    def lie(frame):
        sums = frames.Checksums.decode(frame[32:])
        wrong = sums._replace(**{member: getattr(sums, member) ^ 1})
        return frame[:32] + wrong.encode()

    pool = pools()
    pool.worker.lie = lie
    with _open(pool) as session:
        with pytest.raises(client.ChecksumMismatch) as caught:
            session.run(100)
    assert caught.value.direction == direction


def test_the_end_of_the_output_alone_is_not_believed(pools):
    pool = pools("digest")
    pool.worker._send_ack = lambda data: None
    with pytest.raises(client.OperationTimeout):
        _run(pool, bytes(100), timeout_s=0.3)


def test_the_end_of_a_lost_slot_is_not_believed(pools):
    spare = fakepool.Worker()
    pool = pools(spares=[spare])
    _dies_before_it_acknowledges(pool.worker, 1)
    send_output = spare._send_output

    def never_ends(data, start, output, flags, task_id):
        send_output(data, start, output, flags & ~frames.END, task_id)

    spare._send_output = never_ends
    with pytest.raises(client.OperationTimeout):
        _run(pool, bytes(100), timeout_s=1)
    assert spare.hellos


def test_cpu_needs_none(tmp_path):
    output, report = client.run_buffer(
        "copy",
        b"abc",
        front_door=str(tmp_path / "none"),
        fallback="cpu",
        checksum=True,
    )
    assert output == b"abc"
    assert (report.checksum, report.fallback_reason) == (
        False,
        "FRONT_DOOR_UNAVAILABLE",
    )
