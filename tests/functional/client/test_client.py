# SPDX-License-Identifier: Apache-2.0

"""The client library against a front door and a worker made for it."""

import array
import collections
import os
import random
import threading

import numpy as np
import pytest

from fpgapool import client
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.functional.client import fakepool
from tests.harness import cases

PARAMS = {"key": b"\x12\x34"}
TIMEOUT_S = 60


def _open(pool, size_bytes=1000, **options):
    options = {"params": PARAMS, "timeout_s": TIMEOUT_S, **options}
    return client.acc_open("copy", size_bytes, front_door=pool.path, **options)


def _data(size_bytes, seed=1):
    return random.Random(seed).randbytes(size_bytes)


@pytest.mark.parametrize("local", [True, False])
def test_runs_one_after_another(pools, local):
    pool = pools(local=local)
    data = _data(3000)
    with _open(pool, 3000) as session:
        assert session.transport == ("shm" if local else "stream")
        outputs = []
        for start in (0, 1000, 2000):
            session.pin[:1000] = data[start : start + 1000]
            outputs.append(bytes(client.acc_run(session, 1000)))
        assert bytes(session.finish()) == b""
    assert b"".join(outputs) == fakepool.copied(data, 0)
    assert pool.worker.closed.is_set()
    assert not pool.cancelled.is_set()
    assert session.statistics == client.Statistics(3000, 3000, 0.25)
    assert (session.host_name, session.device, session.slot) == (
        "host7",
        "board0",
        2,
    )
    assert pool.worker.params == {"key": "1234"}


def test_parameters_never_reach_the_front_door(pools):
    pool = pools()
    _open(pool, params={"key": "beef"}).close()
    assert "beef" not in repr(pool.requests)
    assert pool.worker.params == {"key": "beef"}


def test_output_of_several_pieces(pools):
    for local in (True, False):
        pool = pools("double", local=local)
        with _open(pool) as session:
            for seed in range(3):
                data = _data(fakepool.CHUNK_BYTES, seed)
                session.pin[:] = data
                expected = bytes(byte for byte in data for _ in "12")
                assert bytes(session.run()) == expected


def test_output_at_the_end_only(pools):
    for local in (True, False):
        pool = pools("digest", local=local)
        data = _data(5 * fakepool.CHUNK_BYTES + 17)
        output, report = client.run_buffer(
            "copy", data, params=PARAMS, front_door=pool.path
        )
        assert bytes(output) == fakepool.hashlib.sha256(data).digest()
        assert report.input_bytes == len(data)
        assert report.output_bytes == 32


@pytest.mark.parametrize("core", ["copy", "double", "digest"])
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("spare_bytes", cases.first(5000, 0, None))
def test_pipelined_over_breaking_connections(pools, core, local, spare_bytes):
    chooser = random.Random(f"{core}{local}")
    for _ in range(6):
        size_bytes = chooser.randrange(1, 20 * fakepool.CHUNK_BYTES)
        span_bytes = 3000 if local else size_bytes
        budgets = [900 + chooser.randrange(span_bytes) for _ in range(4)]
        pool = pools(core, budgets, local=local)
        data = _data(size_bytes, chooser.random())
        core_here = fakepool.Core(core)
        expected = core_here.process(data, 0) + core_here.finish()
        into = None
        if spare_bytes is not None:
            into = bytearray(len(expected) + spare_bytes)
        output, report = client.run_buffer(
            "copy",
            data,
            into=into,
            params=PARAMS,
            front_door=pool.path,
            timeout_s=TIMEOUT_S,
        )
        assert bytes(output) == expected
        if into is not None:
            assert output.obj is into
        assert report.reconnects == len(pool.worker.hellos) - 1


@pytest.mark.parametrize("local", [True, False])
def test_output_longer_than_its_memory(pools, local):
    pool = pools("copy", local=local)
    into = bytearray(999)
    with pytest.raises(client.InvalidRequest) as caught:
        client.run_buffer(
            "copy",
            _data(1000),
            into=into,
            params=PARAMS,
            front_door=pool.path,
            timeout_s=TIMEOUT_S,
        )
    assert caught.value.code == "SIZE_MISMATCH"
    assert not any(into)
    assert pool.cancelled.wait(TIMEOUT_S)


def test_memory_that_output_cannot_go_into(pools):
    pool = pools()
    data = bytearray(_data(1000))
    for into in (bytes(1000), memoryview(data)[500:]):
        with pytest.raises(client.InvalidRequest) as caught:
            client.run_buffer("copy", data, into=into, front_door=pool.path)
        assert caught.value.code == "INVALID_REQUEST"
    assert not pool.requests


def test_resumed_with_the_newest_secret_and_the_offsets(pools):
    pool = pools(budgets=[2000], local=False)
    with _open(pool) as session:
        for _ in range(5):
            session.run(400)
    first, second = pool.worker.hellos
    assert "params" in first
    assert "params" not in second
    assert second["input_offset"] == second["output_offset"] > 0


def test_unknown_optional_frames_and_pings_are_harmless(pools):
    pool = pools()
    pool.worker.noise = (
        frames.FrameHeader(200, payload_length_bytes=5).pack()
        + b"hello"
        + frames.FrameHeader(frames.PING, task_id=7, offset_bytes=9).pack()
    )
    with _open(pool) as session:
        session.pin[:3] = b"abc"
        assert bytes(session.run(3)) == b"abc"


@pytest.mark.parametrize(
    ("noise", "code"),
    [
        (b"x" * 32, "PROTOCOL_ERROR"),
        (frames.FrameHeader(frames.HELLO).pack(), "PROTOCOL_ERROR"),
        (
            frames.FrameHeader(frames.OUTPUT, offset_bytes=5).pack(),
            "PROTOCOL_ERROR",
        ),
        (
            frames.FrameHeader(frames.ACK, offset_bytes=2**40).pack(),
            "PROTOCOL_ERROR",
        ),
        (
            frames.FrameHeader(
                frames.OUTPUT, frames.SHM, 0, 0, 0, 1, 99
            ).pack(),
            "PROTOCOL_ERROR",
        ),
        (
            frames.FrameHeader(
                frames.OUTPUT, payload_length_bytes=2**31
            ).pack(),
            "FRAME_TOO_LARGE",
        ),
    ],
)
def test_worker_that_breaks_the_protocol(pools, noise, code):
    pool = pools()
    pool.worker.noise = noise
    session = _open(pool)
    with pytest.raises(client.SessionFailed) as caught:
        session.run(10)
    assert caught.value.code == code
    with pytest.raises(client.SessionFailed) as again:
        session.run(10)
    assert again.value.code == code
    session.close()
    assert pool.cancelled.is_set()


def test_failed_core_names_the_offset(pools):
    pool = pools()
    pool.worker.fail_at = 600
    with _open(pool) as session:
        session.run(600)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert (caught.value.code, caught.value.offset_bytes) == (
        "CORE_FAILED",
        600,
    )
    # The pool hears it from the worker, as what it is.
    assert not pool.cancelled.is_set()


def test_worker_refuses_parameters(pools):
    pool = pools()
    pool.worker.refuse = ("INVALID_PARAMS", "key is weak")
    with pytest.raises(client.InvalidParams, match="key is weak"):
        _open(pool)
    assert pool.cancelled.is_set()


@pytest.mark.parametrize("params", [None, {"key": "zz"}, {"kee": "1234"}])
def test_parameters_are_checked_before_asking(pools, params):
    pool = pools()
    with pytest.raises(client.InvalidParams) as caught:
        _open(pool, params=params)
    assert "zz" not in str(caught.value)
    assert "open" not in [request["op"] for request in pool.requests]


def test_unknown_accelerator(pools):
    pool = pools()
    with pytest.raises(client.RequestRejected) as caught:
        client.acc_open("none", 1, front_door=pool.path)
    assert caught.value.code == "UNKNOWN_ACCELERATOR"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("WAIT_TIMEOUT", client.WaitTimeout),
        ("QUEUE_FULL", client.RequestRejected),
        ("CANCELLED_BY_CLIENT", client.Cancelled),
    ],
)
def test_rejected(pools, reason, kind):
    pool = pools()
    pool.rejection = {"state": "REJECTED", "reason": reason, "message": "m"}
    with pytest.raises(kind, match="m"):
        _open(pool)


def test_a_request_whose_session_was_used_and_closed(pools):
    """It was made again under its name; the session's reason is OK."""
    pool = pools()
    pool.rejection = {"state": "CLOSED", "reason": "OK"}
    with pytest.raises(client.RequestRejected) as caught:
        _open(pool)
    assert caught.value.code == "SESSION_CLOSED"


def test_asks_again_when_the_front_door_is_restarted(pools):
    pool = pools()
    pool.drop_while_queued = 2
    states = []
    with _open(pool, on_state=lambda view: states.append(view.state)):
        pass
    asked = [r for r in pool.requests if r["op"] == "open"]
    assert len(asked) == 3
    assert len({request["request_id"] for request in asked}) == 1
    assert states == ["QUEUED"] * 3 + ["READY"]


def test_asks_again_when_the_slot_moved_while_the_front_door_was_away(pools):
    spare = fakepool.Worker("copy", (), local=True)
    pool = pools(local=True, spares=[spare])
    pool.drop_at_connections = 1
    with _open(pool, timeout_s=20) as session:
        assert session.view.generation == spare.generation
    asked = [r for r in pool.requests if r["op"] == "open"]
    assert len(asked) == 2


def test_a_session_keeps_its_transport_while_the_front_door_is_away(pools):
    data = _data(10 * fakepool.CHUNK_BYTES)
    pool = pools(budgets=(2000,), local=True)
    with _open(pool) as session:
        pool.refuse_connections = 2
        for start in range(0, len(data), 1000):
            piece = data[start : start + 1000]
            session.pin[: len(piece)] = piece
            output = bytes(session.run(len(piece)))
            assert output == fakepool.copied(piece, start)
    assert pool.refuse_connections == 0
    hellos = pool.worker.hellos
    assert [hello["transport"] for hello in hellos] == ["shm"] * 2


def test_timeout_while_queued_cancels_the_request(pools):
    pool = pools()
    pool.ready.clear()
    with pytest.raises(client.OperationTimeout):
        _open(pool, timeout_s=1)
    assert pool.cancelled.is_set()


@pytest.mark.parametrize("kind", [client.CancelToken, threading.Event])
def test_cancelled_while_queued(pools, kind, caplog):
    caplog.set_level("INFO", "fpgapool")
    pool = pools()
    pool.ready.clear()
    cancel = kind()

    def when_asked():
        pool.asked.wait()
        (cancel.cancel if kind is client.CancelToken else cancel.set)()

    threading.Thread(target=when_asked).start()
    with pytest.raises(client.Cancelled):
        _open(pool, cancel=cancel, request_id="mine")
    assert pool.cancelled.is_set()
    line = "Request mine of copy cancelled before it had a slot"
    assert line in caplog.messages


@pytest.mark.parametrize("local", [True, False])
def test_cancelled_while_running(pools, local, tmp_path):
    pool = pools(local=local)
    pool.worker.hold.clear()
    cancel = client.CancelToken()

    def when_running():
        pool.worker.reached.wait()
        cancel.cancel()

    threading.Thread(target=when_running).start()
    source = tmp_path / "in"
    source.write_bytes(_data(30 * fakepool.CHUNK_BYTES))
    with pytest.raises(client.Cancelled):
        client.run_file(
            "copy",
            source,
            tmp_path / "out",
            params=PARAMS,
            front_door=pool.path,
            cancel=cancel,
        )
    assert pool.cancelled.is_set()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "door0.sock"}


def test_timeout_while_running_ends_the_session(pools):
    pool = pools()
    pool.worker.hold.clear()
    session = _open(pool)
    with pytest.raises(client.OperationTimeout):
        session.run(10, timeout_s=0.1)
    with pytest.raises(client.OperationTimeout):
        session.run(10)
    session.close()
    assert pool.cancelled.is_set()


@pytest.mark.parametrize(
    ("refusal", "code"),
    [("UNAUTHORIZED", "SESSION_LOST"), ("CORE_FAILED", "CORE_FAILED")],
)
def test_worker_that_does_not_resume(pools, refusal, code):
    pool = pools(budgets=[2000], local=False)
    with _open(pool) as session:
        pool.worker.refuse = (refusal, "it is over")
        with pytest.raises(client.SessionFailed, match="it is over") as caught:
            collections.deque(session.run(500) for _ in range(10))
    assert caught.value.code == code
    assert pool.cancelled.is_set()


@pytest.mark.parametrize("local", [True, False])
def test_a_program_that_stood_still_before_its_hello(pools, local):
    """The worker has hung up; the slot is still there for who comes again."""
    pool = pools(budgets=[10_000, 700, 10_000, 2000], local=local)
    pool.worker.misses = 1
    data = _data(3000)
    output = b""
    with _open(pool, len(data)) as session:
        pool.worker.misses = 1
        for start in range(0, len(data), 500):
            session.pin[:500] = data[start : start + 500]
            output += session.run(500)
    assert output == fakepool.copied(data, 0)
    assert pool.worker.misses == 0
    assert not pool.cancelled.is_set()


def test_worker_that_breaks_every_connection(pools):
    pool = pools(budgets=[2000] + [700] * 20, local=False)
    with _open(pool) as session:
        with pytest.raises(client.SessionFailed) as caught:
            collections.deque(session.run(500) for _ in range(10))
    assert caught.value.code == "SESSION_LOST"


def test_closing_twice(pools):
    session = _open(pools())
    client.acc_close(session)
    client.acc_close(session)
    session.close()
    for use in (
        lambda: session.run(1),
        lambda: session.run(b"data"),
        session.finish,
        lambda: session.pin,
        session.__enter__,
    ):
        with pytest.raises(client.SessionClosed) as caught:
            use()
        assert caught.value.code == "SESSION_CLOSED"


def test_context_manager_never_masks(pools):
    pool = pools()
    with pytest.raises(ZeroDivisionError):
        with _open(pool):
            raise ZeroDivisionError
    assert pool.cancelled.is_set()
    with _open(pools()) as session:
        session.close()


@pytest.mark.parametrize(
    "n_bytes", [0, -1, True, 1.0, 2**70, fakepool.CHUNK_BYTES + 1]
)
def test_wrong_length_changes_nothing(pools, n_bytes):
    with _open(pools()) as session:
        with pytest.raises(client.InvalidRequest) as caught:
            session.run(n_bytes)
        assert caught.value.code == "INVALID_SIZE"
        assert len(session.run(5)) == 5


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda data: array.array("B", data)]
)
def test_runs_data(pools, local, kind):
    data = _data(100)
    with _open(pools(local=local)) as session:
        assert session.run(kind(data)) == fakepool.copied(data, 0)
        assert session.pin[:100] == data
        # What is in the buffer already may be moved to its front.
        output = client.acc_run(session, session.pin[40:90])
        assert output == fakepool.copied(data[40:90], 100)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("text", "n_bytes must be an integer, data or a Block"),
        (1.0, "n_bytes must be an integer, data or a Block"),
        (np.int64(1), "n_bytes must be an integer, data or a Block"),
        (b"", "the data is empty"),
        (0, "n_bytes must be an integer from 1 to"),
        (bytes(fakepool.CHUNK_BYTES + 1), "do not fit in the input buffer"),
    ],
)
def test_other_input_is_refused(pools, given, message):
    with _open(pools()) as session:
        session.pin[:3] = b"abc"
        with pytest.raises(client.InvalidRequest, match=message):
            session.run(given)
        assert session.run(3) == fakepool.copied(b"abc", 0)


def test_input_after_finish(pools):
    with _open(pools()) as session:
        session.finish()
        with pytest.raises(client.SessionClosed):
            session.run(1)


def test_used_by_two_threads_at_once(pools):
    pool = pools()
    pool.worker.hold.clear()
    with _open(pool) as session:
        thread = threading.Thread(target=session.run, args=(5,))
        thread.start()
        pool.worker.reached.wait()
        with pytest.raises(client.FpgapoolError) as caught:
            session.run(5)
        pool.worker.hold.set()
        thread.join()
    assert caught.value.code == codes.SESSION_BUSY


def _run_file(pool, source, destination, **options):
    return client.run_file(
        "copy",
        source,
        destination,
        params=PARAMS,
        front_door=pool.path,
        timeout_s=TIMEOUT_S,
        **options,
    )


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    "size_bytes",
    [1, fakepool.CHUNK_BYTES, 9 * fakepool.CHUNK_BYTES + 5],
)
def test_file(pools, tmp_path, local, size_bytes):
    source, destination = tmp_path / "in", tmp_path / "out"
    data = _data(size_bytes)
    source.write_bytes(data)
    done = []
    report = _run_file(
        pools(local=local),
        source,
        destination,
        progress=lambda *progress: done.append(progress),
    )
    assert destination.read_bytes() == fakepool.copied(data, 0)
    assert report.input_bytes == report.output_bytes == size_bytes
    assert done == sorted(done)
    assert done[-1] == (size_bytes, size_bytes)


def test_file_over_itself_keeps_its_permissions(pools, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    path.chmod(0o640)
    with open(path, "rb") as stream:
        _run_file(pools(), stream, path)
    assert path.read_bytes() == b"abc"
    assert path.stat().st_mode & 0o777 == 0o640


def test_failed_file_leaves_the_old_one(pools, tmp_path):
    source, destination = tmp_path / "in", tmp_path / "out"
    source.write_bytes(_data(9 * fakepool.CHUNK_BYTES))
    destination.write_bytes(b"old")
    pool = pools()
    pool.worker.fail_at = 3 * fakepool.CHUNK_BYTES
    with pytest.raises(client.SessionFailed):
        _run_file(pool, source, destination)
    assert destination.read_bytes() == b"old"
    assert not list(tmp_path.glob(".*"))


def test_empty_file(pools, tmp_path):
    source = tmp_path / "in"
    source.touch()
    report = _run_file(pools(), source, tmp_path / "out")
    assert (report.input_bytes, report.output_bytes) == (0, 0)
    assert (tmp_path / "out").read_bytes() == b""


def test_source_shorter_than_announced(pools, tmp_path):
    source = tmp_path / "in"
    source.write_bytes(b"abc")
    pool = pools()
    with pytest.raises(client.InvalidRequest) as caught:
        _run_file(pool, source, tmp_path / "out", size_bytes=4)
    assert caught.value.code == "SIZE_MISMATCH"
    assert not pool.requests


def test_pipe_shorter_than_announced(pools, tmp_path):
    """Nobody can know before it ends."""
    source = tmp_path / "in"
    os.mkfifo(source)
    pool = pools()
    writer = threading.Thread(target=source.write_bytes, args=[b"abc"])
    writer.start()
    with pytest.raises(client.InvalidRequest) as caught:
        _run_file(pool, source, tmp_path / "out", size_bytes=4)
    writer.join()
    assert caught.value.code == "SIZE_MISMATCH"
    assert pool.cancelled.is_set()


def test_destination_that_cannot_be_written(pools, tmp_path):
    source = tmp_path / "in"
    source.write_bytes(b"abc")
    pool = pools()
    with pytest.raises(FileNotFoundError):
        _run_file(pool, source, tmp_path / "none" / "out")
    assert not pool.requests


def test_failing_progress_callback_stops_everything(pools, tmp_path):
    source = tmp_path / "in"
    source.write_bytes(_data(9 * fakepool.CHUNK_BYTES))
    pool = pools()

    def progress(done_bytes, _total_bytes):
        raise ZeroDivisionError(done_bytes)

    with pytest.raises(ZeroDivisionError):
        _run_file(pool, source, tmp_path / "out", progress=progress)
    assert pool.cancelled.is_set()
