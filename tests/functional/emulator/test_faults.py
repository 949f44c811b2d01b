# SPDX-License-Identifier: Apache-2.0

"""Injected faults, as workers' agents and clients see them."""

from __future__ import annotations

import pathlib
import random
import threading
import time

import pytest

from fpgapool.agent import service
from tests.functional.agent import harness as agents
from tests.functional.emulator import harness
from tests.functional.worker import harness as workers
from tests.harness import supervised

DATA = random.Random(5).randbytes(1000)


def open_local(worker, agent, generation=1):
    return workers.Client.local(worker).hello(agent.prepare(generation))


def test_programming_fails(start, directory):
    harness.write_faults(directory, programming=[{"slot": 0, "once": True}])
    worker = start()
    agent = worker.connect()
    agent.assign(1)
    result = agent.wait_result(1)
    assert (result["state"], result["code"]) == (
        "PREPARE_FAILED",
        "PROGRAM_FAILED",
    )
    assert "PROGRAMMING_FAILED" in result["message"]
    assert "FAULT INJECTED: programming on board0.0" in worker.log()
    # Once is enough.
    agent.prepare(2)


def test_scrubbing_fails(start, directory):
    harness.write_faults(directory, scrub=[0])
    agent = start().connect()
    agent.prepare(1)
    agent.request("release", generation=1, reason="CLIENT_GONE")
    agent.wait_state("faulty")


def test_core_error_tells_the_offset(start, directory):
    worker = start()
    agent = worker.connect()
    client = open_local(worker, agent)
    assert client.run(DATA) == DATA
    # It comes while the session runs, and waits for its byte.
    harness.write_faults(
        directory, core_error=[{"slot": 0, "after_bytes": 2500}]
    )
    assert client.run(DATA) == DATA
    with pytest.raises(workers.ErrorFrame) as caught:
        client.run(DATA)
    assert caught.value.code == "CORE_FAILED"
    assert caught.value.document["offset"] == 2000
    result = agent.wait_result(1)
    assert (result["state"], result["code"]) == ("FAILED", "CORE_FAILED")
    assert result["message"] == (
        "the core failed at input offset 2000: FaultInjected"
    )
    assert result["input_bytes"] == 2000
    assert worker.log().count("FAULT INJECTED: core_error on board0.0") == 1


def test_a_hanging_core_ends_with_its_session(start, directory):
    harness.write_faults(directory, core_hang=[0])
    worker = start(clear_timeout_s=0.2)
    agent = worker.connect()
    prepared = agent.prepare(1, idle_timeout_s=1.0)
    client = workers.Client.local(worker).hello(prepared)
    # Nobody releases it; it is the session's limit that ends it.
    with pytest.raises(ConnectionError):
        client.run(DATA)
    agent.wait_closed()
    assert worker.wait() == 4
    assert "FAULT INJECTED: core_hang on board0.0" in worker.log()
    assert "the core has not stopped" in worker.log()


def test_a_dead_board_fails_its_sessions_until_it_is_repaired(
    start, directory
):
    worker = start()
    agent = worker.connect()
    client = open_local(worker, agent)
    assert client.run(DATA) == DATA
    harness.write_faults(directory, dead="no answer")
    with pytest.raises(workers.ErrorFrame) as caught:
        client.run(DATA)
    assert caught.value.code == "DEVICE_FAILED"
    assert agent.wait_result(1)["code"] == "DEVICE_FAILED"
    agent.assign(2)
    result = agent.wait_result(2)
    assert result["code"] == "PROGRAM_FAILED"
    assert "board0: no answer" in result["message"]
    assert "FAULT INJECTED: dead on board0" in worker.log()
    (directory / "boards.faults.yaml").unlink()
    client = open_local(worker, agent, 3)
    assert client.run(DATA) == DATA


# With an agent: what its conductor sees.


def start_agent(host):
    agent = host.start()
    host.conductor.wait_for_slot(0, lambda slot: slot.state == "idle")
    return agent


def send_input(host, agent):
    """Open the session of generation 7, send something and go away."""
    agents.assign(agent, 7, resume_grace_s=30.0)
    prepared = host.conductor.wait_for(
        "prepared", lambda one: one.generation == 7
    )
    client = workers.Client.remote(
        {
            "data_port": prepared.endpoints[1].port,
            "certificate_sha256": None,
        }
    )
    client.hello(
        {
            "session_id": prepared.session_id,
            "generation": 7,
            "secret": prepared.secret,
        }
    )
    # Else the agent may never hear that the client has come.
    host.conductor.wait_for_slot(0, lambda one: one.state == "active")
    client.send_input(DATA)
    return client


def wait_for_result(host):
    slot = host.conductor.wait_for_slot(
        0, lambda one: one.state == "idle" and one.last_result
    )
    return slot.last_result.state, slot.last_result.code


def test_the_conductor_sees_a_crash(host, directory):
    agent = start_agent(host)
    harness.write_faults(directory, core_crash=[{"once": True}])
    client = send_input(host, agent)
    assert wait_for_result(host) == ("FAILED", "WORKER_DIED")
    client.close()


def worker_pid(agent):
    found = []
    agent.loop.run_and_wait(
        lambda: found.append(supervised.pid(agent.workers, ("board0", 0))),
        workers.TIMEOUT_S,
    )
    return found[0]


def wait_until_it_happened(host):
    directory = pathlib.Path(host.settings.state_path) / "emulator/faults"
    deadline_s = time.monotonic() + workers.TIMEOUT_S
    # What hangs tells nobody.
    while not list(directory.glob("*.happened")):
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)


@pytest.mark.parametrize("kind", ["core_hang", "programming_hang"])
def test_a_hang_does_not_block_the_release(host, directory, kind, monkeypatch):
    monkeypatch.setattr(service, "RELEASE_TIMEOUT_S", 0.2)
    agent = start_agent(host)
    harness.write_faults(directory, **{kind: [{"once": True}]})
    first = worker_pid(agent)
    client = None
    if kind == "core_hang":
        client = send_input(host, agent)
    else:
        agents.assign(agent, 7)
    wait_until_it_happened(host)
    agents.release(agent, 7)
    assert wait_for_result(host) == ("CANCELLED", "CLIENT_GONE")
    if client is not None:
        client.close()
    # The slot's next process is well.
    agents.assign(agent, 8)
    host.conductor.wait_for("prepared", lambda one: one.generation == 8)
    assert worker_pid(agent) != first


@pytest.mark.parametrize("kind", ["dead", "unhealthy"])
def test_the_conductor_sees_the_health_of_a_board(host, directory, kind):
    start_agent(host)
    harness.write_faults(directory, **{kind: "fan stopped"})
    report = host.conductor.wait_for(
        "report", lambda one: not one.devices[0].healthy
    )
    assert report.devices[0].message == "fan stopped"
    before = len(host.conductor.named("report"))
    (directory / "boards.faults.yaml").unlink()
    host.conductor.wait_for(
        "report",
        lambda one: (
            len(host.conductor.named("report")) > before
            and one.devices[0].healthy
            and one.sequence > report.sequence
        ),
    )
