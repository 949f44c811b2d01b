# SPDX-License-Identifier: Apache-2.0

"""Processes that are forked from one parent."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import typing
from collections.abc import Iterator

import pytest

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import service
from fpgapool.agent.supervision import forks
from fpgapool.agent.supervision import processes
from fpgapool.common.channels import descriptors
from tests.functional.agent import forked
from tests.functional.agent import harness
from tests.harness import processes as host_processes
from tests.harness import supervised
from tests.harness import waiting

MODULE = forked.__name__


class Site:
    """A loop with a fork server, and the processes started by it."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._loop = agent_loop.Loop("test")
        self._pidfds: list[int] = []
        self._pids: set[int] = set()
        self._loop.start()

    def launch(self, **warm_up: object) -> None:
        self.server = forks.ForkServer(self._loop, {MODULE: warm_up})
        self._run(self.server.launch)

    def _run(self, call: typing.Any) -> typing.Any:
        found: list[typing.Any] = []
        self._loop.run_and_wait(
            lambda: found.append(call()), harness.TIMEOUT_S
        )
        return found[0]

    def start(self, **settings: object) -> tuple[int, int]:
        pid, pidfd = self._run(lambda: self.server.start(MODULE, settings))
        self._pidfds.append(pidfd)
        self._pids.add(pid)
        return pid, pidfd

    def facts(self, **settings: object) -> dict[str, typing.Any]:
        """Start a process that tells what it has."""
        path = self._directory / f"{len(self._pidfds)}.json"
        self.start(path=str(path), **settings)
        waiting.wait_until(path.exists, "the process tells what it has")
        found: dict[str, typing.Any] = json.loads(path.read_text())
        return found

    def exit_status(self, pid: int, pidfd: int) -> int | None:
        assert processes.ended(pidfd, harness.TIMEOUT_S)
        status: int | None = self._run(
            lambda: self.server.exit_status(pid, pidfd)
        )
        return status

    def server_pid(self) -> int | None:
        pid: int | None = self._run(lambda: self.server.pid)
        return pid

    def server_ready(self) -> bool:
        ready: bool = self._run(lambda: self.server._ready)
        return ready

    def spare(self) -> int:
        """Return the process that waits for its settings."""
        server = self.server_pid()

        def found() -> list[int]:
            path = pathlib.Path(f"/proc/{server}/task/{server}/children")
            # Not one that has its settings and will show them soon.
            return [
                pid
                for pid in map(int, path.read_text().split())
                if pid not in self._pids and _waits(pid, server)
            ]

        waiting.wait_until(found, "a spare")
        return found()[0]

    def stop(self) -> None:
        self._loop.stop(harness.TIMEOUT_S)
        self.server.close(harness.TIMEOUT_S)
        pidfds, self._pidfds = self._pidfds, []
        for pidfd in pidfds:
            if not processes.ended(pidfd, 0.0):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


def _waits(pid: int, server: int | None) -> bool:
    """Whether a process has the command line of its server, and waits."""
    lines = [
        pathlib.Path(f"/proc/{one}/cmdline").read_bytes()
        for one in (pid, server)
    ]
    return lines[0] == lines[1]


@pytest.fixture
def site(directory: pathlib.Path) -> Iterator[Site]:
    made = Site(directory)
    made.launch()
    try:
        yield made
    finally:
        made.stop()


def test_a_fork_is_as_if_it_was_started_alone(site):
    facts = site.facts(status=3)
    assert facts["parent"] == site.server_pid()
    assert facts["threads"] == 1
    assert facts["input"] == os.devnull
    (settings,) = facts["argv"]
    assert json.loads(settings)["status"] == 3
    assert facts["line"] == ["-P", "-m", MODULE, settings]


@pytest.mark.security
def test_a_fork_has_no_file_of_the_server_or_of_other_forks(site):
    for _ in range(3):
        site.start(wait=True)
    # The last one is the folder that it lists.
    assert site.facts()["files"] == [0, 1, 2, 3]


@pytest.mark.security
def test_forks_have_random_numbers_and_keys_of_their_own(site):
    one, other = site.facts(), site.facts()
    assert one["parent"] == other["parent"]
    for name in ("random", "openssl", "certificate"):
        assert one[name] != other[name]


def test_the_next_process_is_a_spare_that_has_been_prepared(site):
    assert not site.facts()["prepared"]
    for status in (3, 0):
        spare = site.spare()
        pid, pidfd = site.start(status=status)
        assert pid == spare
        assert site.exit_status(pid, pidfd) == status
    site.spare()
    assert site.facts()["prepared"]


@pytest.mark.security
def test_spares_are_like_forks(site):
    one = site.facts()
    site.spare()
    other = site.facts()
    assert (one["prepared"], other["prepared"]) == (False, True)
    assert (one["opened"], other["opened"]) == ([], ["/dev/zero"])
    for name in ("random", "openssl", "certificate"):
        assert one[name] != other[name]
    for name in ("parent", "files", "input", "threads"):
        assert one[name] == other[name]


def test_a_spare_that_dies_is_replaced_after_the_next_start(site):
    site.start(wait=True)
    spare = os.pidfd_open(first := site.spare())
    os.kill(first, signal.SIGKILL)
    assert processes.ended(spare, harness.TIMEOUT_S)
    os.close(spare)
    assert site.exit_status(*site.start(status=3)) == 3
    assert site.spare() != first


def test_a_start_has_at_most_one_spare_that_dies(directory):
    log = directory / "prepared"
    made = Site(directory)
    made.launch(dies=str(log))
    try:
        made.start(wait=True)
        waiting.wait_until(log.exists, "a spare")
        # Longer than a server waits for its next spare.
        assert made.exit_status(*made.start(pause_s=0.3)) == 0
        assert len(log.read_text()) <= 2
    finally:
        made.stop()


def test_a_server_without_files_for_a_spare_goes_on(site):
    pid = site.server_pid()
    waiting.wait_until(lambda: site.server_ready(), "the server is ready")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, 4))
    process = site.start(pause_s=0.3)
    assert site.exit_status(*process) == 0
    assert site.server_pid() == pid


def test_a_spare_ends_with_its_server(site):
    site.start(wait=True)
    spare = os.pidfd_open(site.spare())
    os.kill(site.server_pid(), signal.SIGKILL)
    assert processes.ended(spare, harness.TIMEOUT_S)
    os.close(spare)


@pytest.mark.parametrize("status", [0, 3])
def test_it_is_known_how_a_fork_ends(site, status):
    assert site.exit_status(*site.start(status=status)) == status


def test_it_is_known_which_signal_ends_a_fork(site):
    others = [site.start(wait=True) for _ in range(2)]
    pid, pidfd = site.start(wait=True)
    os.kill(pid, signal.SIGKILL)
    assert site.exit_status(pid, pidfd) == -signal.SIGKILL
    assert not any(processes.ended(other, 0.0) for _, other in others)


def test_forks_outlive_a_server_that_is_killed_and_another_one_follows(site):
    pid, pidfd = site.start(wait=True)
    first = site.server_pid()
    os.kill(first, signal.SIGKILL)
    waiting.wait_until(
        lambda: site.server_pid() not in (None, first), "another server"
    )
    assert not processes.ended(pidfd, 0.0)
    os.kill(pid, signal.SIGKILL)
    # Nobody tells.
    assert site.exit_status(pid, pidfd) is None
    # Until the new server is ready, processes are started without it.
    parents = (os.getpid(), site.server_pid())
    assert site.facts()["parent"] in parents
    waiting.wait_until(
        lambda: site.facts()["parent"] == parents[1], "forks of it"
    )


def test_a_server_that_hangs_is_replaced_and_keeps_nobody_waiting(
    site, monkeypatch
):
    site.start(wait=True)
    monkeypatch.setattr(forks, "ANSWER_TIMEOUT_S", 0.1)
    first = site.server_pid()
    os.kill(first, signal.SIGSTOP)
    assert site.facts()["parent"] == os.getpid()
    monkeypatch.undo()
    waiting.wait_until(
        lambda: site.server_pid() not in (None, first), "another server"
    )


def test_what_has_threads_is_not_forked(directory, capfd):
    site = Site(directory)
    site.launch(threads=True)
    try:
        assert site.facts()["parent"] == os.getpid()
        assert site.exit_status(*site.start(status=3)) == 3
        assert "starts threads" in capfd.readouterr().err
    finally:
        site.stop()


def test_a_server_ends_with_its_agent(site):
    site.start(wait=True)
    with_server = os.pidfd_open(site.server_pid())
    site.stop()
    assert processes.ended(with_server, 0.0)
    os.close(with_server)


@pytest.mark.security
def test_workers_are_forked_with_certificates_of_their_own(directory):
    with harness.running_host(directory, tls=True) as host:
        agent = host.start()
        hashes = set()
        for slot in (0, 1):
            host.conductor.wait_for_slot(slot, lambda one: one.state == "idle")
            harness.assign(agent, 7 + slot, slot=slot)
            prepared = host.conductor.wait_for(
                "prepared", lambda one, slot=slot: one.generation == 7 + slot
            )
            hashes.add(prepared.certificate_sha256)
            pid = supervised.pid(agent.workers, ("board0", slot))
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            assert f"PPid:\t{agent._fork_server.pid}\n" in status
        assert len(hashes - {None}) == 2


AGENT_PROGRAM = """
import pathlib, sys
from tests.functional.agent import harness

host = harness.Host(pathlib.Path(sys.argv[1]))
agent = host.start()
for slot in (0, 1):
    host.conductor.wait_for_slot(slot, lambda one: one.state == "idle")
print(agent._fork_server.pid, flush=True)
sys.stdin.read()
"""


def test_an_agent_that_is_killed_leaves_no_process(directory):
    with subprocess.Popen(
        [sys.executable, "-c", AGENT_PROGRAM, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=pathlib.Path(service.__file__).parents[2],
    ) as process:
        pids = [int(process.stdout.readline())]
        workers = host_processes.find_workers(directory / "state")
        assert len(workers) == 2
        pids += [one.pid for one in workers]
        pidfds = [os.pidfd_open(pid) for pid in pids]
        process.kill()
        for pidfd in pidfds:
            assert descriptors.is_readable(pidfd, harness.TIMEOUT_S)
            os.close(pidfd)
