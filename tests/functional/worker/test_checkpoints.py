# SPDX-License-Identifier: Apache-2.0

"""The state of a session on its way from one slot to another."""

import contextlib

import pytest

from fpgapool.accelerators import aes
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.functional.worker import harness

pytestmark = pytest.mark.security

CBC = {"accelerator": "aes-cbc", "bitstream": "builtin:aes-cbc"}
PARAMS = {"key": bytes(16).hex(), "iv": bytes(16).hex()}
FEATURES = [frames.CHECKPOINT_FEATURE]
DATA = bytes(range(256)) * 4
HALF = len(DATA) // 2


def expected(data: bytes) -> bytes:
    output = memoryview(bytearray(len(data)))
    aes.AesCbcCore(PARAMS).process(memoryview(data), output, 0)
    return bytes(output)


def state() -> bytes:
    """Return that of a core that has processed the first half."""
    return expected(DATA[:HALF])[-16:]


def opened(worker, agent, offset_bytes=HALF, features=FEATURES):
    prepared = agent.prepare(**CBC)
    client = harness.Client.local(worker).hello(
        prepared,
        params=PARAMS,
        features=features,
        start_input_offset=offset_bytes,
        start_output_offset=offset_bytes,
    )
    client.output += bytes(offset_bytes)
    client.acked_input_bytes = offset_bytes
    return client


def last_frames(client) -> list[tuple[frames.FrameHeader, bytes]]:
    """Return the frames before the ERROR."""
    found, code = [], None
    while code is None:
        try:
            found.append(client.recv())
        except harness.ErrorFrame as error:
            code = error.code
    assert code == codes.PREEMPTED
    return found


def preempt(agent) -> None:
    agent.request("release", generation=1, reason=codes.PREEMPTED)


def test_goes_on_with_the_state(worker, agent):
    client = opened(worker, agent)
    assert client.opened["features"] == FEATURES
    client.channel.send(frames.checkpoint_frame(HALF, state()))
    client.run(DATA[HALF:])
    assert client.output[HALF:] == expected(DATA)[HALF:]
    preempt(agent)
    ((header, payload),) = last_frames(client)
    assert header.type == frames.CHECKPOINT
    assert header.offset_bytes == len(DATA)
    assert frames.checkpoint_state(payload) == expected(DATA)[-16:]
    client.close()


def test_a_client_that_resumes_sends_it_again(worker, agent):
    client = opened(worker, agent)
    session_id = agent.prepared[-1]["session_id"]
    client.channel.send(frames.checkpoint_frame(HALF, state()))
    client.close()
    agent.wait_state("detached")
    again = harness.Client.local(worker).hello(
        {"session_id": session_id, "generation": 1},
        features=FEATURES,
        resume_secret=client.opened["resume_secret"],
        input_offset=HALF,
        output_offset=HALF,
    )
    again.resume_from(client)
    again.channel.send(frames.checkpoint_frame(HALF, state()))
    again.run(DATA[HALF:])
    assert again.output[HALF:] == expected(DATA)[HALF:]
    again.close()


def test_a_slot_that_has_none_yet_sends_none(worker, agent):
    """The client still has the one with which it came."""
    client = opened(worker, agent)
    preempt(agent)
    assert last_frames(client) == []
    client.close()


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (frames.checkpoint_frame(HALF, bytes(15)), codes.INVALID_CHECKPOINT),
        (frames.checkpoint_frame(HALF, bytes(99)), codes.INVALID_CHECKPOINT),
        (
            frames.checkpoint_frame(HALF, bytes(16))[:-1] + b"x",
            codes.INVALID_CHECKPOINT,
        ),
        (
            frames.pack_header(
                frames.CHECKPOINT, payload_length_bytes=2, offset_bytes=HALF
            )
            + b"ab",
            codes.INVALID_CHECKPOINT,
        ),
        (
            frames.pack_header(
                frames.INPUT,
                task_id=1,
                payload_length_bytes=16,
                offset_bytes=HALF,
            )
            + bytes(16),
            codes.PROTOCOL_ERROR,
        ),
    ],
)
def test_a_wrong_one_ends_the_session(worker, agent, frame, code):
    client = opened(worker, agent)
    client.channel.send(frame)
    with pytest.raises(harness.ErrorFrame) as caught:
        client.recv_to_the_end()
    assert caught.value.code == code
    assert agent.wait_result()["code"] == code
    client.close()


def test_without_the_feature_it_starts_at_the_beginning(worker, agent):
    with pytest.raises(harness.ErrorFrame) as caught:
        opened(worker, agent, features=[])
    assert caught.value.code == codes.BAD_OFFSET


def test_without_the_feature_there_is_none(worker, agent):
    client = opened(worker, agent, 0, features=[])
    client.run(DATA)
    preempt(agent)
    assert last_frames(client) == []
    client.close()


@pytest.mark.parametrize(
    ("state_bytes", "is_early"),
    [(4096, True), (4097, False), (1 << 20, False)],
)
def test_a_long_state_goes_at_the_end_only(start, state_bytes, is_early):
    worker = start(
        driver="tests.functional.worker.stateful_driver:StatefulDriver"
    )
    agent = worker.connect()
    client = harness.Client.local(worker).hello(
        agent.prepare(**CBC),
        params=PARAMS | {"iv": f"{state_bytes:032x}"},
        features=FEATURES,
    )
    found = []
    for last in b"123":
        client.send_input(bytes(15) + bytes([last]))
        while True:
            header, payload = client.recv()
            if header.type == frames.CHECKPOINT:
                found.append((header.offset_bytes, payload))
            elif header.type == frames.OUTPUT:
                client.output += payload
            else:
                break
        client.send_ack()
    preempt(agent)
    found += [
        (header.offset_bytes, payload)
        for header, payload in last_frames(client)
        if header.type == frames.CHECKPOINT
    ]
    states = [
        (offset_bytes, frames.checkpoint_state(payload))
        for offset_bytes, payload in found
    ]
    all_states = [
        (16 * number, b"%d" % number * state_bytes) for number in (1, 2, 3, 3)
    ]
    assert states == (all_states if is_early else all_states[-1:])
    client.close()


class Slow:
    """A client that acknowledges no output, and keeps all it receives."""

    def __init__(self, worker, agent, **members) -> None:
        prepared = agent.prepare(**CBC)
        self.client = harness.Client.local(worker).hello(
            prepared, params=PARAMS, features=FEATURES, **members
        )
        self.output = b""
        self.acked_bytes = 0
        self.states = {0: bytes(16)}

    def take(self) -> None:
        header, payload = self.client.recv()
        if header.type == frames.ACK:
            self.acked_bytes = header.offset_bytes
        elif header.type == frames.CHECKPOINT:
            state = frames.checkpoint_state(payload)
            self.states[header.offset_bytes] = state
        elif header.flags & frames.SHM:
            start = header.aux * harness.CHUNK_BYTES
            end = start + header.payload_length_bytes
            self.output += self.client.buffers[1][start:end]
        elif header.type == frames.OUTPUT:
            self.output += payload

    def take_rest(self) -> None:
        with contextlib.suppress(harness.ErrorFrame, channels.ChannelClosed):
            while True:
                self.take()

    def check(self, data: bytes) -> None:
        """It can go on behind what was acknowledged, with all output."""
        whole = expected(data)
        assert whole.startswith(self.output)
        assert len(self.output) >= self.acked_bytes > 0
        state = whole[self.acked_bytes - 16 : self.acked_bytes]
        assert self.states[self.acked_bytes] == state
        self.client.close()


@pytest.mark.parametrize("transport", ["stream", "shm"])
def test_output_that_has_no_room_is_not_lost(start, transport):
    worker = start()
    agent = worker.connect()
    slow = Slow(worker, agent, transport=transport)
    piece = bytes(range(256)) * (harness.CHUNK_BYTES // 256)
    sent = 2 * harness.WINDOW_CHUNKS
    for number in range(sent):
        if number >= harness.WINDOW_CHUNKS:
            # It gets room for input, but gives none for output.
            while slow.acked_bytes <= (number - 8) * len(piece):
                slow.take()
        slow.client.send_input(piece, aux=number % harness.WINDOW_CHUNKS)
    preempt(agent)
    slow.take_rest()
    slow.check(piece * sent)


def test_output_that_nobody_reads_is_not_lost(start):
    """The worker cannot send all, not even that it has to leave."""
    chunk_bytes = 4 << 20
    worker = start(clear_timeout_s=3, chunk_bytes=chunk_bytes)
    agent = worker.connect()
    slow = Slow(worker, agent)
    piece = bytes(range(256)) * (chunk_bytes // 256)
    for _ in range(harness.WINDOW_CHUNKS):
        slow.client.send_input(piece)
    while not slow.acked_bytes:
        slow.take()
    preempt(agent)
    agent.wait_result(1)
    slow.take_rest()
    slow.check(piece * harness.WINDOW_CHUNKS)
