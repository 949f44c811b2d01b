# SPDX-License-Identifier: Apache-2.0

"""Sessions that lose their slot, against a pool made for it."""

import io
import random
import threading

import pytest

from fpgapool import client
from fpgapool.client.links import waiting
from fpgapool.vocabulary import codes
from tests.functional.client import fakepool

CHUNK = fakepool.CHUNK_BYTES
PARAMS = {"key": b"\x12\x34"}
TIMEOUT_S = 60


def _open(pool, size_bytes=1000, **options):
    options = {"params": PARAMS, "timeout_s": TIMEOUT_S, **options}
    return client.acc_open("copy", size_bytes, front_door=pool.path, **options)


def _run(pool, data, **options):
    return client.run_buffer(
        "copy",
        data,
        params=PARAMS,
        front_door=pool.path,
        timeout_s=TIMEOUT_S,
        **options,
    )


def _expected(core: str, data: bytes) -> bytes:
    made = fakepool.Core(core)
    return made.process(data, 0) + made.finish()


def _mortals(core: str, chooser: random.Random, span: dict) -> list[dict]:
    """Options of slots that get lost, at any point of a connection."""
    mortals = []
    for _ in range(chooser.randrange(1, 4)):
        local = chooser.random() < 0.5
        if chooser.random() < 0.3:
            yields_at = chooser.randrange(span[False])
            mortals.append({"local": local, "yields_at": yields_at})
            continue
        budgets = tuple(
            900 + chooser.randrange(span[local])
            for _ in range(chooser.randrange(1, 3))
        )
        mortals.append({"local": local, "budgets": budgets, "mortal": True})
    return mortals


@pytest.mark.parametrize("core", ["copy", "double"])
def test_runs_move_at_any_point(pools, core):
    chooser = random.Random(f"runs {core}")
    reopens = 0
    for _ in range(20):
        first, *others = _mortals(core, chooser, {True: 900, False: 5000})
        spares = [fakepool.Worker(core, **options) for options in others]
        spares.append(fakepool.Worker(core, local=chooser.random() < 0.5))
        pool = pools(core, spares=spares, **first)
        data = chooser.randbytes(5000)
        output = b""
        with _open(pool, len(data)) as session:
            # The caller's view of it stays good.
            pin = session.pin
            for start in range(0, len(data), 100):
                pin[:100] = data[start : start + 100]
                output += session.run(100)
            output += session.finish()
        assert output == _expected(core, data)
        assert session.slot == 2 + session.reopens
        assert session.local == (session.transport == "shm")
        assert session.statistics.input_bytes == len(data)
        reopens += session.reopens
    assert reopens > 10


def test_yielded_slot_goes_on_where_it_was_acknowledged(pools):
    spare = fakepool.Worker("double")
    pool = pools("double", yields_at=700, spares=[spare])
    states = []
    on_state = states.append
    with _open(pool, on_state=on_state) as session:
        for _ in range(10):
            session.run(100)
        assert session.view.generation == 2
        assert (session.slot, session.reopens) == (3, 1)
    (hello,) = spare.hellos
    assert hello["start_input_offset"] == 700
    assert hello["start_output_offset"] == 1400
    assert hello["params"] == {"key": "1234"}
    assert [view.state for view in states] == [
        *("QUEUED", "READY", "QUEUED", "READY")
    ]
    # What the second worker measured is not all of it.
    assert session.statistics.run_s != 0.25


def test_slots_without_progress_come_to_an_end(pools):
    spares = [fakepool.Worker(yields_at=0) for _ in range(9)]
    pool = pools(yields_at=0, spares=spares)
    with _open(pool) as session:
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert (caught.value.code, session.reopens) == ("YIELDED", 5)
    assert pool.cancelled.is_set()


def test_slots_with_progress_do_not(pools):
    spares = [
        fakepool.Worker(yields_at=100 * number) for number in range(2, 10)
    ]
    pool = pools(yields_at=100, spares=[*spares, fakepool.Worker()])
    with _open(pool) as session:
        for _ in range(12):
            session.run(100)
    assert session.reopens == 9


@pytest.mark.parametrize(
    ("last_state", "code", "asked"),
    [
        (None, "YIELDED", 1),
        (
            {"state": "FAILED", "reason": "WAIT_TIMEOUT"},
            "WAIT_TIMEOUT",
            1,
        ),
        ({"state": "FAILED", "reason": "HOST_LOST"}, "HOST_LOST", 5),
        ({"state": "CLOSED", "reason": "OK"}, "SESSION_CLOSED", 1),
    ],
)
def test_no_other_slot(pools, last_state, code, asked):
    pool = pools(yields_at=300)
    pool.last_state = last_state
    with _open(pool) as session:
        session.run(300)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert (caught.value.code, caught.value.offset_bytes) == (code, 300)
    assert pool.operations().count("reopen") == asked


def test_no_answer_whether_there_is_another_slot(pools, monkeypatch):
    monkeypatch.setattr(waiting, "_REOPEN_PATIENCE_S", 1.0)
    pool = pools(yields_at=300)
    pool.last_state = {"state": "LOST", "reason": "CONDUCTOR_UNAVAILABLE"}
    with _open(pool) as session:
        session.run(300)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert (caught.value.code, caught.value.offset_bytes) == ("YIELDED", 300)
    assert pool.operations().count("reopen") >= 2


def test_slot_that_takes_smaller_pieces_only(pools):
    small = fakepool.Worker(sizes=(CHUNK // 2, 4 * CHUNK))
    pool = pools(yields_at=0, spares=[small])
    with _open(pool) as session:
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert caught.value.code == codes.INCOMPATIBLE_SLOT


@pytest.mark.parametrize("local", [True, False])
def test_slot_that_gives_larger_pieces(pools, local):
    large = fakepool.Worker(
        "double", sizes=(4 * CHUNK, 32 * CHUNK), local=local
    )
    pool = pools("double", yields_at=CHUNK, spares=[large], local=not local)
    data = random.Random(1).randbytes(9 * CHUNK)
    output, _ = _run(pool, data)
    assert bytes(output) == _expected("double", data)


def test_deadline_while_waiting_for_another_slot(pools):
    pool = pools(yields_at=0, spares=[fakepool.Worker()])
    with _open(pool) as session:
        pool.ready.clear()
        with pytest.raises(client.OperationTimeout):
            session.run(100, timeout_s=1)
    assert pool.cancelled.is_set()


def test_cancelled_while_waiting_for_another_slot(pools):
    pool = pools(yields_at=0, spares=[fakepool.Worker()])
    token = client.CancelToken()
    with _open(pool, cancel=token) as session:
        pool.ready.clear()

        def on_reopen():
            pool.reopening.wait()
            token.cancel()

        threading.Thread(target=on_reopen).start()
        with pytest.raises(client.Cancelled):
            session.run(100)


def test_source_that_fails_while_waiting_for_another_slot(pools):
    pool = pools(yields_at=0, spares=[fakepool.Worker()])

    class Source(io.RawIOBase):
        read_before = False

        def readinto(self, buffer):
            if self.read_before:
                pool.ready.clear()
                pool.worker.hold.set()
                pool.reopening.wait()
                raise ZeroDivisionError
            self.read_before = True
            return len(buffer)

    pool.worker.hold.clear()
    with pytest.raises(ZeroDivisionError):
        client.run_stream(
            "copy",
            Source(),
            io.BytesIO(),
            3 * CHUNK,
            params=PARAMS,
            front_door=pool.path,
        )
    assert pool.cancelled.is_set()


def test_aborted_while_waiting_for_another_slot(pools):
    pool = pools(yields_at=0, spares=[fakepool.Worker()])
    with _open(pool) as session:
        pool.ready.clear()

        def on_reopen():
            pool.reopening.wait()
            session.abort()

        threading.Thread(target=on_reopen).start()
        with pytest.raises(client.SessionClosed):
            session.run(100)
    assert pool.cancelled.is_set()


# Accelerators with a state.


def _lost(pools, losses):
    """A pool whose slots get lost so many times, with a state."""
    pool = pools("digest", budgets=[900], mortal=True, local=False)
    pool.again = [
        fakepool.Worker(
            "digest",
            (900,) if number < losses else (),
            mortal=number < losses,
            local=False,
        )
        for number in range(1, losses + 1)
    ]
    return pool


def test_session_with_a_state_fails_with_the_offset(pools):
    pool = pools("digest", yields_at=200)
    with _open(pool) as session:
        session.run(200)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(100)
    assert (caught.value.code, caught.value.offset_bytes) == ("YIELDED", 200)
    assert "reopen" not in pool.operations()


@pytest.mark.parametrize("losses", [1, 3])
def test_transfer_with_a_state_starts_over(pools, losses):
    pool = _lost(pools, losses)
    data = random.Random(losses).randbytes(5 * CHUNK)
    output, report = _run(pool, data, request_id="job7")
    assert bytes(output) == _expected("digest", data)
    assert (report.restarts, report.reopens) == (losses, 0)
    asked = [one for one in pool.requests if one["op"] == "open"]
    names = [one["request_id"] for one in asked]
    assert names == ["job7", "job7.1", "job7.2", "job7.3"][: losses + 1]


def test_starting_over_comes_to_an_end(pools):
    pool = _lost(pools, 4)
    with pytest.raises(client.SessionFailed) as caught:
        _run(pool, bytes(5 * CHUNK))
    assert caught.value.code == "WORKER_DIED"
    assert pool.operations().count("open") == 4


def test_what_was_written_is_taken_back(pools):
    spare = fakepool.Worker(sizes=(CHUNK // 2, 4 * CHUNK))
    pool = pools(yields_at=2 * CHUNK, spares=[spare])
    pool.again = [fakepool.Worker()]
    data = random.Random(5).randbytes(5 * CHUNK)
    output_came = threading.Event()

    class Source(io.BytesIO):
        def readinto(self, buffer):
            if self.tell() > 2 * CHUNK:
                output_came.wait()
            return super().readinto(buffer)

    source, destination = Source(b"skip" + data), io.BytesIO()
    source.seek(4)
    destination.write(b"head")
    report = client.run_stream(
        "copy",
        source,
        destination,
        len(data),
        params=PARAMS,
        front_door=pool.path,
        progress=lambda done, _: done and output_came.set(),
    )
    assert report.restarts == 1
    assert destination.getvalue() == b"head" + _expected("copy", data)


class Pipe(io.BytesIO):
    def tell(self):
        raise OSError("a pipe")


@pytest.mark.parametrize("which", ["source", "destination"])
def test_pipes_cannot_be_started_over(pools, which):
    spare = fakepool.Worker(sizes=(CHUNK // 2, 4 * CHUNK))
    pool = pools(yields_at=2 * CHUNK, spares=[spare])
    data = bytes(5 * CHUNK)
    source = Pipe(data) if which == "source" else io.BytesIO(data)
    destination = Pipe() if which == "destination" else io.BytesIO()
    with pytest.raises(client.SessionFailed) as caught:
        client.run_stream(
            "copy",
            source,
            destination,
            len(data),
            params=PARAMS,
            front_door=pool.path,
        )
    assert caught.value.code == codes.INCOMPATIBLE_SLOT


def test_pipe_that_has_received_nothing_can(pools):
    pool = _lost(pools, 1)
    data = bytes(5 * CHUNK)
    destination = Pipe()
    client.run_stream(
        "copy",
        io.BytesIO(data),
        destination,
        len(data),
        params=PARAMS,
        front_door=pool.path,
    )
    assert destination.getvalue() == _expected("digest", data)
