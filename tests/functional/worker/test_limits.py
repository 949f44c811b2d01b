# SPDX-License-Identifier: Apache-2.0

"""Limits of connected sessions, and what the next session can see."""

import os
import pathlib
import socket

import pytest

from fpgapool.agent.child import port
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.functional.worker import harness
from tests.harness import waiting

pytestmark = pytest.mark.security

SECRET = b"the secret of the session before"


def test_a_client_that_does_nothing_loses_the_slot(worker, agent):
    prepared = agent.prepare(idle_timeout_s=1.0)
    client = harness.Client.remote(prepared).hello(prepared)
    client.run(b"12345")
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("EXPIRED", "IDLE_TIMEOUT")
    assert result["input_bytes"] == 5
    with pytest.raises(harness.ErrorFrame) as caught:
        client.recv()
    (document,) = caught.value.args
    assert document["code"] == codes.IDLE_TIMEOUT
    assert document["offset"] == 5
    assert agent.status()["state"] == "idle"
    client.close()


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_hold_s": 1.0}, "HOLD_TIMEOUT"),
        (
            {"min_progress_bytes_per_s": 1e6, "progress_period_s": 1.0},
            "TOO_SLOW",
        ),
    ],
)
def test_a_busy_client_may_not_keep_it_for_ever_either(agent, limits, code):
    prepared = agent.prepare(**limits)
    client = harness.Client.remote(prepared).hello(prepared)
    client.run(b"x")
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("EXPIRED", code)
    client.close()


def test_the_agent_hears_of_bytes_beyond_the_claim(agent):
    prepared = agent.prepare(claim_limit_bytes=4)
    client = harness.Client.remote(prepared).hello(prepared)
    client.run(b"1234")
    assert agent.status()["beyond_claim"] is False
    client.run(b"5")
    while not agent.status()["beyond_claim"]:
        assert agent.next() is not None
    client.close_session()
    client.close()


def test_the_agent_hears_of_borders(agent):
    prepared = agent.prepare(quantum_bytes=4)
    client = harness.Client.remote(prepared).hello(prepared)
    client.run(b"123")
    assert agent.status()["quanta"] == 0
    client.run(b"4567")
    while agent.status()["quanta"] != 1:
        assert agent.next() is not None
    client.run(b"8" * 40)
    while agent.status()["quanta"] != 2:
        assert agent.next() is not None
    client.close_session()
    client.close()


def _take_all(client: harness.Client) -> None:
    while True:
        if client.take().type == frames.OUTPUT:
            client.send_ack()


@pytest.mark.parametrize(
    ("transport", "reason"),
    [
        ("shm", "PREEMPTED"),
        *(("stream", reason) for reason in sorted(codes.TAKEN_BACK)),
    ],
)
def test_who_leaves_for_others_has_and_knows_all_that_is_done(
    worker, agent, transport, reason
):
    prepared = agent.prepare()
    client = harness.Client.local(worker).hello(prepared, transport=transport)
    data = bytes(range(256)) * (harness.CHUNK_BYTES // 256)
    for number in range(harness.WINDOW_CHUNKS):
        client.send_input(data, aux=number)
    agent.request("release", generation=1, reason=reason)
    with pytest.raises(harness.ErrorFrame) as caught:
        _take_all(client)
    assert caught.value.document["code"] == reason
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("CANCELLED", reason)
    done_bytes = result["input_bytes"]
    assert client.acked_input_bytes == done_bytes == result["output_bytes"]
    assert client.output == (data * harness.WINDOW_CHUNKS)[:done_bytes]
    client.close()


@pytest.mark.parametrize(
    "limit",
    ["idle_timeout_s", "max_hold_s", "claim_limit_bytes", "quantum_bytes"],
)
def test_a_negative_limit_is_refused(agent, limit):
    reply = agent.assign(**{limit: -1})
    assert not reply["ok"]
    assert reply["error"]["code"] == "PROTOCOL_ERROR"


def _maps_of(pid: int) -> str:
    return pathlib.Path(f"/proc/{pid}/maps").read_text()


def test_nothing_of_a_session_is_left_for_the_next_one(worker, agent):
    prepared = agent.prepare(1)
    first = harness.Client.local(worker).hello(prepared, transport="shm")
    first.run(SECRET)
    pid = worker.process.pid
    assert "fpgapool-input" in _maps_of(pid), "and this"
    assert SECRET in harness.shared_memory_of(pid), "the test would see it"
    first.close_session()
    agent.wait_result(1)
    # The worker still reads the connection to its end.
    waiting.wait_until(
        lambda: "fpgapool-input" not in _maps_of(pid),
        "the buffers are unmapped",
    )
    assert SECRET not in harness.shared_memory_of(pid)
    first.close()

    prepared = agent.prepare(2)
    second = harness.Client.local(worker).hello(prepared, transport="shm")
    for buffer in second.buffers:
        assert buffer.find(SECRET) == -1
        assert not any(buffer[:])
    assert SECRET not in harness.shared_memory_of(pid)
    second.close_session()
    second.close()


def _unread_output(worker, agent, **params) -> harness.Client:
    """Have a session end while there is no agent, its output unread."""
    prepared = agent.prepare(1, resume_grace_s=0.0)
    client = harness.Client.local(worker).hello(
        prepared, transport="shm", params=params
    )
    client.send_input(SECRET)
    while client.take().type != frames.OUTPUT:
        pass
    agent.close()
    client.channel.close()
    waiting.wait_until(
        lambda: "session-1 ends: RESUME_TIMEOUT" in worker.log(), "the end"
    )
    assert client.output == SECRET
    return client


def test_an_agent_that_comes_gets_what_a_client_may_read(worker, agent):
    client = _unread_output(worker, agent)
    second = worker.connect()
    assert second.wait_result(1)["code"] == codes.RESUME_TIMEOUT
    waiting.wait_until(lambda: len(second.fds) == 2, "both buffers")
    inodes = [os.fstat(fd).st_ino for fd in second.fds]
    assert inodes == [os.fstat(fd).st_ino for fd in client.fds]
    pid = worker.process.pid
    waiting.wait_until(
        lambda: harness.shared_memory_of(pid) == b"", "they are handed over"
    )
    assert SECRET in client.buffers[1][:]


@pytest.mark.parametrize("cancel_s", [0.0, 0.5])
def test_what_no_agent_has_taken_is_emptied_at_the_end(start, cancel_s):
    worker = start(driver="tests.functional.worker.broken_driver:BrokenDriver")
    client = _unread_output(worker, worker.connect(), cancel_s=cancel_s)
    # With a slow core, its session is still ending then.
    worker.process.terminate()
    assert worker.wait() == 0
    assert not any(client.buffers[1][:])


@pytest.mark.parametrize("tls", [True, False])
def test_silent_connections_do_not_keep_the_client_out(start, tls):
    """They would have much longer to say HELLO than this test takes."""
    worker = start(tls=tls, hello_timeout_s=300.0)
    agent = worker.connect()
    prepared = agent.prepare()
    silent = [
        socket.create_connection(("127.0.0.1", prepared["data_port"]), 30)
        for _ in range(3 * port.MAX_STRANGERS)
    ]
    client = harness.Client.remote(prepared).hello(prepared)
    client.run(b"12345")
    client.close_session()
    client.close()
    # Those that came last may still say who they are.
    cut = [one for one in silent[: port.MAX_STRANGERS] if one.recv(1) == b""]
    assert len(cut) == port.MAX_STRANGERS
    for one in silent:
        one.close()
    agent.close()
