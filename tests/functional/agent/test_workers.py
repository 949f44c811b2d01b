# SPDX-License-Identifier: Apache-2.0

"""An agent with real worker processes."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import signal
import stat
import subprocess
import sys

import pytest
import yaml

from fpgapool.agent import reports
from fpgapool.agent import service
from fpgapool.agent.supervision import children
from fpgapool.agent.supervision import processes
from fpgapool.agent.supervision import unread
from fpgapool.agent.supervision import workers
from fpgapool.common.channels import channel
from fpgapool.common.channels import descriptors
from fpgapool.common.walls import landlock
from fpgapool.protocol import frames
from fpgapool.rpcapi import agent as agent_rpcapi
from fpgapool.vocabulary import codes
from tests.functional.agent import harness
from tests.functional.worker import harness as worker_harness
from tests.harness import cases
from tests.harness import processes as host_processes
from tests.harness import supervised
from tests.harness import waiting

KEY = ("board0", 0)
SECRET = b"what a client has not read yet"


def idle(slot):
    return slot.state == "idle"


def known_pid_of(agent: service.Agent, slot: int) -> int | None:
    found: list[int | None] = []
    agent.loop.run_and_wait(
        lambda: found.append(supervised.pid(agent.workers, ("board0", slot))),
        harness.TIMEOUT_S,
    )
    return found[0]


def pid_of(agent: service.Agent, slot: int = 0) -> int:
    found = known_pid_of(agent, slot)
    assert found is not None
    return found


def start_idle(host: harness.Host) -> service.Agent:
    agent = host.start()
    for slot in (0, 1):
        host.conductor.wait_for_slot(slot, idle)
    return agent


def _room_of(pid: int) -> dict[str, str]:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    named = dict(line.split(":\t", 1) for line in lines)
    return {name: named[name] for name in ("Seccomp", "NoNewPrivs", "CapEff")}


@pytest.mark.security
@pytest.mark.parametrize(
    ("isolation", "room"),
    [("preferred", ["2", "1", "0" * 16]), ("none", ["0", "0", None])],
)
def test_workers_are_in_rooms_if_the_operator_does_not_refuse(
    directory, isolation, room
):
    host = harness.Host(directory, isolation=isolation)
    try:
        agent = start_idle(host)
        found = [*_room_of(pid_of(agent)).values()]
        (message,) = {
            report.isolation_message or ""
            for report in host.conductor.named("report")
        }
    finally:
        host.stop()
    assert room in (found, [*found[:2], None])
    assert ("Workers are not isolated" in message) == (isolation == "none")


def test_an_agent_that_cannot_isolate_workers_does_not_serve_if_it_must(
    directory, monkeypatch
):
    monkeypatch.setattr(landlock, "version", lambda: 0)
    host = harness.Host(directory, isolation="required")
    with pytest.raises(service.AgentError, match="no Landlock"):
        host.start()
    host.stop()


def test_the_first_reports_show_the_host_and_its_slots(host):
    start_idle(host)
    reports = host.conductor.named("report")
    last = reports[-1]
    assert (last.host_uuid, last.host_name) == (harness.HOST, "host1")
    assert last.nic_bytes_per_s == 1e9
    assert last.driver == "emulator"
    (device,) = last.devices
    assert (device.name, device.healthy, len(device.slots)) == (
        "board0",
        True,
        2,
    )
    sequences = [report.sequence for report in reports]
    assert sequences == sorted(set(sequences))
    assert len({report.agent_boot_id for report in reports}) == 1


def test_assign_prepares_the_slot_and_tells_where_and_how(host):
    agent = start_idle(host)
    harness.assign(agent, 7)
    prepared = host.conductor.wait_for(
        "prepared", lambda one: one.generation == 7
    )
    assert len(bytes.fromhex(prepared.secret)) == 32
    assert prepared.session_id == "session-7"
    local, data = prepared.endpoints
    assert (local.network, local.port) == ("local", 0)
    assert (data.network, data.address) == ("data", "127.0.0.1")
    assert data.port > 0
    slot = host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    assert (slot.session_id, slot.generation, slot.programmed) == (
        "session-7",
        7,
        "copy",
    )
    assert slot.seen_generation == 7


@pytest.mark.security
def test_the_secret_is_in_no_log_and_no_report(host, caplog):
    caplog.set_level("DEBUG")
    agent = start_idle(host)
    harness.assign(agent, 7)
    prepared = host.conductor.wait_for("prepared", lambda one: True)
    host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    assert prepared.secret not in caplog.text
    assert prepared.secret not in repr(prepared)
    for report in host.conductor.named("report"):
        assert prepared.secret not in str(report.to_primitive())


@pytest.mark.security
def test_a_slot_goes_to_another_project_in_a_fresh_process(host):
    agent = start_idle(host)
    first = pid_of(agent)
    harness.assign(agent, 7)
    host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    harness.release(agent, 7)
    host.conductor.wait_for_slot(0, lambda one: one.last_result)
    harness.assign(agent, 8, project_id="project-b")
    host.conductor.wait_for("prepared", lambda one: one.generation == 8)
    slot = host.conductor.wait_for_slot(
        0, lambda one: one.state == "ready" and one.generation == 8
    )
    assert slot.last_result is None
    assert pid_of(agent) != first


class Reader:
    """A client that has sent some data, and has not read the result yet."""

    def __init__(self, host: harness.Host, agent: service.Agent) -> None:
        self._agent, self._conductor = agent, host.conductor
        harness.assign(agent, 7)
        prepared = host.conductor.wait_for(
            "prepared", lambda one: one.generation == 7
        )
        path = workers.data_path(host.settings.state_path, KEY)
        sock = channel.PlainChannel(channel.connect_unix(path))
        self.client = worker_harness.Client(sock).hello(
            dataclasses.asdict(prepared), transport="shm"
        )
        shm = self.client.opened["shm"]
        self._buffers_bytes = shm["buffers"] * shm["buffer_bytes"]
        self.client.send_input(SECRET)
        header, _ = self.client.recv()
        while header.type != frames.OUTPUT:
            header, _ = self.client.recv()
        self._start = header.aux * shm["buffer_bytes"]

    def lose_slot(self) -> None:
        """Lose it to another project, in which a session waits for it."""
        first = pid_of(self._agent)
        self._agent.manager.release(
            {}, 1, "board0", 0, "session-7", 7, codes.PREEMPTED
        )
        slot = self._conductor.wait_for_slot(0, lambda one: one.last_result)
        assert slot.last_result.code == codes.PREEMPTED
        self.next_project(first)

    def next_project(self, first: int) -> None:
        harness.assign(self._agent, 8, project_id="project-b")
        self._conductor.wait_for_slot(
            0, lambda one: one.state == "ready" and one.generation == 8
        )
        second = pid_of(self._agent)
        assert second != first
        assert worker_harness.shared_memory_of(second) == b""

    @property
    def unread(self) -> tuple[bytes, bool]:
        """The result, and whether the mark says that it is whole."""
        fd = self.client.fds[1]
        found = os.pread(fd, len(SECRET), self._start)
        return found, os.pread(fd, 1, self._buffers_bytes) == b"\1"


@pytest.mark.security
def test_a_client_reads_on_when_another_project_has_its_slot(host):
    agent = start_idle(host)
    reader = Reader(host, agent)
    reader.lose_slot()
    assert reader.unread == (SECRET, True)
    reader.client.close()


@pytest.mark.security
def test_what_a_client_does_not_read_for_long_is_emptied(host, monkeypatch):
    monkeypatch.setattr(unread, "UNREAD_S", 0.1)
    agent = start_idle(host)
    reader = Reader(host, agent)
    reader.lose_slot()
    waiting.wait_until(
        lambda: reader.unread == (bytes(len(SECRET)), False),
        "empty buffers",
    )
    reader.client.close()


@pytest.mark.security
def test_what_a_killed_worker_has_left_is_its_clients_alone(host):
    agent = start_idle(host)
    reader = Reader(host, agent)
    first = pid_of(agent)
    os.kill(first, signal.SIGKILL)
    slot = host.conductor.wait_for_slot(
        0, lambda one: one.last_result and one.state == "idle"
    )
    assert slot.last_result.code == codes.WORKER_DIED
    reader.next_project(first)
    assert reader.unread == (SECRET, True)
    reader.client.close()


def test_steps_are_gathered_and_a_free_slot_is_reported_at_once(
    host, monkeypatch
):
    agent = start_idle(host)
    monkeypatch.setattr(reports, "GATHER_S", 10 * harness.TIMEOUT_S)
    harness.assign(agent, 7)
    host.conductor.wait_for("prepared", lambda one: one.generation == 7)
    harness.release(agent, 7)
    slot = host.conductor.wait_for_slot(0, lambda one: one.last_result)
    assert slot.last_result.generation == 7
    assert "preparing" not in {
        slot.state
        for report in host.conductor.named("report")
        for slot in report.devices[0].slots
    }


@pytest.mark.parametrize(
    "epoch",
    cases.some(
        [0, -1, 2**31, 2**63, 10**40, 5.0, True, "5", None, math.inf, []],
        lambda epoch: epoch in (-1, 2**31, None),
    ),
    ids=str,
)
def test_what_no_leader_can_be_keeps_no_leader_out(host, caplog, epoch):
    agent = start_idle(host)
    agent.manager.report_now({}, epoch)
    agent.manager.session_changed({}, epoch, [])
    harness.assign(agent, 6, slot=1, epoch=epoch)
    assert caplog.text.count("Dropped an invalid") == 3
    harness.assign(agent, 7)
    host.conductor.wait_for("prepared", lambda one: one.generation == 7)
    assert agent.table.leader_epoch == 1
    assert not agent.table.refusals


def test_a_generation_of_no_leader_goes_with_its_worker(staying_host):
    """Even then the agent has to be started again: it knows it, too."""
    stray = (9 << agent_rpcapi.GENERATION_BITS) + 7
    real = (1 << agent_rpcapi.GENERATION_BITS) + 7
    first = start_idle(staying_host)
    harness.assign(first, stray, epoch=9, connect_timeout_s=600.0)
    staying_host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    first.stop()
    staying_host.conductor.calls.clear()
    second = staying_host.start()
    staying_host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    harness.release(second, stray)
    staying_host.conductor.wait_for_slot(0, idle)
    harness.assign(second, real)
    waiting.wait_until(
        lambda: second.table.refusals == {"generation": 1},
        "the assignment is refused",
    )
    old = pid_of(second)
    os.kill(old, signal.SIGKILL)
    waiting.wait_until(
        lambda: known_pid_of(second, 0) not in (None, old), "a new worker"
    )
    second.stop()
    staying_host.conductor.calls.clear()
    third = start_idle(staying_host)
    harness.assign(third, real)
    staying_host.conductor.wait_for_slot(0, lambda one: one.state == "ready")


def test_a_session_outlives_its_agent(staying_host):
    first = start_idle(staying_host)
    harness.assign(first, 7)
    prepared = staying_host.conductor.wait_for("prepared", lambda one: True)
    staying_host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    pids = [pid_of(first, slot) for slot in (0, 1)]
    first.stop()
    staying_host.conductor.calls.clear()
    second = staying_host.start()
    staying_host.conductor.wait_for("report", lambda one: True)
    # The very first report already knows the session.
    slot = staying_host.conductor.named("report")[0].devices[0].slots[0]
    assert (slot.state, slot.session_id, slot.generation) == (
        "ready",
        "session-7",
        7,
    )
    assert slot.seen_generation == 7
    assert [pid_of(second, slot) for slot in (0, 1)] == pids
    # The secret is not stored anywhere, so a repeat brings a new one.
    harness.assign(second, 7)
    again = staying_host.conductor.wait_for("prepared", lambda one: True)
    assert again.secret != prepared.secret


@pytest.mark.parametrize("what", ["shape", "settings"])
def test_a_worker_from_before_a_change_is_replaced(
    staying_host, directory, what
):
    """Its next session has a fresh one, as its driver may be out of date."""
    first = start_idle(staying_host)
    harness.assign(first, 7)
    staying_host.conductor.wait_for("prepared", lambda one: True)
    harness.release(first, 7)
    staying_host.conductor.wait_for_slot(0, lambda one: one.last_result)
    pids = [pid_of(first, slot) for slot in (0, 1)]
    first.stop()
    if what == "shape":
        board = {**harness.BOARDS["boards"][0], "shape": "other"}
        (directory / "boards.yaml").write_text(
            yaml.safe_dump({**harness.BOARDS, "boards": [board]})
        )
    else:
        staying_host.settings = dataclasses.replace(
            staying_host.settings, hello_timeout_s=3.0
        )
    staying_host.conductor.calls.clear()
    second = start_idle(staying_host)
    slot = staying_host.conductor.wait_for_slot(
        0, lambda one: one.state == "idle"
    )
    assert slot.shape == ("other" if what == "shape" else "medium")
    # Until then it keeps the result of its last session.
    assert slot.last_result.generation == 7
    assert [pid_of(second, slot) for slot in (0, 1)] == pids
    harness.assign(second, 8)
    staying_host.conductor.wait_for("prepared", lambda one: True)
    staying_host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    assert pid_of(second) != pids[0]
    assert pid_of(second, 1) == pids[1]
    # The fresh one stays.
    fresh = pid_of(second)
    harness.release(second, 8)
    staying_host.conductor.wait_for_slot(
        0, lambda one: one.last_result and one.last_result.generation == 8
    )
    harness.assign(second, 9)
    staying_host.conductor.wait_for(
        "prepared", lambda one: one.generation == 9
    )
    assert pid_of(second) == fresh


def test_idle_workers_of_a_board_are_ended_for_its_operator(staying_host):
    """Not while one has a session, nor those of other boards."""
    state_dir = staying_host.settings.state_path
    path = pathlib.Path(state_dir)
    first = start_idle(staying_host)
    harness.assign(first, 7, slot=1)
    staying_host.conductor.wait_for_slot(1, lambda one: one.state == "ready")
    first.stop()
    before = host_processes.find_workers(path)
    with pytest.raises(
        workers.Busy, match=r"worker of slot board0\.1 has a sess"
    ):
        workers.end_idle(state_dir, "board0")
    # The idle one has ended.
    assert host_processes.find_workers(path) == before[1:]
    staying_host.conductor.calls.clear()
    second = staying_host.start()
    staying_host.conductor.wait_for_slot(0, idle)
    harness.release(second, 7, slot=1)
    staying_host.conductor.wait_for_slot(1, lambda one: one.last_result)
    second.stop()
    workers.end_idle(state_dir, "board")
    assert len(host_processes.find_workers(path)) == 2
    workers.end_idle(state_dir, "board0")
    assert not host_processes.find_workers(path)


AGENT_PROGRAM = """
import pathlib, sys
from tests.functional.agent import harness

host = harness.Host(pathlib.Path(sys.argv[1]), workers_outlive_agent=True)
agent = host.start()
harness.assign(agent, 7)
host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_session_outlives_an_agent_that_is_killed(staying_host, directory):
    root = pathlib.Path(service.__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", AGENT_PROGRAM, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    agent = staying_host.start()
    slot = staying_host.conductor.wait_for_slot(0, lambda one: True)
    assert (slot.state, slot.session_id) == ("ready", "session-7")
    # A worker that is nobody's child here is watched all the same.
    os.kill(pid_of(agent), signal.SIGKILL)
    slot = staying_host.conductor.wait_for_slot(
        0, lambda one: one.state == "idle" and one.last_result
    )
    assert slot.last_result.code == "WORKER_DIED"


def test_workers_can_go_with_their_agent(host):
    agent = start_idle(host)
    pidfds = [os.pidfd_open(pid_of(agent, slot)) for slot in (0, 1)]
    agent.stop()
    for pidfd in pidfds:
        assert descriptors.is_readable(pidfd, 0)
        os.close(pidfd)


def test_a_worker_that_was_just_being_started_is_found_later(
    staying_host, monkeypatch
):
    """The slot is taken, but its control socket is not there yet."""
    agent = start_idle(staying_host)
    first = pid_of(agent)
    agent.stop()
    staying_host.conductor.calls.clear()
    real_dial = processes.dial
    dials: list[str] = []

    def dial(path):
        dials.append(path)
        return None if len(dials) == 1 else real_dial(path)

    monkeypatch.setattr(processes, "dial", dial)
    agent = staying_host.start()
    staying_host.conductor.wait_for_slot(0, idle)
    assert pid_of(agent) == first


def test_two_agents_cannot_share_a_host(host):
    host.start()
    with pytest.raises(service.AgentError, match="another agent"):
        host.start()


def test_a_state_directory_without_room_for_sockets(directory):
    """Its workers would run, and the desks of its groups would not."""
    path = directory / ("d" * 60)
    host = harness.Host(directory, state_path=str(path))
    with pytest.raises(service.AgentError, match="bytes shorter") as caught:
        host.start()
    assert str(path) in str(caught.value)
    host.stop()


@pytest.mark.security
def test_the_state_directory_is_closed_to_others(host):
    host.start()
    path = pathlib.Path(host.settings.state_path)
    for directory in (path, path / "workers"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_worker_that_cannot_start_makes_its_slot_faulty(host, monkeypatch):
    monkeypatch.setattr(workers.Workers, "MODULE", "fpgapool.no_such_module")
    monkeypatch.setattr(children, "FIRST_RESPAWN_S", 0.001)
    agent = host.start()
    slot = host.conductor.wait_for_slot(0, lambda one: one.state == "faulty")
    assert slot.session_id is None
    harness.assign(agent, 7)
    slot = host.conductor.wait_for_slot(0, lambda one: one.last_result)
    assert (slot.last_result.state, slot.last_result.code) == (
        "PREPARE_FAILED",
        "SLOT_FAULTY",
    )
    assert slot.last_result.message == (
        "the worker ended (status 1); see the agent's standard error"
    )


MUTE_PROGRAM = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("name", "killed"), [(processes.WORKER_MODULE, True), ("stranger", False)]
)
def test_only_a_worker_is_killed_for_being_mute(
    host, monkeypatch, name, killed
):
    monkeypatch.setattr(children, "START_TIMEOUT_S", 0.3)
    monkeypatch.setattr(service, "SETTLE_TIMEOUT_S", 0.1)
    path = workers.control_path(host.settings.state_path, KEY)
    pathlib.Path(path).parent.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", MUTE_PROGRAM, path, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"listening\n"
        agent = host.start()
        monkeypatch.undo()
        host.conductor.wait_for_slot(0, idle)
        assert pid_of(agent) != process.pid
        assert (process.poll() is not None) == killed


def test_a_worker_that_freezes_is_replaced_whether_it_has_a_session_or_not(
    host,
):
    host.settings = dataclasses.replace(host.settings, worker_timeout_s=2.0)
    agent = start_idle(host)
    harness.assign(agent, 7)
    host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    before = [pid_of(agent, slot) for slot in (0, 1)]
    pidfds = [os.pidfd_open(pid) for pid in before]
    for pid in before:
        os.kill(pid, signal.SIGSTOP)
    for pidfd in pidfds:
        assert descriptors.is_readable(pidfd, harness.TIMEOUT_S)
        os.close(pidfd)
    slot = host.conductor.wait_for_slot(
        0, lambda one: one.state == "idle" and one.last_result
    )
    assert slot.last_result.code == "WORKER_DIED"
    host.conductor.wait_for_slot(1, idle)
    harness.assign(agent, 8)
    host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    for number in (0, 1):
        waiting.wait_until(
            lambda number=number: (
                known_pid_of(agent, number) not in (None, *before)
            ),
            f"slot {number} has a new worker",
        )


def test_workers_are_not_blamed_for_the_agents_own_absence(host):
    """An agent that was frozen for an hour gives them time to answer."""
    host.settings = dataclasses.replace(host.settings, worker_timeout_s=10.0)
    agent = start_idle(host)
    before = pid_of(agent)

    def wake_up() -> None:
        agent.workers.tick()
        agent.workers._ticked_at_s -= 3600
        agent.workers.tick()

    agent.loop.run_and_wait(wake_up, harness.TIMEOUT_S)
    harness.assign(agent, 7)
    host.conductor.wait_for_slot(0, lambda one: one.state == "ready")
    assert pid_of(agent) == before
