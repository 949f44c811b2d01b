# SPDX-License-Identifier: Apache-2.0

"""Sessions whose client computes while they wait, against a made pool."""

import random
import threading
import types

import pytest

from fpgapool import client
from fpgapool.client import cancel
from fpgapool.client.sessions import bridging
from fpgapool.client.sessions import software
from fpgapool.vocabulary import codes
from tests.functional.client import fakepool
from tests.harness import waiting

CHUNK = fakepool.CHUNK_BYTES
REFUSAL = client.FpgapoolError(codes.CORE_UNAVAILABLE, "no core")
TIMEOUT_S = 60


class Core:
    """Computes what the fake slots do.

    :ivar working: set while a piece is computed.
    :ivar hold: a piece takes until it is set.
    """

    chunk_multiple_bytes = None
    has_snapshots = False
    working = threading.Event()
    hold = threading.Event()

    def __init__(self, params: dict) -> None:
        self._core = fakepool.Core("double")

    def max_output_bytes(self, length_bytes: int) -> int:
        return 2 * length_bytes

    def process(self, data, output, offset_bytes: int) -> int:
        self.working.set()
        assert self.hold.wait(TIMEOUT_S)
        made = self._core.process(bytes(data), offset_bytes)
        output[: len(made)] = made
        return len(made)

    def finish(self, output) -> int:
        return 0

    def cancel(self) -> None:
        self.hold.set()


@pytest.fixture(autouse=True)
def _same_core(monkeypatch):
    profile = types.SimpleNamespace(
        stateless=True, checkpoint=False, platforms={}, chunk_multiple_bytes=1
    )
    monkeypatch.setattr(software, "_load", lambda *_: (Core, profile))
    monkeypatch.setattr(software, "_CHUNK_BYTES", CHUNK)
    Core.hold.set()
    Core.working.clear()


class Work:
    """A session with its input and output."""

    def __init__(self, pool, seed=0, **options):
        self._pool = pool
        self._random = random.Random(seed)
        self._size_bytes = 0
        self.data = self.output = b""
        self.session = client.acc_open(
            "copy",
            10**9,
            params={"key": b"\x12\x34"},
            front_door=pool.path,
            timeout_s=TIMEOUT_S,
            meanwhile="cpu",
            **options,
        )

    def run(self) -> str:
        """Process a piece and say what has done it."""
        return self._run(self._random.randrange(1, 300))

    def run_all(self) -> None:
        """Process the longest piece."""
        self._run(len(self.session.pin))

    def _run(self, length_bytes: int) -> str:
        piece = self._random.randbytes(length_bytes)
        self.session.pin[: len(piece)] = piece
        self.output += self.session.run(len(piece), timeout_s=TIMEOUT_S)
        self.data += piece
        return self.session.transport

    def run_until(self, on_cpu: bool) -> None:
        waiting.wait_until(
            lambda: (self.run() == "cpu") is on_cpu, f"on the CPU: {on_cpu}"
        )

    def check(self) -> None:
        assert self.output == fakepool.Core("double").process(self.data, 0)


def _pool(pools, *others, **options):
    pool = pools("double", spares=others, **options)
    pool.ready.clear()
    return pool


def test_a_transfer_moves_at_a_border(pools):
    data = random.Random(2).randbytes(20 * CHUNK + 1)
    pool = _pool(pools, fakepool.Worker("double"), yields_at=10 * CHUNK)

    def progress(done_bytes: int, _: int) -> None:
        if done_bytes >= 5 * CHUNK:
            pool.ready.set()

    output, report = client.run_buffer(
        "copy",
        data,
        params={"key": b"\x12\x34"},
        front_door=pool.path,
        timeout_s=TIMEOUT_S,
        meanwhile="cpu",
        progress=progress,
    )
    assert bytes(output) == fakepool.Core("double").process(data, 0)
    assert report.input_bytes == len(data)


def test_a_slot_waits_for_the_border(pools):
    """It starts where the CPU has stopped."""
    pool = _pool(pools)
    work = Work(pool)
    with work.session as session:
        work.run()
        Core.hold.clear()
        Core.working.clear()
        runner = threading.Thread(target=work.run)
        runner.start()
        assert Core.working.wait(TIMEOUT_S)
        pool.ready.set()
        assert pool.worker.hellos == []
        Core.hold.set()
        runner.join()
        work.run_until(on_cpu=False)
        work.output += session.finish()
    work.check()
    (hello,) = pool.worker.hellos
    assert hello["start_output_offset"] == 2 * hello["start_input_offset"] > 0


def test_an_idle_session_gets_its_slot(pools):
    pool = _pool(pools)
    work = Work(pool)
    with work.session:
        work.run()
        done_bytes = len(work.data)
        pool.ready.set()
        waiting.wait_until(lambda: pool.worker.hellos, "the slot is used")
        assert work.run() != "cpu"
    (hello,) = pool.worker.hellos
    assert hello["start_input_offset"] == done_bytes


def test_a_slot_that_is_ready_is_used_at_once(pools):
    pool = pools("double")
    work = Work(pool)
    with work.session:
        work.run_until(on_cpu=False)
    work.check()


@pytest.mark.parametrize("begins_on_cpu", [True, False])
@pytest.mark.parametrize("times", [1, 2])
def test_pieces_of_any_size_go_to_and_fro(
    pools, monkeypatch, begins_on_cpu, times
):
    """Slots may take longer pieces than the CPU would, and more of them."""
    monkeypatch.setattr(software, "_CHUNK_BYTES", CHUNK // times)
    others = [
        fakepool.Worker("double", local=local) for local in (True, False)
    ]
    pool = pools("double", spares=others)
    pool.tells_of_queue = begins_on_cpu
    if begins_on_cpu:
        pool.ready.clear()
    work = Work(pool)
    with work.session as session:
        assert (work.run() == "cpu") is begins_on_cpu
        assert len(session.pin) == (CHUNK // times if begins_on_cpu else CHUNK)
        for _ in others:
            pool.ready.set()
            work.run_until(on_cpu=False)
            pool.ready.clear()
            pool.worker.yields_at = len(work.data) + 100
            work.run_until(on_cpu=True)
            work.run_all()
        pool.ready.set()
        work.run_until(on_cpu=False)
        work.run_all()
        work.output += session.finish()
    work.check()
    assert session.reopens == len(others)


def test_a_slot_that_comes_after_the_end_is_given_back(pools):
    pool = _pool(pools)
    work = Work(pool)
    with work.session as session:
        work.run()
        work.output += session.finish()
        pool.ready.set()
        assert pool.cancelled.wait(TIMEOUT_S)
    work.check()
    assert pool.worker.hellos == []


def test_closing_withdraws_the_request(pools):
    pool = _pool(pools)
    with Work(pool).session as session:
        pass
    assert session.closed
    assert pool.cancelled.is_set()
    assert "fpgapool-seeker" not in {
        thread.name for thread in threading.enumerate()
    }


@pytest.mark.parametrize("fallback", [None, "cpu"])
def test_a_lost_slot_without_another(pools, fallback):
    pool = pools("double")
    pool.last_state = {"state": "FAILED", "reason": "WAIT_TIMEOUT"}
    work = Work(pool, fallback=fallback)
    with work.session as session:
        work.run_until(on_cpu=False)
        pool.worker.yields_at = 0
        if fallback is None:
            with pytest.raises(client.SessionFailed) as caught:
                waiting.wait_until(lambda: not work.run(), "an error")
            assert caught.value.code == "WAIT_TIMEOUT"
            return
        work.run_until(on_cpu=True)
        waiting.wait_until(
            lambda: work.run() and session.fallback_reason, "the fallback"
        )
        assert session.fallback_reason == "WAIT_TIMEOUT"
        work.output += session.finish()
    work.check()


@pytest.mark.parametrize("takes_reports", [True, False])
def test_the_pool_hears_of_the_work(pools, monkeypatch, takes_reports):
    monkeypatch.setattr(bridging, "_REPORT_S", 0.02)
    pool = _pool(pools)
    pool.takes_reports = takes_reports

    def reports() -> list[dict]:
        return [one for one in pool.requests if one["op"] == "progress"]

    work = Work(pool)
    with work.session as session:
        work.run()
        done_bytes = len(work.data)
        waiting.wait_until(lambda: reports(), "a report")
        work.run()
        if takes_reports:
            waiting.wait_until(
                lambda: reports()[-1]["input_bytes"] > done_bytes,
                "the next report",
            )
        pool.ready.set()
        work.run_until(on_cpu=False)
        work.output += session.finish()
    work.check()
    assert {one["session_id"] for one in reports()} == {session.session_id}
    done = [one["input_bytes"] for one in reports()]
    assert done == sorted(done)
    assert takes_reports or len(done) == 1


def test_a_refusal_is_raised_at_once(pools):
    pool = pools("double")
    # What is refused is in no queue; a client that hears of it computes.
    pool.tells_of_queue = False
    pool.rejection = {"state": "REJECTED", "reason": "QUOTA_EXCEEDED"}
    with pytest.raises(client.RequestRejected) as caught:
        Work(pool)
    assert caught.value.code == "QUOTA_EXCEEDED"


def test_cancelling_wakes_all(pools):
    pool = _pool(pools)
    token = client.CancelToken()
    work = Work(pool, cancel=token)
    work.run()
    token.cancel()
    with pytest.raises(client.Cancelled):
        work.run()
    work.session.abort()
    assert pool.cancelled.wait(TIMEOUT_S)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"checksum": True}, "checksum"),
        ({"meanwhile": "gpu"}, "meanwhile must be None or 'cpu'"),
    ],
)
def test_wrong_arguments(pools, options, words):
    pool = pools("double")
    with pytest.raises(client.InvalidRequest) as caught:
        client.acc_open(
            "copy", 1, front_door=pool.path, **{"meanwhile": "cpu", **options}
        )
    assert caught.value.code == codes.INVALID_REQUEST
    assert words in caught.value.message
    assert pool.requests == []


def test_a_core_gets_pieces_as_long_as_it_and_the_pool_need(monkeypatch):
    def size_bytes(multiple_bytes: int, pool_bytes: int | None) -> int:
        monkeypatch.setattr(Core, "chunk_multiple_bytes", multiple_bytes)
        made = software.Software("copy", {}, None, REFUSAL, pool_bytes)
        return made.connect(cancel.CancelToken()).opened.chunk_bytes

    assert size_bytes(1, None) == size_bytes(1, 2 * CHUNK) == CHUNK
    assert size_bytes(1, CHUNK // 2) == CHUNK // 2
    # Longer than the CPU likes them, but not too long for the slots.
    assert size_bytes(CHUNK + 1, 2 * CHUNK) == CHUNK + 1
    for pool_bytes in (None, CHUNK):
        with pytest.raises(client.InvalidParams, match=f"limit of {CHUNK}"):
            size_bytes(CHUNK + 1, pool_bytes)


def test_an_accelerator_with_state_cannot_move(pools, monkeypatch):
    profile = types.SimpleNamespace(
        stateless=False, checkpoint=False, platforms={}, chunk_multiple_bytes=1
    )
    monkeypatch.setattr(software, "_load", lambda *_: (Core, profile))
    pool = _pool(pools)
    with pytest.raises(client.InvalidRequest, match="no checkpoints"):
        Work(pool)
    assert pool.cancelled.wait(TIMEOUT_S)
