# SPDX-License-Identifier: Apache-2.0

"""The state of a session on its way from one slot to another."""

import pytest

from fpgapool.accelerators import aes
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
