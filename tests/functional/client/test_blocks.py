# SPDX-License-Identifier: Apache-2.0

"""Blocks and arguments of sessions, with real worker processes."""

import random

import pytest

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.functional.client import breaking
from tests.functional.worker import harness
from tests.harness import cases
from tests.harness import masking
from tests.harness import programs
from tests.harness import slots
from tests.harness import waiting

CHUNK = harness.CHUNK_BYTES
AES = {"key": programs.KEY, "iv": programs.IV}
MASK = bytes(range(1, 100))


class Tap:
    """Counts what goes to workers, and changes it if a test wants so."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.change = lambda part: part
        self._send = channel.Channel.send

    def send(self, to, *parts, **options):
        parts = [self.change(part) for part in parts]
        self.sent_bytes += sum(map(len, parts))
        self._send(to, *parts, **options)


@pytest.fixture
def tap(monkeypatch):
    made = Tap()
    monkeypatch.setattr(
        channel.Channel,
        "send",
        lambda to, *parts, **options: made.send(to, *parts, **options),
    )
    return made


@pytest.fixture(autouse=True)
def _mask(directory, monkeypatch):
    profiles = directory / "profiles"
    profiles.mkdir()
    masking.write_profile(profiles)
    monkeypatch.setenv(base.DIRECTORY_VARIABLE, str(profiles))


def opened(door, accelerator="aes", **options):
    if accelerator == "aes":
        options["params"] = AES
    return client.acc_open(
        accelerator,
        10**9,
        front_door=door.path,
        timeout_s=breaking.TIMEOUT_S,
        **options,
    )


def some_blocks(count=4, seed=1):
    chooser = random.Random(seed)
    return [client.Block(chooser.randbytes(CHUNK)) for _ in range(count)]


class Work:
    """A session, and what its output must be."""

    def __init__(self, session):
        self._session = session
        self.data = self.output = b""

    def run(self, block):
        self.output += self._session.run(block, timeout_s=breaking.TIMEOUT_S)
        self.data += block.data

    def check(self):
        assert self.output == programs.encrypted(self.data)


def test_a_cached_iteration_sends_under_one_percent(door, tap):
    made = some_blocks()
    with opened(door) as session:
        work = Work(session)
        sent = []
        for _ in range(4):
            before_bytes = tap.sent_bytes
            for block in made:
                work.run(block)
            sent.append(tap.sent_bytes - before_bytes)
        work.check()
    data_bytes = len(made) * CHUNK
    assert all(one < 0.01 * data_bytes for one in sent[1:])
    if door.slot.transport != "shm":
        assert sent[0] > data_bytes
    counts = door.slot.agent.status()["blocks"]
    assert (counts["hits"], counts["misses"]) == (12, 4)
    waiting.wait_until(
        lambda: not door.slot.agent.status()["blocks"]["kept_bytes"],
        "the slot is scrubbed",
    )


def test_another_session_finds_nothing_of_the_one_before(local_door):
    door = local_door
    made = some_blocks(1)
    for _ in range(2):
        with opened(door) as session:
            work = Work(session)
            work.run(made[0])
            work.run(made[0])
            work.check()
    assert door.slot.agent.status()["blocks"]["misses"] == 2


def test_connections_break_and_nothing_is_lost(door):
    chooser = random.Random(door.slot.transport)
    breaker = breaking.Breaker()
    made = some_blocks()
    with opened(door, cancel=breaker) as session:
        work = Work(session)
        for _ in range(20):
            if chooser.random() < 0.3:
                breaker.break_connection()
            work.run(chooser.choice(made))
        work.check()
        assert session.reconnects > 1


@pytest.mark.parametrize("transport", cases.first("shm", "tcp", "tls"))
def test_another_slot_gets_the_data(directory, transport):
    with slots.Door(directory, transport) as door:
        door.spares.append(slots.Slot(directory / "spare", "tls"))
        made = some_blocks(2)
        with opened(door, "mask", arguments={1: MASK}) as session:
            data = output = b""
            for number in (0, 1, 0, 1, 0):
                if number and len(data) > 2 * CHUNK:
                    door.take_back(codes.PREEMPTED)
                output += session.run(
                    made[number], timeout_s=breaking.TIMEOUT_S
                )
                data += made[number].data
            assert output == masking.masked(data, MASK)
            assert session.reopens == 1
        counts = door.slot.agent.status()["blocks"]
    # The argument, and both blocks.
    assert (counts["hits"], counts["misses"]) == (0, 3)


def test_a_miss_is_answered_with_the_data(door):
    """As if the worker had lost it."""
    made = some_blocks(2)
    with opened(door, checksum=True) as session:
        work = Work(session)
        sender = session.flow._blocks
        for block in (made[0], made[1]):
            sender._there.add(block.reference, CHUNK)
        for number in (0, 1, 0):
            work.run(made[number])
        work.check()
    counts = door.slot.agent.status()["blocks"]
    assert (counts["hits"], counts["misses"]) == (1, 2)


def test_arguments_outlive_connections(door):
    breaker = breaking.Breaker()
    options = {"cancel": breaker, "arguments": {1: MASK}}
    with opened(door, "mask", **options) as session:
        breaker.break_connection()
        data = output = b""
        for number in range(6):
            session.pin[:1000] = bytes([number]) * 1000
            data += session.pin[:1000]
            output += session.run(1000)
            if number % 2:
                breaker.break_connection()
        assert output == masking.masked(data, MASK)
        assert session.reconnects > 1


def test_wrong_arguments_end_the_session(local_door):
    for arguments, code in (
        ({}, codes.INVALID_ARGUMENT),
        ({2: b"x"}, codes.INVALID_ARGUMENT),
        ({1: b"wrong"}, codes.INVALID_ARGUMENT),
        ({1: bytes(CHUNK + 1)}, codes.INCOMPATIBLE_SLOT),
    ):
        with pytest.raises(client.SessionFailed) as caught:
            with opened(local_door, "mask", arguments=arguments) as session:
                session.run(1, timeout_s=breaking.TIMEOUT_S)
        assert caught.value.code == code


def test_damaged_data_is_refused_and_not_kept(door, tap):
    block = some_blocks(1)[0]
    session = opened(door)

    def damaged(part):
        if len(part) >= CHUNK:
            return bytes(part[:-1]) + bytes([part[-1] ^ 1])
        return part

    tap.change = damaged
    if door.slot.transport == "shm":
        # The data is not in the stream there.
        block.data = memoryview(bytes(CHUNK))
    with pytest.raises(client.SessionFailed) as caught:
        session.run(block, timeout_s=breaking.TIMEOUT_S)
    assert caught.value.code == codes.BLOCK_DAMAGED
    session.abort()
    door.slot.agent.wait_result(1)
    counts = door.slot.agent.status()["blocks"]
    assert (counts["misses"], counts["kept_bytes"]) == (0, 0)


def test_the_cpu_takes_blocks_and_arguments(tmp_path):
    session = client.acc_open(
        "mask",
        10**6,
        front_door=str(tmp_path / "nothing"),
        fallback="cpu",
        arguments={1: MASK},
    )
    block = client.Block(random.Random(4).randbytes(10_000))
    with session:
        output = bytes(session.run(block)) + bytes(session.run(block))
    assert output == masking.masked(2 * bytes(block.data), MASK)
    assert session.fallback_reason == codes.FRONT_DOOR_UNAVAILABLE


class TestRaw:
    """Frames that the library does not send."""

    REFERENCE = client.Block(bytes(1000)).reference

    @staticmethod
    def frame(reference, flags=0, task_id=1, **members):
        return harness.frame(
            frames.INPUT,
            reference.encode(),
            flags=frames.BLOCK | flags,
            task_id=task_id,
            **members,
        )

    @staticmethod
    def failure(worker, agent, generation, *sent):
        prepared = agent.prepare(
            generation,
            accelerator=masking.NAME,
            bitstream=f"builtin:{masking.NAME}",
        )
        raw = harness.Client.local(worker).hello(
            prepared, features=[frames.BLOCKS_FEATURE]
        )
        assert raw.opened["features"] == [frames.BLOCKS_FEATURE]
        assert raw.opened["cache_bytes"] > 0
        raw.channel.send(*sent)
        with pytest.raises(harness.ErrorFrame) as caught:
            raw.recv_to_the_end()
        raw.close()
        result = agent.wait_result(generation)
        assert result["code"] == caught.value.code
        return result["code"]

    def test_wrong_references_end_the_session(self, worker, agent):
        more = frames.TASK_MORE
        data = harness.frame(frames.INPUT, bytes(1000), task_id=1)
        block = self.REFERENCE
        mask = self.frame(block._replace(argument=1), more) + data
        wrong = (
            (
                [self.frame(block._replace(length_bytes=CHUNK + 1))],
                codes.FRAME_TOO_LARGE,
            ),
            (
                [self.frame(block._replace(argument=256))],
                codes.PROTOCOL_ERROR,
            ),
            (
                [
                    harness.frame(
                        frames.INPUT, bytes(31), flags=frames.BLOCK, task_id=1
                    )
                ],
                codes.PROTOCOL_ERROR,
            ),
            (
                [self.frame(block, more), self.frame(block, more)],
                codes.PROTOCOL_ERROR,
            ),
            (
                [
                    self.frame(block, more),
                    harness.frame(frames.INPUT, bytes(1000), task_id=2),
                ],
                codes.PROTOCOL_ERROR,
            ),
            (
                [
                    self.frame(block, more),
                    harness.frame(frames.INPUT, bytes(999), task_id=1),
                ],
                codes.BLOCK_DAMAGED,
            ),
            (
                [
                    self.frame(
                        block._replace(block_id=bytes(16), argument=1), more
                    ),
                    data,
                ],
                codes.BLOCK_DAMAGED,
            ),
            ([self.frame(block, frames.SHM)], codes.PROTOCOL_ERROR),
            (
                [
                    mask,
                    harness.frame(frames.INPUT, b"x", task_id=1),
                    self.frame(block._replace(argument=2), more, task_id=2),
                    harness.frame(frames.INPUT, bytes(1000), task_id=2),
                ],
                codes.PROTOCOL_ERROR,
            ),
        )
        for number, (sent, code) in enumerate(wrong, 1):
            assert self.failure(worker, agent, number, *sent) == code

    def test_what_follows_a_miss_is_ignored(self, worker, agent):
        raw = harness.Client.local(worker).hello(
            agent.prepare(), features=[frames.BLOCKS_FEATURE]
        )
        block = self.REFERENCE
        raw.channel.send(
            self.frame(block, task_id=1),
            self.frame(block, task_id=2, offset_bytes=1000),
            harness.frame(frames.INPUT, b"abc", task_id=3, offset_bytes=2000),
        )
        header, _ = raw.recv()
        assert (header.type, header.task_id) == (frames.MISS, 1)
        raw.channel.send(
            self.frame(block, frames.TASK_MORE, task_id=1),
            harness.frame(frames.INPUT, bytes(1000), task_id=1),
            self.frame(block, task_id=2, offset_bytes=1000),
            harness.frame(frames.INPUT, b"abc", task_id=3, offset_bytes=2000),
        )
        while raw.acked_input_bytes < 2003:
            raw.take()
        assert raw.output == bytes(2000) + b"abc"
        raw.close()


@pytest.fixture
def worker(directory):
    made = harness.WorkerProcess(directory)
    yield made
    made.kill()


@pytest.fixture
def agent(worker):
    made = worker.connect()
    yield made
    made.close()


@pytest.mark.parametrize(
    "arguments", [{0: b"x"}, {256: b"x"}, {True: b"x"}, {"1": b"x"}, {1: b""}]
)
def test_arguments_are_checked_before_a_slot_is_asked_for(arguments):
    with pytest.raises(client.InvalidRequest):
        client.acc_open("mask", 1, front_door="/none", arguments=arguments)


def test_a_block_has_a_byte():
    with pytest.raises(client.InvalidRequest):
        client.Block(b"")


def test_a_block_longer_than_the_input_buffer_is_refused(local_door):
    with opened(local_door) as session:
        with pytest.raises(client.InvalidRequest) as caught:
            session.run(client.Block(bytes(CHUNK + 1)))
        assert caught.value.code == codes.INVALID_SIZE
        assert len(session.run(some_blocks(1)[0])) == CHUNK
