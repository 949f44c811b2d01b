# SPDX-License-Identifier: Apache-2.0

"""End-to-end checksums of the client library, against a pool made for it."""

import random
import zlib

import pytest

from fpgapool import client
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.functional.client import fakepool
from tests.harness import cases

CHUNK = fakepool.CHUNK_BYTES
PARAMS = {"key": b"\x12\x34"}
TIMEOUT_S = 60
CORES = ("copy", "double", "digest")


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


def _wait_for_complaint(worker) -> str | None:
    # The worker lets go of this when its connection has ended.
    with worker._lock:
        return worker.complaint


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


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("local", [True, False])
def test_no_false_alarm_over_breaking_connections(pools, core, local):
    chooser = random.Random(f"sums {core}{local}")
    reconnects = 0
    for _ in range(12):
        size_bytes = chooser.randrange(1, 20 * CHUNK)
        span_bytes = 1200 if local else size_bytes
        budgets = [950 + chooser.randrange(span_bytes) for _ in range(4)]
        pool = pools(core, budgets, local=local)
        data = chooser.randbytes(size_bytes)
        output, report = _run(pool, data)
        assert bytes(output) == _expected(core, data)
        assert report.checksum
        assert all(
            "checksum" in hello["features"] for hello in pool.worker.hellos
        )
        reconnects += report.reconnects
    assert reconnects > 5


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("local", [True, False])
def test_no_false_alarm_over_breaking_runs(pools, core, local):
    chooser = random.Random(f"sums of runs {core}{local}")
    for _ in range(8):
        budgets = [950 + chooser.randrange(1500) for _ in range(4)]
        pool = pools(core, budgets, local=local)
        data = chooser.randbytes(3000)
        output = b""
        with _open(pool, len(data)) as session:
            for start in range(0, len(data), 100):
                session.pin[:100] = data[start : start + 100]
                output += session.run(100)
            output += session.finish()
        assert output == _expected(core, data)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("core", CORES)
def test_changed_output_is_found_where_it_is(pools, core, local):
    data = random.Random(core).randbytes(10 * CHUNK)
    at = {"copy": 7 * CHUNK + 5, "double": 7 * CHUNK + 5, "digest": 31}[core]
    for checksum in (False, True):
        pool = pools(core, local=local)
        pool.worker.spoils_output_at = at
        if not checksum:
            output, _ = _run(pool, data, checksum=False)
            assert output[at] != _expected(core, data)[at]
            continue
        with pytest.raises(client.ChecksumMismatch) as caught:
            _run(pool, data)
    failure = caught.value
    assert (failure.code, failure.direction) == ("CHECKSUM_MISMATCH", "output")
    assert failure.start_bytes <= at < failure.end_bytes
    assert failure.end_bytes - failure.start_bytes <= 2 * CHUNK
    span = f"output bytes {failure.start_bytes} to {failure.end_bytes} "
    assert span in failure.message
    assert _wait_for_complaint(pool.worker) == "CHECKSUM_MISMATCH"
    assert pool.cancelled.is_set()


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("core", CORES)
def test_changed_input_is_found_where_it_is(pools, core, local):
    pool = pools(core, local=local)
    pool.worker.spoils_input_at = 3 * CHUNK
    with pytest.raises(client.ChecksumMismatch) as caught:
        _run(pool, bytes(5 * CHUNK))
    failure = caught.value
    assert (failure.direction, failure.start_bytes) == ("input", 3 * CHUNK)
    assert (failure.end_bytes, failure.offset_bytes) == (4 * CHUNK, 3 * CHUNK)


def test_a_run_does_not_return_what_was_changed(pools):
    pool = pools()
    pool.worker.spoils_output_at = 250
    with _open(pool) as session:
        assert session.checksum
        session.run(100)
        session.run(100)
        with pytest.raises(client.ChecksumMismatch) as caught:
            session.run(100)
        assert caught.value.start_bytes == 200
        with pytest.raises(client.ChecksumMismatch):
            session.run(100)
    assert not pool.worker.closed.is_set()


@pytest.mark.parametrize("fails", [True, False])
def test_file_is_as_before_unless_all_is_well(pools, tmp_path, fails):
    pool = pools()
    if fails:
        pool.worker.spoils_output_at = 5 * CHUNK - 1
    source, destination = tmp_path / "in", tmp_path / "out"
    source.write_bytes(bytes(5 * CHUNK))
    destination.write_bytes(b"before")
    options = {
        "params": PARAMS,
        "front_door": pool.path,
        "checksum": True,
        "timeout_s": TIMEOUT_S,
    }
    if fails:
        with pytest.raises(client.ChecksumMismatch):
            client.run_file("copy", source, destination, **options)
        assert destination.read_bytes() == b"before"
    else:
        client.run_file("copy", source, destination, **options)
        assert destination.stat().st_size == 5 * CHUNK
    assert not list(tmp_path.glob(".*part"))


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
            assert "came from two slots" in failure.message
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


@pytest.mark.parametrize("core", cases.first("double", "copy"))
def test_nothing_wrong_is_believed(pools, core):
    chooser = random.Random(f"believed {core}")
    outcomes = {True: 0, False: 0}
    for _ in range(25):
        size_bytes = chooser.randrange(1, 12 * CHUNK)
        workers = []
        for number in range(4):
            local = chooser.random() < 0.5
            budgets = tuple(
                950 + chooser.randrange(800 if local else 3 * CHUNK)
                for _ in range(chooser.randrange(1, 3))
            )
            workers.append(
                {"local": local, "budgets": budgets, "mortal": True}
                if number < 3
                else {"local": local}
            )
        spares = [fakepool.Worker(core, **one) for one in workers[1:]]
        pool = pools(core, spares=spares, **workers[0])
        spoiler = chooser.choice(pool.workers)
        at = chooser.randrange(size_bytes)
        if chooser.random() < 0.8:
            spoiler.spoils_output_at = at
        else:
            spoiler.spoils_input_at = at
        data = chooser.randbytes(size_bytes)
        try:
            output, _ = _run(pool, data)
        except client.ChecksumMismatch:
            outcomes[False] += 1
        else:
            assert bytes(output) == _expected(core, data)
            outcomes[True] += 1
    assert min(outcomes.values()) > 3


def test_slots_without_checksums(pools):
    for features in ([], ["something-else"]):
        pool = pools(features=features)
        with pytest.raises(client.SessionFailed) as caught:
            _open(pool)
        assert caught.value.code == codes.CHECKSUM_UNAVAILABLE
        assert pool.cancelled.is_set()
        # Who does not ask for them does not care.
        assert not _run(pools(features=features), b"a", checksum=False)[
            1
        ].checksum


def test_the_other_slot_has_no_checksums(pools):
    pool = pools(yields_at=100, spares=[fakepool.Worker(features=[])])
    with _open(pool) as session:
        session.run(100)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert caught.value.code == codes.CHECKSUM_UNAVAILABLE
    assert caught.value.offset_bytes == 100


@pytest.mark.parametrize(
    "features", ["checksum", {"checksum": 1}, [["checksum"]], [1], True, 7]
)
def test_features_that_are_no_list_of_names(pools, features):
    for checksum in (True, False):
        pool = pools(features=features)
        with pytest.raises(client.SessionFailed) as caught:
            _open(pool, checksum=checksum)
        assert caught.value.code == "PROTOCOL_ERROR"


def test_features_that_nobody_asked_for(pools):
    pool = pools(features=["checksum", "more"])
    assert _run(pool, b"abc", checksum=False)[0] == b"abc"
    assert _run(pools(features=["checksum", "more"]), b"abc")[1].checksum


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


def test_checksums_are_crc32_of_zlib():
    assert zlib.crc32(b"123456789") == 0xCBF43926


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
