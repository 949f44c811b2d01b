# SPDX-License-Identifier: Apache-2.0

"""Servers that outlive the program which started them are found again."""

import contextlib
import dataclasses
import json
import pathlib
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from tests.harness import waiting
from tests.services import kept
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

LIMIT_S = 30


@pytest.fixture
def state(
    tmp_path: pathlib.Path, service_workspace: process.Workspace
) -> Iterator[pathlib.Path]:
    """Give a directory whose servers end with the test."""
    path = tmp_path / "state"
    yield path
    if kept.is_one(path):
        with kept.Directory(path) as directory:
            directory.end_all()


def start_server(
    state: pathlib.Path, workspace: process.Workspace
) -> tuple[int, int]:
    """Start a small server as one program would, and end that program.

    :returns: the server's number and its port.
    """
    with kept.Directory(state, create=True) as directory:
        server = rabbitmq_service.PortMapper(directory)
        server.start()
        (path,) = (state / "run").glob("*.json")
        pid = json.loads(path.read_text())["pid"]
        workspace.watch(server.name, pid)
        return pid, server.port


@contextlib.contextmanager
def bystander(directory: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that nobody has to end."""
    with subprocess.Popen(
        ["sleep", "1000"], cwd=directory, start_new_session=True
    ) as made:
        try:
            yield made
        finally:
            made.kill()


def test_server_is_found_again_and_ended(
    state: pathlib.Path, service_workspace: process.Workspace
) -> None:
    _, port = start_server(state, service_workspace)
    with kept.Directory(state) as directory:
        server = rabbitmq_service.PortMapper(directory)
        assert server.running
        assert server.port == port
        server.stop()
        assert not server.running
        assert directory.end_all() == []
    assert process.port_is_free(port)


def test_all_servers_are_ended_without_knowing_them(
    state: pathlib.Path, service_workspace: process.Workspace
) -> None:
    _, port = start_server(state, service_workspace)
    with kept.Directory(state) as directory:
        assert directory.end_all() == ["epmd"]
        assert directory.end_all() == []
    assert process.port_is_free(port)


def test_server_that_crashed_is_started_again_on_its_port(
    state: pathlib.Path, service_workspace: process.Workspace
) -> None:
    pid, port = start_server(state, service_workspace)
    survivor = kept.Survivor(pid)
    survivor.send_signal(signal.SIGKILL)
    survivor.wait(LIMIT_S)
    survivor.close()
    assert start_server(state, service_workspace) != (pid, port)
    with kept.Directory(state) as directory:
        server = rabbitmq_service.PortMapper(directory)
        assert server.running
        assert server.port == port


def test_server_that_ignores_the_signal_is_killed(
    state: pathlib.Path,
    service_workspace: process.Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "_STOP_LIMIT_S", 0.2)
    pid, port = start_server(state, service_workspace)
    survivor = kept.Survivor(pid)
    survivor.send_signal(signal.SIGSTOP)
    with kept.Directory(state) as directory:
        assert directory.end_all() == ["epmd"]
    assert survivor.wait(LIMIT_S) == 0
    survivor.close()
    assert process.port_is_free(port)


def test_children_of_a_dead_leader_are_ended(
    state: pathlib.Path, service_workspace: process.Workspace
) -> None:
    with kept.Directory(state, create=True) as directory:
        shell = subprocess.Popen(
            ["sh", "-c", "sleep 1000 & echo $!; wait"],
            cwd=state,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        service_workspace.watch("shell", shell.pid)
        directory.watch("shell", shell.pid)
        assert shell.stdout is not None
        child = kept.Survivor(int(shell.stdout.readline()))
        shell.stdout.close()
        shell.kill()
        shell.wait()
        assert child.poll() is None
        assert directory.recall("shell") is None
        child.wait(LIMIT_S)
        child.close()


@pytest.mark.parametrize(
    "otherwise", [{"start_ticks": 1}, {"boot_id": "another"}]
)
def test_number_that_went_to_another_process_is_left_alone(
    state: pathlib.Path, otherwise: dict[str, object]
) -> None:
    with kept.Directory(state, create=True) as directory:
        # Elsewhere: in the directory it would be one of the servers.
        with bystander(state.parent) as stranger:
            identity = kept.identify(stranger.pid)
            record = {**dataclasses.asdict(identity), **otherwise}
            path = state / "run" / "other.json"
            path.write_text(json.dumps(record))
            assert directory.end_all() == []
            assert stranger.poll() is None
            assert not path.exists()


def test_programs_have_the_directory_one_after_the_other(
    state: pathlib.Path,
) -> None:
    had_it = threading.Event()

    def have_it() -> None:
        with kept.Directory(state):
            had_it.set()

    with kept.Directory(state, create=True):
        other = threading.Thread(target=have_it)
        other.start()
        waiting.wait_until(
            lambda: waits_for(state / kept.MARKER), "the other one waits"
        )
        assert not had_it.is_set()
    other.join()
    assert had_it.is_set()


def test_program_that_waited_hears_that_the_directory_is_gone(
    state: pathlib.Path,
) -> None:
    errors: list[process.ServiceError] = []

    def have_it() -> None:
        with pytest.raises(process.ServiceError) as info:
            kept.Directory(state)
        errors.append(info.value)

    with kept.Directory(state, create=True) as directory:
        other = threading.Thread(target=have_it)
        other.start()
        waiting.wait_until(
            lambda: waits_for(state / kept.MARKER), "the other one waits"
        )
        directory.remove()
    other.join()
    assert "has just been removed" in str(errors[0])


def waits_for(path: pathlib.Path) -> bool:
    """Tell whether someone waits for the lock of a file."""
    inode = f":{path.stat().st_ino} "
    return any(
        "->" in line and inode in line
        for line in pathlib.Path("/proc/locks").read_text().splitlines()
    )


def test_directory_of_something_else_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(process.ServiceError, match="neither empty nor"):
        kept.Directory(tmp_path, create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_port_of_another_program_is_not_taken_for_the_server(
    state: pathlib.Path,
) -> None:
    with kept.Directory(state, create=True) as directory:
        server = rabbitmq_service.PortMapper(directory)
        with socket.create_server((process.LOOPBACK, server.port)):
            with pytest.raises(
                process.ServiceError, match=f"listens on port {server.port}"
            ):
                server.start()
