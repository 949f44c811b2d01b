# SPDX-License-Identifier: Apache-2.0

"""A second connection for what a worker sends."""

import contextlib

import pytest

from fpgapool.protocol import frames
from tests.functional.worker import harness

pytestmark = pytest.mark.security

TWO = {"features": ["return"]}


@pytest.fixture(params=["tcp", "tls"])
def agent(start, request):
    with contextlib.closing(
        start(tls=request.param == "tls").connect()
    ) as one:
        yield one


def join(prepared, client, **members):
    """Have the worker send over another connection."""
    other = harness.Client.remote(prepared)
    other.send_json(
        frames.HELLO,
        {
            "session_id": prepared["session_id"],
            "generation": prepared["generation"],
            "return_secret": client.opened["return_secret"],
            **members,
        },
    )
    return other


class Both(harness.Client):
    """A client that sends by one connection, and receives by the other."""

    def __init__(self, there, back):
        super().__init__(back.channel)
        self.opened = there.opened
        self._there = there

    def send_input(self, data, flags=0, aux=0):
        back, self.channel = self.channel, self._there.channel
        super().send_input(data, flags, aux)
        self.channel = back

    def send_ack(self):
        back, self.channel = self.channel, self._there.channel
        super().send_ack()
        self.channel = back


def test_output_comes_by_the_second_connection(agent):
    prepared = agent.prepare()
    there = harness.Client.remote(prepared).hello(prepared, **TWO)
    assert there.run(b"one") == b"one"
    back = join(prepared, there)
    header, payload = there.recv()
    assert (header.type, payload) == (frames.RETURN, b"")
    both = Both(there, back)
    both.input_bytes, both.output = 3, bytearray(b"one")
    data = bytes(range(256)) * 8192
    both.stream(b"one" + data)
    assert both.output[3:] == data
    there.channel.send(frames.FrameHeader(frames.CLOSE).pack())
    header, payload = back.recv()
    assert header.type == frames.CLOSED
    assert agent.wait_result()["output_bytes"] == 3 + len(data)
    for one in (there, back):
        one.close()


@pytest.mark.parametrize("first", [True, False])
def test_the_two_are_lost_together(agent, first):
    prepared = agent.prepare()
    there = harness.Client.remote(prepared).hello(prepared, **TWO)
    back = join(prepared, there)
    assert there.recv()[0].type == frames.RETURN
    there.send_input(b"one")
    assert back.take().type == frames.OUTPUT
    lost, other = (there, back) if first else (back, there)
    lost.close()
    if not first:
        # The worker notices when it sends.
        with contextlib.suppress(harness.channels.ChannelClosed):
            while True:
                there.channel.send(frames.FrameHeader(frames.PING).pack())
    agent.wait_state("detached")
    with pytest.raises(harness.channels.ChannelClosed):
        other.recv_to_the_end()
    again = harness.Client.remote(prepared).hello(
        prepared,
        resume_secret=there.opened["resume_secret"],
        output_offset=3,
        **TWO,
    )
    assert again.opened["return_secret"] != there.opened["return_secret"]
    again.output = back.output
    again._task_id = there._task_id
    assert again.run(b"two") == b"two"
    for one in (again, other):
        one.close()


def refused(client):
    with pytest.raises(harness.ErrorFrame) as caught:
        client.recv_to_the_end()
    client.close()
    return caught.value.code


def test_strangers_are_refused(agent):
    prepared = agent.prepare()
    there = harness.Client.remote(prepared).hello(prepared, **TWO)
    for members in (
        {"return_secret": "00" * 32},
        {"return_secret": ""},
        {"return_secret": there.opened["resume_secret"]},
        {"session_id": "another"},
        {"generation": 2},
    ):
        assert refused(join(prepared, there, **members)) == "UNAUTHORIZED"
    for members in ({"secret": "00" * 32}, {"return_secret": None}):
        assert refused(join(prepared, there, **members)) == "PROTOCOL_ERROR"
    assert there.run(b"data") == b"data"
    back = join(prepared, there)
    assert there.recv()[0].type == frames.RETURN
    # It works once.
    assert refused(join(prepared, there)) == "UNAUTHORIZED"
    there.close()
    back.close()


def test_a_secret_is_good_for_its_connection_only(agent):
    prepared = agent.prepare()
    former = harness.Client.remote(prepared).hello(prepared, **TWO)
    there = harness.Client.remote(prepared).hello(
        prepared, resume_secret=former.opened["resume_secret"], **TWO
    )
    assert refused(join(prepared, former)) == "UNAUTHORIZED"
    assert there.run(b"data") == b"data"
    for one in (former, there):
        one.close()


def test_there_is_none_without_the_feature(start):
    worker = start()
    with contextlib.closing(worker.connect()) as agent:
        prepared = agent.prepare()
        client = harness.Client.remote(prepared).hello(prepared)
        assert "return_secret" not in client.opened
        client.close()


def test_there_is_none_with_shared_memory(start):
    worker = start()
    with contextlib.closing(worker.connect()) as agent:
        prepared = agent.prepare()
        client = harness.Client.local(worker).hello(
            prepared, transport="shm", **TWO
        )
        assert "return_secret" not in client.opened
        client.close()
