# SPDX-License-Identifier: Apache-2.0

"""The command fpgapool-agent, and an agent over a real RPC transport."""

from __future__ import annotations

import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from fpgapool.cmd import agent as command
from tests.functional.agent import harness

ROOT = pathlib.Path(command.__file__).parents[2]

CONFIGURATION = """
[DEFAULT]
transport_url = fake://
state_path = {directory}/state
host_uuid = 7f000000-0000-4000-8000-000000000001
host_name = host1

[agent]
driver = noop
nic_bytes_per_s = 1e9
front_door_sockets = {project}:{directory}/door.sock
"""


def start(directory: pathlib.Path, text: str) -> subprocess.Popen[bytes]:
    file = directory / "fpgapool.conf"
    file.write_text(text)
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fpgapool.cmd.agent",
            "--config-file",
            str(file),
        ],
        cwd=ROOT,
        env={"NOTIFY_SOCKET": str(directory / "notify")},
        stderr=subprocess.PIPE,
    )


def test_it_serves_until_a_signal(directory):
    text = CONFIGURATION.format(directory=directory, project=harness.PROJECT)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(directory / "notify"))
        notify.settimeout(harness.TIMEOUT_S)
        with start(directory, text) as process:
            assert notify.recv(100) == b"READY=1"
            with harness.Client(str(directory / "door.sock")) as client:
                assert client.request("hello")["host_name"] == "host1"
            process.send_signal(signal.SIGTERM)
            _output, errors = process.communicate(timeout=harness.TIMEOUT_S)
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert not (directory / "door.sock").exists()


@pytest.mark.parametrize(
    ("old", "new", "status", "reason"),
    [
        ("driver = noop", "driver = nix", 2, b"nix"),
        ("driver = noop", "driver = emulator", 1, b"boards_file"),
        ("nic_bytes_per_s = 1e9", "nic_bytes_per_s = fast", 2, b"fast"),
        ("/door.sock", "/no/such/place", 1, b"front door"),
    ],
)
def test_unusable_configurations_are_named_in_one_line(
    directory, old, new, status, reason
):
    text = CONFIGURATION.format(directory=directory, project=harness.PROJECT)
    with start(directory, text.replace(old, new)) as process:
        _output, errors = process.communicate(timeout=harness.TIMEOUT_S)
    assert process.returncode == status
    lines = errors.splitlines()
    assert reason in lines[-1]
    assert lines[-1].startswith(b"fpgapool-agent: ")
    assert b"Traceback" not in errors
