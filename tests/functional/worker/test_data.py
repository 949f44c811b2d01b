# SPDX-License-Identifier: Apache-2.0

"""Data through a real worker process, over real sockets."""

import contextlib
import fcntl
import hashlib
import os
import random
import socket
import threading

import pytest

from fpgapool.protocol import frames
from tests.functional.worker import harness

pytestmark = pytest.mark.security

KEY = bytes(range(16))
IV = bytes.fromhex("00112233445566778899aabbfffffffe")
AES = {"accelerator": "aes", "bitstream": "builtin:aes"}


def some_bytes(length_bytes, seed=1):
    return random.Random(seed).randbytes(length_bytes)


def expect_error(client, code):
    with pytest.raises(harness.ErrorFrame) as caught:
        client.recv_to_the_end()
    assert caught.value.code == code
    return caught.value.document


@pytest.mark.parametrize("transport", ["stream", "shm"])
def test_copy_returns_everything(worker, agent, transport):
    data = some_bytes(3 * 1024 * 1024 + 17)
    prepared = agent.prepare()
    client = harness.Client.local(worker).hello(prepared, transport=transport)
    client.stream(data)
    assert client.output == data
    closed = client.close_session()
    assert (closed["code"], closed["input_bytes"]) == ("OK", len(data))
    result = agent.wait_result()
    assert result["state"] == "CLOSED"
    assert result["code"] == "OK"
    assert result["output_bytes"] == len(data)
    assert result["started_at"] <= result["finished_at"]
    client.close()


@pytest.mark.parametrize("way", ["local", "tcp", "tls"])
def test_a_client_that_only_listens_gets_all_its_output(start, way):
    """It has never acknowledged any, and there is more than a window."""
    worker = start(tls=way == "tls")
    agent = worker.connect()
    prepared = agent.prepare()
    client = (
        harness.Client.local(worker)
        if way == "local"
        else harness.Client.remote(prepared)
    ).hello(prepared)
    window = client.opened["window_bytes"]
    data = some_bytes(2 * window)
    for start_byte in range(0, window, harness.CHUNK_BYTES):
        client.send_input(data[start_byte:][: harness.CHUNK_BYTES])
    while client.acked_input_bytes < window:
        client.take()
    for start_byte in range(window, 2 * window, harness.CHUNK_BYTES):
        client.send_input(data[start_byte:][: harness.CHUNK_BYTES])
    client.channel.send(frames.pack_header(frames.CLOSE))
    client.channel.sock.shutdown(socket.SHUT_WR)
    while client.take().type != frames.CLOSED:
        pass
    assert client.output == data
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("CLOSED", "OK")
    assert result["output_bytes"] == len(data)
    client.close()
    agent.close()


def test_what_is_never_acknowledged_does_not_keep_the_slot(start):
    """The worker would wait for it for much longer than this test does."""
    worker = start(send_timeout_s=3600.0)
    agent = worker.connect()
    prepared = agent.prepare()
    client = harness.Client.local(worker).hello(prepared, transport="shm")
    window = client.opened["window_bytes"]
    data = some_bytes(window)
    for buffer in range(harness.WINDOW_CHUNKS):
        start = buffer * harness.CHUNK_BYTES
        client.send_input(data[start:][: harness.CHUNK_BYTES], aux=buffer)
    while client.acked_input_bytes < window:
        client.take()
    # There is no buffer for the output of this.
    client.send_input(b"12345")
    client.channel.send(frames.pack_header(frames.CLOSE))
    client.channel.sock.shutdown(socket.SHUT_WR)
    assert agent.wait_result()["output_bytes"] == window
    assert client.output == data
    client.close()
    agent.close()


def test_resume_beyond_what_was_sent_ends_the_session(worker, agent):
    prepared = agent.prepare()
    client = harness.Client.local(worker).hello(prepared)
    client.run(b"one")
    liar = harness.Client.local(worker)
    with pytest.raises(harness.ErrorFrame) as caught:
        liar.hello(
            prepared,
            resume_secret=client.opened["resume_secret"],
            output_offset=4,
        )
    assert caught.value.code == "BAD_OFFSET"
    assert agent.wait_result()["code"] == "BAD_OFFSET"
    client.close()
    liar.close()


OWN_SECRET = "5e" * 32
OWN_HASH = hashlib.sha256(OWN_SECRET.encode()).hexdigest()


def test_a_client_comes_before_its_order(worker, agent):
    """With a secret of its own, of which the order has the hash."""
    client = harness.Client.local(worker)
    hello = {
        "session_id": "session-1",
        "generation": 1,
        "secret": OWN_SECRET,
    }
    opened = threading.Thread(target=client.hello, args=(hello,))
    opened.start()
    assert agent.assign(secret_sha256=OWN_HASH)["ok"]
    opened.join(harness.TIMEOUT_S)
    assert client.run(b"data") == b"data"
    assert agent.wait_prepared(1)["secret"] == ""
    thief = harness.Client.local(worker)
    with pytest.raises(harness.ErrorFrame) as caught:
        thief.hello(hello)
    assert caught.value.code == "UNAUTHORIZED"
    assert OWN_SECRET not in worker.log()
    client.close()
    thief.close()


def test_a_client_whose_order_never_comes(worker, agent):
    client = harness.Client.local(worker)
    with pytest.raises(harness.ErrorFrame) as caught:
        client.hello(
            {"session_id": "s", "generation": 1, "secret": OWN_SECRET}
        )
    assert caught.value.code == "UNAUTHORIZED"
    client.close()


def test_a_new_secret_joins_the_clients_own(worker, agent):
    agent.assign(secret_sha256=OWN_HASH)
    assert agent.wait_prepared(1)["secret"] == ""
    agent.prepared.clear()
    assert agent.request("reissue_secret", generation=1)["ok"]
    prepared = agent.wait_prepared(1)
    assert len(prepared["secret"]) == 64
    client = harness.Client.remote(prepared).hello(prepared)
    assert client.run(b"data") == b"data"
    client.close()


@pytest.mark.parametrize("digest", ["ab", "x" * 64, 7])
def test_a_wrong_hash_of_a_secret(worker, agent, digest):
    reply = agent.assign(secret_sha256=digest)
    assert reply["error"]["code"] == "PROTOCOL_ERROR"
    assert agent.status()["state"] == "idle"


def test_reissued_secret_and_its_forerunner(worker, agent):
    first = agent.prepare()
    assert agent.request("reissue_secret", generation=1)["ok"]
    while len(agent.prepared) < 2:
        agent.next()
    second = agent.prepared[1]
    assert second["secret"] != first["secret"]
    client = harness.Client.local(worker).hello(first)
    thief = harness.Client.local(worker)
    with pytest.raises(harness.ErrorFrame):
        thief.hello(second)
    client.close()
    thief.close()


def test_invalid_params_end_the_session(worker, agent):
    prepared = agent.prepare(**AES)
    client = harness.Client.local(worker)
    with pytest.raises(harness.ErrorFrame) as caught:
        client.hello(prepared, params={"key": "hush", "iv": IV.hex()})
    assert caught.value.code == "INVALID_PARAMS"
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("FAILED", "INVALID_PARAMS")
    assert agent.status()["state"] == "idle"
    assert "hush" not in worker.log()
    client.close()


def test_shm_needs_a_unix_socket(worker, agent):
    prepared = agent.prepare()
    client = harness.Client.remote(prepared)
    with pytest.raises(harness.ErrorFrame) as caught:
        client.hello(prepared, transport="shm")
    assert caught.value.code == "PROTOCOL_ERROR"
    client.close()
    # The secret was not used up.
    harness.Client.local(worker).hello(prepared, transport="shm").close()


def test_shared_buffers_are_zero_and_sealed(worker, agent):
    secret = b"leave nothing behind"
    for generation in (1, 2):
        prepared = agent.prepare(generation)
        client = harness.Client.local(worker).hello(prepared, transport="shm")
        for buffer in client.buffers:
            assert not any(buffer[:])
        for fd in client.fds:
            with pytest.raises(PermissionError):
                os.ftruncate(fd, 0)
            assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        assert client.run(secret) == secret
        client.close_session()
        client.close()
        agent.wait_result(generation)


frame = harness.frame
#: What an accepted client must not send, and how it is answered.
VIOLATIONS = [
    ("BAD_OFFSET", frame(frames.INPUT, b"data", offset_bytes=5)),
    (
        "BAD_OFFSET",
        frame(frames.INPUT, b"data", offset_bytes=2**64 - 1),
    ),
    ("BAD_OFFSET", frame(frames.ACK, offset_bytes=2**63)),
    (
        "FRAME_TOO_LARGE",
        frame(frames.INPUT, payload_length_bytes=harness.CHUNK_BYTES + 1),
    ),
    (
        "FRAME_TOO_LARGE",
        frame(frames.INPUT, payload_length_bytes=2**32 - 1),
    ),
    ("FRAME_TOO_LARGE", frame(frames.ACK, b"data")),
    ("STREAM_LIMIT", frame(frames.INPUT, b"data", stream_id=3)),
    ("STREAM_LIMIT", frame(frames.HELLO, b"{}", stream_id=3)),
    ("STREAM_LIMIT", frame(frames.PING, stream_id=1)),
    ("PROTOCOL_ERROR", b"\xff" * frames.HEADER_BYTES),
    ("PROTOCOL_ERROR", frame(99)),
    ("PROTOCOL_ERROR", frame(frames.HELLO, b"{}")),
    ("PROTOCOL_ERROR", frame(frames.OUTPUT, b"data")),
    (
        "PROTOCOL_ERROR",
        frame(frames.INPUT, flags=frames.SHM, payload_length_bytes=4),
    ),
]


@pytest.mark.parametrize(("code", "data"), VIOLATIONS)
def test_violation_by_the_client_ends_its_session(worker, agent, code, data):
    prepared = agent.prepare()
    client = harness.Client.remote(prepared).hello(prepared)
    client.channel.send(data)
    expect_error(client, code)
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("FAILED", code)
    client.close()


def test_ping_and_optional_frames(worker, agent):
    prepared = agent.prepare()
    client = harness.Client.remote(prepared).hello(prepared)
    optional = frames.FrameHeader(200, payload_length_bytes=5)
    ping = frames.FrameHeader(frames.PING, task_id=7, offset_bytes=99)
    client.channel.send(optional.pack(), b"12345", ping.pack())
    header, _ = client.recv()
    assert header == ping._replace(type=frames.PONG)
    assert client.run(b"on") == b"on"
    client.close()


def test_silent_stranger_is_dropped(start):
    worker = start(hello_timeout_s=0.2)
    agent = worker.connect()
    prepared = agent.prepare()
    stranger = harness.Client.remote(prepared)
    expect_error(stranger, "HELLO_TIMEOUT")
    stranger.close()
    agent.close()


def test_client_that_does_not_read_is_lost(start):
    worker = start(send_timeout_s=0.2, window_chunks=1024)
    agent = worker.connect()
    prepared = agent.prepare()
    client = harness.Client.remote(prepared).hello(prepared)
    piece = bytes(harness.CHUNK_BYTES)
    # The sockets hold less than the window of 64 MiB.
    with contextlib.suppress(ConnectionError):
        for _ in range(1024):
            client.send_input(piece)
    agent.wait_state("detached")
    client.close()
    agent.close()


def test_failing_core_ends_its_session_only(start):
    worker = start(driver="tests.functional.worker.broken_driver:BrokenDriver")
    agent = worker.connect()
    prepared = agent.prepare(1)
    client = harness.Client.local(worker).hello(prepared)
    client.run(b"fine")
    client.send_input(b"fail")
    document = expect_error(client, "CORE_FAILED")
    assert document["offset"] == 4
    result = agent.wait_result(1)
    assert (result["state"], result["code"]) == ("FAILED", "CORE_FAILED")
    assert result["input_bytes"] == 4
    client.close()
    client = harness.Client.local(worker).hello(agent.prepare(2))
    assert client.run(b"fine") == b"fine"
    client.close()
    agent.close()


def test_core_in_place_that_writes_less_ends_its_session(start):
    worker = start(driver="tests.functional.worker.broken_driver:BrokenDriver")
    agent = worker.connect()
    client = harness.Client.local(worker).hello(
        agent.prepare(), params={"in_place": True}
    )
    client.send_input(b"four")
    expect_error(client, "CORE_FAILED")
    assert agent.wait_result()["code"] == "CORE_FAILED"
    client.close()
    agent.close()
