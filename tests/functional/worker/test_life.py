# SPDX-License-Identifier: Apache-2.0

"""The life of a worker process and of its sessions."""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys

import pytest

from fpgapool.agent.supervision import processes
from tests.functional.worker import harness


def test_detached_expires_after_the_grace(worker, agent):
    prepared = agent.prepare(resume_grace_s=0.05)
    client = harness.Client.remote(prepared).hello(prepared)
    client.run(b"12345")
    client.close()
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("EXPIRED", "RESUME_TIMEOUT")
    assert result["input_bytes"] == 5
    late = harness.Client.remote(prepared)
    with pytest.raises(harness.ErrorFrame) as caught:
        late.hello(prepared, resume_secret=client.opened["resume_secret"])
    assert caught.value.code == "UNAUTHORIZED"
    late.close()


def test_release_in_mid_stream(worker, agent):
    prepared = agent.prepare()
    client = harness.Client.remote(prepared).hello(prepared)
    client.send_input(b"data")
    assert agent.request("release", generation=1, reason="GONE")["ok"]
    with pytest.raises(harness.ErrorFrame) as caught:
        client.recv_to_the_end()
    assert caught.value.code == "GONE"
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("CANCELLED", "GONE")
    assert agent.request("release", generation=1, reason="AGAIN")["ok"]
    assert agent.status()["last_result"] == result
    client.close()


def test_release_interrupts_a_slow_slot(start, directory):
    # At this rate the piece would take an hour and a half.
    (directory / "boards.yaml").write_text(
        "rate_scale: 1.0e-6\nboards:\n- {name: board0, slots: 1}\n"
    )
    agent = start(chunk_bytes=16 * 1024 * 1024).connect()
    prepared = agent.prepare()
    client = harness.Client.remote(prepared).hello(prepared)
    client.send_input(bytes(12 * 1024 * 1024))
    assert agent.request("release", generation=1, reason="GONE")["ok"]
    assert agent.wait_result()["state"] == "CANCELLED"
    client.close()
    agent.close()


def test_old_generations_are_refused(worker, agent):
    agent.prepare(5)
    assert agent.assign(4)["error"]["code"] == "STALE_GENERATION"
    assert agent.assign(6)["error"]["code"] == "SLOT_BUSY"
    assert agent.assign(5)["ok"]
    for generation in (4, 6):
        agent.request("release", generation=generation, reason="X")
    status = agent.status()
    assert (status["state"], status["generation"]) == ("ready", 5)


@pytest.mark.security
def test_another_project_needs_a_fresh_worker(worker, agent):
    agent.prepare(1, project_id="a")
    agent.request("release", generation=1, reason="X")
    agent.wait_result(1)
    reply = agent.assign(2, project_id="b")
    assert reply["error"]["code"] == "RECYCLE"
    agent.wait_closed()
    assert worker.wait() == 0
    # From its room, it cannot remove their files.
    for name in ("control_socket", "data_socket"):
        assert processes.dial(worker.settings[name]) is None


def test_newest_agent_wins(worker, agent):
    agent.wait_state("idle")
    newer = worker.connect()
    agent.wait_closed()
    assert newer.status()["state"] == "idle"
    newer.close()


def test_worker_exits_with_its_agent(start):
    worker = start(exit_with_agent=True)
    agent = worker.connect()
    agent.prepare()
    agent.close()
    assert worker.wait() == 0


def test_orphan_exits(start):
    assert start(orphan_s=0.05).wait() == 0


def test_exit_on_request_and_on_signal(start):
    worker = start()
    agent = worker.connect()
    assert agent.request("exit")["ok"]
    assert worker.wait() == 0
    worker = start()
    agent = worker.connect()
    agent.wait_state("idle")
    worker.process.send_signal(signal.SIGTERM)
    agent.wait_closed()
    assert worker.wait() == 0


def test_exit_on_a_signal_that_another_thread_gets(start):
    worker = start()
    agent = worker.connect()
    agent.wait_state("idle")
    others = set(os.listdir(f"/proc/{worker.process.pid}/task"))
    others.remove(str(worker.process.pid))
    libc = ctypes.CDLL(None)
    # Of this thread only, unlike what os.kill sends.
    other = int(max(others, key=int))
    assert libc.tgkill(worker.process.pid, other, int(signal.SIGTERM)) == 0
    agent.wait_closed()
    assert worker.wait() == 0


def test_killed_worker_leaves_nothing_in_the_way(start):
    worker = start()
    agent = worker.connect()
    prepared = agent.prepare()
    client = harness.Client.remote(prepared).hello(prepared)
    worker.process.kill()
    agent.wait_closed()
    with pytest.raises(ConnectionError):
        client.recv()
    assert os.path.exists(worker.settings["control_socket"])
    worker.wait()
    successor = start()
    agent = successor.connect()
    client = harness.Client.remote(agent.prepare()).hello(agent.prepared[-1])
    assert client.run(b"data") == b"data"
    client.close()
    agent.close()


def test_second_worker_of_a_slot_refuses(worker, agent, start):
    agent.wait_state("idle")
    assert start().wait() == 3
    assert agent.status()["state"] == "idle"


@pytest.mark.security
def test_files_belong_to_the_user_only(worker, agent):
    agent.wait_state("idle")
    for name in ("control_socket", "data_socket"):
        path = pathlib.Path(worker.settings[name])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_worker_leads_a_session_of_its_own(worker, agent):
    agent.wait_state("idle")
    assert os.getsid(worker.process.pid) == worker.process.pid


@pytest.mark.security
@pytest.mark.parametrize(
    ("operation", "members", "code"),
    [
        ("dance", {}, "UNKNOWN_OPERATION"),
        ("assign", {"generation": 1}, "PROTOCOL_ERROR"),
        ("release", {"generation": "1", "reason": "x"}, "PROTOCOL_ERROR"),
        ("reissue_secret", {"generation": 1}, "SESSION_NOT_READY"),
        ("release", {"generation": 1, "reason": "x"}, "STALE_GENERATION"),
    ],
)
def test_requests_that_are_refused(worker, agent, operation, members, code):
    assert agent.request(operation, **members)["error"]["code"] == code
    assert agent.status()["state"] == "idle"


def test_port_range_that_is_taken(start):
    agent = start().connect()
    port = agent.status()["data_port"]
    other = start(
        data_ports=f"{port}-{port}",
        slot=1,
        control_socket=start().settings["control_socket"] + "1",
    )
    assert other.wait() == 1
    assert "cannot listen for data connections" in other.log()
    agent.close()


@pytest.mark.parametrize(
    "argument", ["{", "{}", "/nowhere/settings.json", "[]"]
)
def test_settings_that_cannot_be_used(argument):
    done = subprocess.run(
        [sys.executable, "-m", "fpgapool.agent.worker", argument],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("INVALID_SETTINGS")


def test_light_at_start():
    code = (
        "import sys, json, fpgapool.agent.worker.__main__;"
        "import fpgapool.drivers.emulator;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {
        "cryptography",
        "numpy",
        "oslo_config",
        "oslo_log",
        "stevedore",
        "yaml",
    }


def test_a_worker_whose_log_cannot_be_written_works_and_says_so(
    start, directory, capfd
):
    path = directory / "missing" / "worker.log"
    with contextlib.closing(start(log_file=str(path)).connect()) as agent:
        assert agent.status()["state"] == "idle"
    said = capfd.readouterr().err
    assert f"No such file or directory: '{path}'" in said
    assert "Traceback" not in said


def test_a_worker_that_the_kernel_ends_says_where(start):
    """As at a look at what is mapped of a file that was truncated."""
    worker = start()
    worker.connect().close()
    worker.process.send_signal(signal.SIGBUS)
    assert worker.wait() == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in worker.log()


PROGRAM = """
import sys, threading, types
from fpgapool.agent.child import process

class Service:
    room = None
    def __init__(self, _settings):
        threading.Thread(target=threading.Event().wait).start()
    def exit(self, reason): pass
    def run(self): print("done")

settings = types.SimpleNamespace(isolation="none")
sys.exit(process.run(Service, RuntimeError, settings))
"""


def test_no_thread_of_a_library_delays_the_end_of_a_process():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=harness.TIMEOUT_S,
        check=True,
    )
    assert done.stdout == "done\n"
