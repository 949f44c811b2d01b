# SPDX-License-Identifier: Apache-2.0

"""When the input of a stream is sent, on a clock of the test's own."""

from __future__ import annotations

import io
import random
import threading
import types

import pytest

from fpgapool.client.links import connection
from fpgapool.client.sessions import pieces
from fpgapool.client.transfers import feeding

TIMEOUT_S = 30.0
CHUNK_BYTES = 64 * 1024


class Clock:
    """Time that passes when a source says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._changed = threading.Condition()
        self._ends_s: list[float] = []
        self._waiting = threading.Event()

    def monotonic(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass, and what waits for it do its work."""
        assert self._waiting.wait(TIMEOUT_S)
        until_s = self.now_s + seconds
        while True:
            with self._changed:
                assert self._changed.wait_for(
                    lambda: self._ends_s and min(self._ends_s) > self.now_s,
                    TIMEOUT_S,
                )
                self.now_s = min(until_s, *self._ends_s)
                self._changed.notify_all()
            if self.now_s == until_s:
                break
        with self._changed:
            assert self._changed.wait_for(
                lambda: self._ends_s and min(self._ends_s) > self.now_s,
                TIMEOUT_S,
            )

    def event(self) -> Event:
        return Event(self)

    def wait(self, event: Event, timeout_s: float) -> bool:
        with self._changed:
            end_s = self.now_s + timeout_s
            self._ends_s.append(end_s)
            self._waiting.set()
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: event.is_set or self.now_s >= end_s, TIMEOUT_S
            )
            self._ends_s.remove(end_s)
            return event.is_set

    def set(self, event: Event) -> None:
        with self._changed:
            event.is_set = True
            self._changed.notify_all()


class Event:
    def __init__(self, clock: Clock) -> None:
        self.is_set = False
        self._clock = clock

    def wait(self, timeout_s: float) -> bool:
        return self._clock.wait(self, timeout_s)

    def set(self) -> None:
        self._clock.set(self)


class Flow:
    """Notes what is sent, and when; all pieces are in the same buffer."""

    chunk_bytes = piece_bytes = CHUNK_BYTES

    def __init__(self, clock: Clock, multiple_bytes: int) -> None:
        self.chunk_multiple_bytes = multiple_bytes
        self.sent: list[tuple[float, int]] = []
        self.data = b""
        self.ends: list[bool] = []
        self._clock = clock
        self._buffer = memoryview(bytearray(CHUNK_BYTES))

    def reserve(self, length_bytes: int, **_: object) -> pieces.Piece:
        return pieces.Piece(0, self._buffer, None)

    def send(self, piece: pieces.Piece, *, end: bool, **_: object) -> None:
        self.sent.append((self._clock.now_s, len(piece.data)))
        self.data += piece.data
        self.ends.append(end)

    def stop(self) -> None:
        self.sent.append((self._clock.now_s, -1))


class Sensor(io.RawIOBase):
    """Gives so many bytes at a time, each after so many seconds."""

    def __init__(
        self, clock: Clock, data: bytes, step_bytes: int, step_s: float
    ) -> None:
        super().__init__()
        self._clock = clock
        self._stream = io.BytesIO(data)
        self._step_bytes = step_bytes
        self._step_s = step_s

    def readinto(self, buffer: memoryview) -> int:
        self._clock.advance(self._step_s)
        return self._stream.readinto(memoryview(buffer)[: self._step_bytes])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(feeding, "time", clock)
    threads = types.SimpleNamespace(
        Event=clock.event, Lock=threading.Lock, Thread=threading.Thread
    )
    monkeypatch.setattr(feeding, "threading", threads)
    return clock


def fed(
    clock: Clock,
    size_bytes: int,
    step_bytes: int,
    step_s: float,
    multiple_bytes: int = 1,
) -> Flow:
    """Send what a sensor gives."""
    data = random.Random(1).randbytes(size_bytes)
    flow = Flow(clock, multiple_bytes)
    source = feeding.StreamSource(Sensor(clock, data, step_bytes, step_s))
    feeder = source.feeder(flow, size_bytes, None)
    feeder.start()
    feeder.join(TIMEOUT_S)
    assert feeder.failure is None
    assert flow.data == data
    assert flow.ends == [False] * (len(flow.ends) - 1) + [True]
    return flow


def test_what_is_read_slowly_is_sent_after_a_second(clock) -> None:
    """As 10 KiB a second: a whole piece would take 6 s."""
    flow = fed(clock, 40 * 1024, 4096, 0.375)
    assert flow.sent == [
        (1.375, 3 * 4096),
        (2.5, 3 * 4096),
        (3.625, 3 * 4096),
        (3.75, 4096),
    ]


def test_what_comes_now_and_then_does_not_wait_for_the_next(clock) -> None:
    flow = fed(clock, 3000, 1000, 64.0)
    assert flow.sent == [(65.0, 1000), (129.0, 1000), (192.0, 1000)]


def test_a_fast_source_fills_its_pieces(clock) -> None:
    """32 pieces in less than a second each, and more than one in all."""
    flow = fed(clock, 32 * CHUNK_BYTES + 1, CHUNK_BYTES // 4, 1 / 64)
    assert [length for _, length in flow.sent] == [CHUNK_BYTES] * 32 + [1]


def test_a_part_is_a_multiple_of_what_the_accelerator_asks_for(clock) -> None:
    flow = fed(clock, 30_001, 4096, 0.375, multiple_bytes=5000)
    parts = [length for _, length in flow.sent[:-1]]
    assert {length % 5000 for length in parts} == {0}
    assert len(parts) > 1
    # Nothing that is whole waits for longer.
    assert flow.sent[0] == (1.375, 10_000)


def test_a_source_that_ends_too_early(clock) -> None:
    flow = Flow(clock, 1)
    source = feeding.StreamSource(Sensor(clock, bytes(5000), 4096, 0.5))
    feeder = source.feeder(flow, 6000, None)
    feeder.start()
    feeder.join(TIMEOUT_S)
    assert feeder.failure.code == "SIZE_MISMATCH"
    assert flow.sent == [(1.5, 5000), (1.5, -1)]


MIB = 1 << 20


class Shared:
    """Shared buffers; an acknowledgement comes when nothing else goes on."""

    shared = object()

    def __init__(self, chunk_bytes: int, buffers: int, multiple: int) -> None:
        self.chunk_bytes = self.piece_bytes = chunk_bytes
        self.lags = False
        self.chunk_multiple_bytes = multiple
        opened = connection.Opened.from_document(
            {
                "chunk_bytes": chunk_bytes,
                "window_bytes": buffers * chunk_bytes,
                "resume_secret": "secret",
                "input_offset": 0,
                "output_offset": 0,
            }
        )
        self.window = pieces.Window(opened, buffers)
        self.lengths: list[int] = []
        self.data = b""
        self.numbers: set[int] = set()
        self._flying: list[pieces.Piece] = []
        self.most_flying = 0

    def reserve(self, length_bytes: int, **_: object) -> pieces.Piece:
        if not self.window._free:
            self.acknowledge(1)
        number = self.window.reserve(length_bytes, 0.0)
        buffer = memoryview(bytearray(self.chunk_bytes))
        return pieces.Piece(number, buffer, self.shared)

    def send(self, piece: pieces.Piece, **_: object) -> None:
        self.lengths.append(len(piece.data))
        self.data += piece.data
        self.numbers.add(piece.number)
        self._flying.append(piece)
        self.most_flying = max(self.most_flying, len(self._flying))

    def acknowledge(self, count: int) -> None:
        with self.window.lock:
            self.window.free(self._flying[:count])
        del self._flying[:count]

    def stop(self) -> None:
        pass


def copied(flow: Shared, data: bytes) -> Shared:
    source = feeding.BufferSource(memoryview(data))
    feeder = source.feeder(flow, len(data), None)
    feeder.start()
    feeder.join(TIMEOUT_S)
    assert feeder.failure is None
    assert flow.data == data
    return flow


@pytest.mark.parametrize(
    ("chunk_bytes", "multiple", "piece_bytes", "most_flying"),
    [
        (4 * MIB, 1, MIB, 4),
        (4 * MIB, 3000, 349 * 3000, 4),
        (4 * MIB, 3 * MIB // 2, 3 * MIB // 2, 2),
        (4 * MIB, 4 * MIB, 4 * MIB, 2),
        (MIB // 2, 1, MIB // 2, 8),
        (CHUNK_BYTES, 1, CHUNK_BYTES, 8),
    ],
)
def test_what_is_copied_fits_in_the_caches(
    chunk_bytes: int, multiple: int, piece_bytes: int, most_flying: int
) -> None:
    flow = Shared(chunk_bytes, 8, multiple)
    copied(flow, random.Random(2).randbytes(11 * piece_bytes + 7))
    assert flow.lengths == [piece_bytes] * 11 + [7]
    assert flow.most_flying == most_flying


def test_the_buffer_that_was_used_last_is_used_again() -> None:
    """A core that is faster than the copies needs one buffer only."""
    flow = Shared(4 * MIB, 8, 1)
    send = flow.send

    def send_and_acknowledge(piece: pieces.Piece, **options: object) -> None:
        send(piece, **options)
        flow.acknowledge(1)

    flow.send = send_and_acknowledge  # type: ignore[method-assign]
    copied(flow, bytes(5 * MIB))
    assert flow.numbers == {0}
