# SPDX-License-Identifier: Apache-2.0

"""A client and a worker that are willing, so that bytes have to move.

The worker's end is what sessions use: its memory, what it sends and when,
and the machines. The client's end keeps to the rules of the protocol, as this
project's does or in the laziest way they allow. Ratios of output to input,
sizes, windows, the speed of both ends and the order of all steps are drawn
from a seed. A connection may break, and a slot may be lost, in the middle.
"""

from __future__ import annotations

import collections
import random
import types
import typing
from collections.abc import Callable

from fpgapool.agent.worker.data import memory as memories
from fpgapool.agent.worker.data import outgoing
from fpgapool.agent.worker.data import processing
from fpgapool.protocol import frames
from fpgapool.protocol import stream

LONGEST_CHUNK_BYTES = 64
MOST_RATIO = 1000
_PATTERN_BYTES = 251
_PATTERN = memoryview(
    bytes(range(_PATTERN_BYTES))
    * (MOST_RATIO * LONGEST_CHUNK_BYTES // _PATTERN_BYTES + 3)
)
# Of a session; a case that works takes a few hundred.
_MOST_STEPS = 100_000
STREAM, SHARED, IN_PLACE = "stream", "shared", "in place"

_Frame = tuple[frames.FrameHeader, memoryview]


class Stall(AssertionError):
    """Nothing can move, and the session is not at its end."""


def _output(position: int, length_bytes: int) -> memoryview:
    start = position % _PATTERN_BYTES
    return _PATTERN[start : start + length_bytes]


class Case:
    """What a seed says.

    :ivar most_segments: of output that the worker keeps, in place of its own
        limit.
    """

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.chunk_bytes = rng.randint(1, LONGEST_CHUNK_BYTES)
        self.chunks = rng.choice((2, 2, 3, 4, 5, 8, 8, 13))
        self.window_bytes = self.chunk_bytes * self.chunks
        self.kind = rng.choice((STREAM, STREAM, SHARED, IN_PLACE))
        self.shared = self.kind == SHARED
        # What the core announces, and how much of that it writes.
        self.ratio = rng.choice((0, 0.1, 1, 1, 1.2, 2, 7.5, 30, MOST_RATIO))
        self.rest_bytes = rng.choice((0, 0, 3, 20))
        self.yields = rng.choice((0.0, 0.001, 0.1, 0.9, 1.0, 1.0))
        self.most_started = rng.choice((1, 1, 2, 3)) if self.shared else 1
        self.most_segments = (
            65536 if self.shared else rng.choice((2, 6, 65536))
        )
        # This project's client has a buffer for each piece of a window, and
        # acknowledges a quarter. Others may do both later.
        self.is_ours = rng.random() < 0.5
        quarter_bytes = -(-self.window_bytes // 4)
        self.due_bytes = quarter_bytes
        self.most_pieces = self.chunks
        if not self.is_ours:
            self.due_bytes = rng.randint(0, quarter_bytes)
            if self.kind != SHARED:
                self.most_pieces = rng.choice((1, 50))
        self.task_by_task = rng.random() < 0.2
        # Of each direction, as sockets hold some bytes.
        self.link_bytes = rng.choice((0, 100, self.window_bytes, 10**6))
        self.troubles = rng.choice((0, 0, 0, 5))
        self.moves = self.kind != SHARED
        # How willing each end is to take its turn.
        self.speeds = [rng.choice((1, 1, 1, 20)) for _ in range(8)]
        lengths = rng.choice(
            ((0, 1), (1, 1), (1, self.chunk_bytes), (self.chunk_bytes,) * 2)
        )
        count = rng.choice((0, 1, 3, 20, 60))
        if self.ratio >= 30:
            count = min(count, 6)
        self.lengths = [rng.randint(*lengths) for _ in range(count)]
        if not self.lengths or rng.random() < 0.5:
            self.lengths.append(0)

    def written_bytes(self, offset: int, length_bytes: int) -> int:
        """Return the output of a piece; another slot returns the same."""
        if self.kind == IN_PLACE:
            return length_bytes
        chance = random.Random(offset * 1009 + length_bytes)
        most = int(length_bytes * self.ratio)
        return int(most * self.yields * chance.choice((0.0, 0.5, 1.0, 1.0)))


class _Core:
    """Writes the pattern, wherever it is."""

    def __init__(self, case: Case, start_bytes: int) -> None:
        self._case = case
        self._position = start_bytes
        self.in_place = case.kind == IN_PLACE

    def max_output_bytes(self, input_bytes: int) -> int:
        if self.in_place or not input_bytes:
            return input_bytes or (0 if self.in_place else self._rest_bytes)
        return int(input_bytes * self._case.ratio)

    @property
    def _rest_bytes(self) -> int:
        return self._case.rest_bytes

    def _write(self, room: memoryview, length_bytes: int) -> int:
        room[:length_bytes] = _output(self._position, length_bytes)
        self._position += length_bytes
        return length_bytes

    def start(
        self, view: memoryview, room: memoryview, offset: int
    ) -> Callable[[], int]:
        written = self._case.written_bytes(offset, len(view))
        return lambda: self._write(room, written)

    def finish(self, room: memoryview) -> int:
        return 0 if self.in_place else self._write(room, self._rest_bytes)


class Worker:
    """One slot's end; does what :class:`session.DataSession` does.

    :param start: offsets of input and output.
    """

    def __init__(self, case: Case, start: tuple[int, int]) -> None:
        self._case = case
        self.input = stream.Inbound(stream.WORKER, start[0], case.window_bytes)
        core = typing.cast(typing.Any, _Core(case, start[1]))
        profile = typing.cast(
            typing.Any, types.SimpleNamespace(chunk_multiple_bytes=1)
        )
        core.chunk_multiple_bytes = 1
        self._processor = processing.Processor(core, profile)
        self.memory = self._make_memory()
        if case.shared:
            self.input.buffers = case.chunks
        self.outgoing = outgoing.Outgoing(
            self._processor,
            self.memory,
            case.shared,
            self.input,
            start[1],
            case.window_bytes,
        )
        self._tasks: collections.deque[processing.Task] = collections.deque()
        # Frames of the message that is being sent.
        self._sending: collections.deque[_Frame] = collections.deque()

    def _make_memory(self) -> memories.Memory:
        case = self._case
        if case.kind == IN_PLACE:
            return memories.InPlaceMemory(case.chunk_bytes, case.window_bytes)
        most_bytes = self._processor.needed_bytes(case.chunk_bytes, True)
        if case.kind == SHARED:
            return memories.SharedMemory(
                case.chunk_bytes, case.chunks, most_bytes
            )
        return memories.PrivateMemory(
            case.chunk_bytes, case.window_bytes, most_bytes
        )

    def _leave(self) -> None:
        self._tasks.clear()
        self._sending.clear()
        while self._collect():
            pass

    def close(self) -> None:
        """Let the slot go."""
        self._leave()
        self.outgoing.finish()
        self.memory.close()

    def attach(self, acknowledged: int, received: int) -> tuple[int, int]:
        self._leave()
        self.input.resume(acknowledged)
        self.outgoing.resume(received)
        self.memory.clear_input()
        return self.input.consumed_bytes, received

    @property
    def is_full(self) -> bool:
        return len(self._tasks) >= self._case.most_pieces

    def hear(self, frame: _Frame) -> None:
        header, data = frame
        if header.type == frames.ACK:
            self.outgoing.acknowledge(header.offset_bytes)
        elif header.type == frames.PONG:
            self.outgoing.take_pong(header.offset_bytes)
        elif self.input.accept(header):
            view = data[:0]
            length_bytes = header.payload_length_bytes
            if length_bytes:
                view = self.memory.take_input(header.aux, length_bytes)
                if not self._case.shared:
                    view[:] = data
            end = bool(header.flags & frames.END)
            self._tasks.append(
                processing.Task(header.task_id, header.offset_bytes, view, end)
            )

    def work(self) -> bool:
        """Do the next work item of a session's thread, if there is one."""
        output = self.outgoing.output
        if not self._sending:
            if self.outgoing.may_send():
                self._send()
                return True
            if output.unsent:
                return self._collect()
        if (
            self._tasks
            and self._processor.may_start(self._case.most_started)
            and self.outgoing.has_room(self._tasks[0])
        ):
            task = self._tasks.popleft()
            self._processor.start(task, self.outgoing.take_room())
            return True
        return self._collect()

    def _collect(self) -> bool:
        if not self._processor.started:
            return False
        task, written_bytes = self._processor.collect()
        self.outgoing.add(task, written_bytes)
        if task.view:
            self.memory.return_input()
        self.input.consume(len(task.view), task.task_id, task.end)
        return True

    def _send(self) -> None:
        parts = collections.deque(self.outgoing.collect())
        while parts:
            header = frames.FrameHeader.unpack_from(parts.popleft())
            data = memoryview(b"")
            if header.payload_length_bytes and not header.flags & frames.SHM:
                data = memoryview(parts.popleft())
            self._sending.append((header, data))
        assert self._sending, "the worker has nothing to send, but may"

    def say(self) -> _Frame | None:
        return self._sending.popleft() if self._sending else None


class Client:
    """The end that sends input and receives output."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._left = collections.deque(enumerate(case.lengths, 1))
        self._last = len(case.lengths)
        self.input: stream.Outbound[stream.Piece] = stream.Outbound(
            stream.CLIENT, 0, case.window_bytes
        )
        self._buffers = collections.deque(range(case.most_pieces))
        self.output = stream.Inbound(
            stream.CLIENT, 0, due_bytes=case.due_bytes
        )
        if case.shared:
            self.output.buffers = case.chunks
            self.output.due_pieces = -(-case.chunks // 4)
        self._pongs: collections.deque[_Frame] = collections.deque()
        # Shared output that is not given back.
        self._held: list[tuple[memoryview, memoryview]] = []

    @property
    def done(self) -> bool:
        return self.output.finished and not self.input.kept and not self._left

    def hear(self, frame: _Frame, worker: Worker) -> None:
        header, data = frame
        if header.type == frames.PING:
            self._pongs.append((header._replace(type=frames.PONG), data))
        elif header.type == frames.ACK:
            for piece in self.input.acknowledge(
                header.offset_bytes, header.task_id
            ):
                self._buffers.append(piece.number)
            self.output.settle()
        elif self.output.accept(header):
            length_bytes = header.payload_length_bytes
            expected = _output(header.offset_bytes, length_bytes)
            if header.flags & frames.SHM:
                size_bytes = self._case.chunk_bytes
                start = header.aux * size_bytes
                memory = typing.cast(typing.Any, worker.memory)
                data = memory._output[start : start + length_bytes]
                self._held.append((data, expected))
            assert data == expected
            self.output.consume(
                length_bytes, header.task_id, bool(header.flags & frames.END)
            )

    def feed(self) -> bool:
        if not self._left or not self._buffers:
            return False
        task_id, length_bytes = self._left[0]
        if not self.input.has_room(length_bytes) or (
            self._case.task_by_task and self.input.kept
        ):
            return False
        self._left.popleft()
        if self._case.task_by_task:
            self.output.ack_due = (
                self.output.consumed_bytes > self.output.acknowledged_bytes
            )
        piece = stream.Piece(_output(0, length_bytes), self._buffers.popleft())
        self.input.add(piece, task_id, task_id == self._last)
        return True

    def say(self) -> _Frame | None:
        if self._pongs:
            return self._pongs.popleft()
        if self.output.ack_due:
            for data, expected in self._held:
                assert data == expected, "output was changed while it was read"
            self._held.clear()
            offset = self.output.acknowledge()
            return (
                frames.FrameHeader(frames.ACK, offset_bytes=offset),
                memoryview(b""),
            )
        if self.input.has_credit():
            piece = self.input.take()
            packed = piece.header(frames.INPUT, self._case.shared)
            return frames.FrameHeader.unpack_from(packed), piece.data
        return None

    def forget(self) -> None:
        """Forget what came by a connection that is lost."""
        self._pongs.clear()
        self._held.clear()

    def resume(self, opened: tuple[int, int]) -> None:
        self.input.resume(opened[0])
        self.output.resume(opened[1])


class Session:
    """Both ends, and what is between them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._client = Client(case)
        self._worker = Worker(case, (0, 0))
        self._up: collections.deque[_Frame] = collections.deque()
        self._down: collections.deque[_Frame] = collections.deque()
        self._in_link_bytes = {id(self._up): 0, id(self._down): 0}
        self._steps: list[Callable[[], bool]] = [
            self._client.feed,
            lambda: self._put(self._up, self._client.say),
            self._worker_hears,
            lambda: self._worker.work(),
            lambda: self._put(self._down, lambda: self._worker.say()),
            self._client_hears,
        ]

    def play(self) -> int:
        """Play until the client has everything.

        :raises Stall: if that is not to be.
        """
        case, rng = self._case, self._case.rng
        weights = case.speeds[: len(self._steps)]
        count = 0
        try:
            while not self._client.done:
                count += 1
                if count > _MOST_STEPS:
                    raise Stall("the session never ends")
                if case.troubles and rng.random() < 0.02:
                    case.troubles -= 1
                    self._trouble()
                # One that is slow has its turn when the others wait.
                (step,) = rng.choices(self._steps, weights)
                if not step() and not any(one() for one in self._steps):
                    raise Stall(self._describe())
        finally:
            self._cut()
            self._worker.close()
        output_bytes = self._client.output.consumed_bytes
        assert self._client.input.acknowledged_bytes == sum(case.lengths)
        assert output_bytes == self._expected_bytes()
        return count

    def _expected_bytes(self) -> int:
        case, offset, total = self._case, 0, 0
        for length_bytes in case.lengths:
            if length_bytes:
                total += case.written_bytes(offset, length_bytes)
            offset += length_bytes
        return total + (0 if case.kind == IN_PLACE else case.rest_bytes)

    def _describe(self) -> str:
        client, output = self._client, self._client.output
        held_bytes = output.consumed_bytes - output.acknowledged_bytes
        return (
            f"both ends wait: the client has sent {client.input.sent_bytes} "
            f"bytes and holds {held_bytes} of output; the worker keeps "
            f"{len(self._worker.outgoing.output.kept)} pieces"
        )

    def _put(
        self,
        queue: collections.deque[_Frame],
        say: Callable[[], _Frame | None],
    ) -> bool:
        in_link_bytes = self._in_link_bytes
        if in_link_bytes[id(queue)] > self._case.link_bytes:
            return False
        frame = say()
        if frame is None:
            return False
        queue.append(frame)
        in_link_bytes[id(queue)] += frames.HEADER_BYTES + len(frame[1])
        return True

    def _get(self, queue: collections.deque[_Frame]) -> _Frame:
        frame = queue.popleft()
        length_bytes = frames.HEADER_BYTES + len(frame[1])
        self._in_link_bytes[id(queue)] -= length_bytes
        return frame

    def _worker_hears(self) -> bool:
        up = self._up
        if not up or (up[0][0].type == frames.INPUT and self._worker.is_full):
            return False
        self._worker.hear(self._get(up))
        return True

    def _client_hears(self) -> bool:
        if not self._down:
            return False
        self._client.hear(self._get(self._down), self._worker)
        return True

    def _trouble(self) -> None:
        """Lose the connection, or the slot."""
        client, output = self._client, self._client.output
        while self._up and self._case.rng.random() < 0.5:
            self._worker_hears()
        self._cut()
        start = client.input.acknowledged_bytes, output.consumed_bytes
        if self._case.moves and self._case.rng.random() < 0.3:
            self._worker.close()
            start = client.input.acknowledged_bytes, output.settled_bytes
            self._worker = Worker(self._case, start)
            output.move()
        client.resume(self._worker.attach(*start))

    def _cut(self) -> None:
        self._client.forget()
        for queue in (self._up, self._down):
            queue.clear()
            self._in_link_bytes[id(queue)] = 0


def play(seed: int, patch: Callable[[str, int], object]) -> int:
    """Play the case of a seed.

    :param seed: of all that is drawn.
    :param patch: sets a limit of the worker.
    :raises Stall: if both ends wait for each other.
    """
    case = Case(seed)
    patch("_MAX_SEGMENTS", case.most_segments)
    patch("_MANY_SEGMENTS", case.most_segments // 2)
    return Session(case).play()
