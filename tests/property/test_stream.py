# SPDX-License-Identifier: Apache-2.0

"""A client and a worker over links that break anywhere.

Both ends of a session are played by the machines alone, and between them are
two queues of frames. Connections break, and slots are lost, whenever chance
says so, and with them what was on its way. In the end every byte was given to
the core's output once, in order, within the credits.
"""

from __future__ import annotations

import collections
import random

import hypothesis
from hypothesis import strategies as st

from fpgapool.agent.worker.data import outgoing
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from tests.property import fuzzing
from tests.property import willing

_TASK_END = frames.TASK_END

#: An announced piece and its bytes, or an acknowledgement.
_Frame = tuple[frames.FrameHeader, bytes]


def _header(packed: bytes) -> frames.FrameHeader:
    return frames.FrameHeader.unpack_from(packed)


def _work(offset: int, data: bytes) -> bytes:
    """Return what a core makes of input; depends on its place."""
    return b"".join(
        bytes([byte ^ (offset + number) % 251]) * ((offset + number) % 3)
        for number, byte in enumerate(data)
    )


class Worker:
    """A slot, from its first connection to its end.

    :param start: offsets of input and output.
    :param shared: whether pieces are not cut.
    """

    def __init__(
        self,
        start: tuple[int, int],
        window_bytes: int,
        shared: bool,
        chunk_bytes: int,
    ) -> None:
        self.input = stream.Inbound(stream.WORKER, start[0], window_bytes)
        self.output: stream.Outbound[stream.Piece] = stream.Outbound(
            stream.WORKER, start[1], window_bytes, cuts=not shared
        )
        self._window_bytes = window_bytes
        self._chunk_bytes = chunk_bytes
        self._tasks: collections.deque[_Frame] = collections.deque()

    def attach(self, acknowledged: int, received: int) -> tuple[int, int]:
        self._tasks.clear()
        self.input.resume(acknowledged)
        self.output.resume(received)
        return self.input.consumed_bytes, received

    def hear(self, frame: _Frame) -> None:
        header, data = frame
        if header.type == frames.ACK:
            if header.offset_bytes > self.output.acknowledged_bytes:
                self.output.acknowledge(header.offset_bytes)
        elif self.input.accept(header):
            self._tasks.append((header, data))

    def process(self) -> bool:
        if not self._tasks or self.output.unsent:
            return False
        header, data = self._tasks.popleft()
        end = bool(header.flags & frames.END)
        output = _work(header.offset_bytes, data) + b"end" * end
        views = [
            memoryview(output[start : start + self._chunk_bytes])
            for start in range(0, len(output), self._chunk_bytes)
        ]
        self.input.consume(len(data), header.task_id, end)
        for number, view in enumerate(views):
            last = number == len(views) - 1
            piece = stream.Piece(view, number, _TASK_END if last else 0)
            self.output.add(piece, header.task_id, end and last)
        return True

    def say(self) -> _Frame | None:
        if self.output.has_credit():
            piece = self.output.take()
            in_flight = self.output.sent_bytes - self.output.acknowledged_bytes
            assert in_flight <= self._window_bytes
            return _header(piece.header(frames.OUTPUT, False)), bytes(
                piece.data
            )
        if self.input.ack_due and not self.output.unsent:
            offset = self.input.acknowledge()
            return (
                frames.FrameHeader(
                    frames.ACK, 0, 0, self.input.task_id, offset
                ),
                b"",
            )
        return None


class Client:
    """What sends input and collects output.

    :param bare_end: whether END comes by itself.
    """

    def __init__(
        self, chunks: list[bytes], bare_end: bool, window_bytes: int
    ) -> None:
        pieces = [*chunks, b""] if bare_end or not chunks else chunks
        self._left = collections.deque(enumerate(pieces, 1))
        self._last = len(pieces)
        self._window_bytes = window_bytes
        self.input: stream.Outbound[stream.Piece] = stream.Outbound(
            stream.CLIENT, 0, window_bytes
        )
        self.output = stream.Inbound(
            stream.CLIENT, 0, window_bytes, due_bytes=-(-window_bytes // 4)
        )
        self.collected = bytearray()

    @property
    def done(self) -> bool:
        return self.output.finished and not self.input.kept and not self._left

    def hear(self, frame: _Frame) -> None:
        header, data = frame
        if header.type == frames.ACK:
            about = header.offset_bytes, header.task_id
            assert self.input.acknowledge(*about) or self.repeated(about)
            self.output.settle()
        elif self.output.accept(header):
            end = bool(header.flags & frames.END)
            known = self.output.consume(len(data), header.task_id, end)
            self.collected += data[known:]
            assert self.output.delivered_bytes == len(self.collected)

    def repeated(self, about: tuple[int, int]) -> bool:
        return about[0] == self.input.acknowledged_bytes

    def feed(self) -> bool:
        if not self._left:
            return False
        task_id, data = self._left[0]
        if not self.input.has_room(len(data)):
            return False
        self._left.popleft()
        piece = stream.Piece(memoryview(data), task_id)
        self.input.add(piece, task_id, task_id == self._last)
        return True

    def say(self) -> _Frame | None:
        if self.input.unsent:
            assert self.input.has_credit()
            piece = self.input.take()
            in_flight = self.input.sent_bytes - self.input.acknowledged_bytes
            assert in_flight <= self._window_bytes
            return _header(piece.header(frames.INPUT, False)), bytes(
                piece.data
            )
        if self.output.ack_due:
            return (
                frames.FrameHeader(
                    frames.ACK, offset_bytes=self.output.acknowledge()
                ),
                b"",
            )
        return None


class Link:
    """Both ends and what is between them."""

    def __init__(
        self, client: Client, window_bytes: int, shared: bool, rng
    ) -> None:
        self.client = client
        self._window_bytes = window_bytes
        self._shared = shared
        self._rng = rng
        self._up: collections.deque[_Frame] = collections.deque()
        self._down: collections.deque[_Frame] = collections.deque()
        self.worker = self._slot((0, 0))
        self._attach((0, 0))

    def _slot(self, start: tuple[int, int]) -> Worker:
        # A window has several chunks: less than a quarter of it may be held
        # while another chunk has to fit.
        chunk_bytes = self._rng.randint(1, self._window_bytes // 2)
        return Worker(start, self._window_bytes, self._shared, chunk_bytes)

    def _attach(self, offsets: tuple[int, int]) -> None:
        """Shake hands; the answer may be lost, with its connection."""
        self._up.clear()
        self._down.clear()
        client = self.client
        opened = self.worker.attach(*offsets)
        if self._rng.random() < 0.2:
            opened = self.worker.attach(*offsets)
        client.input.resume(opened[0])
        client.output.resume(opened[1])

    def break_(self) -> None:
        """Lose the connection and what is on its way."""
        client = self.client
        # What was heard before the break was noticed.
        for _ in range(self._rng.randint(0, len(self._up))):
            self.worker.hear(self._up.popleft())
        while self._rng.random() < 0.5 and self.worker.process():
            pass
        self._attach(
            (client.input.acknowledged_bytes, client.output.consumed_bytes)
        )

    def move(self) -> None:
        """Lose the slot."""
        client = self.client
        start = (client.input.acknowledged_bytes, client.output.settled_bytes)
        self.worker = self._slot(start)
        client.output.move()
        self._attach(start)

    def step(self) -> bool:
        """Do something that can be done, if there is anything."""
        client, worker = self.client, self.worker
        steps = [
            client.feed,
            worker.process,
            lambda: self._put(self._up, client.say()),
            lambda: self._put(self._down, worker.say()),
            lambda: self._give(self._up, worker),
            lambda: self._give(self._down, client),
        ]
        self._rng.shuffle(steps)
        return any(step() for step in steps)

    def _put(
        self, queue: collections.deque[_Frame], frame: _Frame | None
    ) -> bool:
        if frame is not None:
            queue.append(frame)
        return frame is not None

    def _give(
        self, queue: collections.deque[_Frame], end: Client | Worker
    ) -> bool:
        if not queue:
            return False
        end.hear(queue.popleft())
        return True


@fuzzing.examples(300)
@hypothesis.given(
    chunks=st.lists(st.binary(min_size=1, max_size=9), max_size=12),
    bare_end=st.booleans(),
    window_bytes=st.integers(9, 30),
    shared=st.booleans(),
    troubles=st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from(["break_", "move"])),
        max_size=12,
    ),
    seed=st.integers(0, 2**32),
)
def test_every_byte_is_delivered_once(
    chunks, bare_end, window_bytes, shared, troubles, seed
):
    client = Client(chunks, bare_end, window_bytes)
    link = Link(client, window_bytes, shared, random.Random(seed))
    for steps, trouble in troubles:
        for _ in range(steps):
            if client.done or not link.step():
                break
        if client.done:
            break
        getattr(link, trouble)()
    while not client.done:
        assert link.step(), "both ends wait for each other"
    offset, expected = 0, b""
    for chunk in chunks:
        expected += _work(offset, chunk)
        offset += len(chunk)
    assert client.collected == expected + b"end"
    assert client.input.acknowledged_bytes == offset


def test_bytes_move_if_both_ends_are_willing(monkeypatch):
    def patch(name: str, limit: int) -> None:
        monkeypatch.setattr(outgoing, name, limit)

    usual = hypothesis.settings().max_examples <= 100
    for seed in range(500 if usual else 100_000):
        try:
            willing.play(seed, patch)
        except Exception as exc:
            exc.add_note(f"willing.play({seed}, ...)")
            raise
