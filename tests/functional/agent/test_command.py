# SPDX-License-Identifier: Apache-2.0

"""The command fpgapool-agent, and an agent over a real RPC transport."""

from __future__ import annotations

import pathlib
import signal
import socket
import subprocess
import sys

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from fpgapool import objects
from fpgapool.agent import service
from fpgapool.agent import settings as agent_settings
from fpgapool.cmd import agent as command
from fpgapool.common import config
from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
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


class Conductor:
    """The receiving side of ConductorAPI."""

    target = messaging.Target(version=conductor_api.VERSION)

    def __init__(self, record: harness.FakeConductor) -> None:
        self._record = record

    def report(self, ctxt: object, report: dict) -> None:
        self._record.report(objects.AgentReport.from_primitive(report))

    def prepared(self, ctxt: object, prepared: dict) -> None:
        self._record.prepared(objects.Prepared.from_primitive(prepared))


@pytest.fixture
def transport(directory):
    """RPC within this process; it needs the global configuration."""
    file = directory / "fpgapool.conf"
    file.write_text("[DEFAULT]\ntransport_url = fake://\n")
    config.init("fpgapool-agent", ["--config-file", str(file)])
    rpc.init(cfg.CONF)
    yield
    rpc.cleanup()
    cfg.CONF.reset()


def test_agents_of_several_hosts_live_in_one_process(directory, transport):
    record = harness.FakeConductor()
    server = rpc.get_server(
        conductor_api.TOPIC,
        # That of the epoch in which the agents are told something.
        conductor_api.server_name(1),
        [Conductor(record)],
    )
    server.start()
    conductor = conductor_api.ConductorAPI()
    boards = harness.write_boards(directory)
    agents = []
    for name in ("host1", "host2"):
        settings = agent_settings.AgentSettings.from_conf(
            cfg.CONF,
            host_uuid=f"uuid-{name}",
            host_name=name,
            state_path=str(directory / name),
            driver_settings={"boards_file": boards},
            workers_outlive_agent=False,
            nic_bytes_per_s=1e9,
        )
        agents.append(service.Agent(settings, conductor))
    try:
        for agent in agents:
            agent.start()
        record.wait_for_slot(0, lambda one: one.state == "idle")
        request = objects.AssignRequest(
            host_uuid="uuid-host2",
            device="board0",
            slot=1,
            session_id="session-7",
            generation=7,
            project_id=harness.PROJECT,
            accelerator="copy",
            bitstream="builtin:copy",
            connect_timeout_s=30.0,
            resume_grace_s=10.0,
            claimed_bytes=1000,
            local=True,
        )
        agent_api.AgentAPI().assign("uuid-host2", 1, request)
        prepared = record.wait_for("prepared", lambda one: True)
        assert (prepared.host_uuid, prepared.slot) == ("uuid-host2", 1)
        record.wait_for(
            "report",
            lambda one: (
                one.host_uuid == "uuid-host2"
                and one.devices[0].slots[1].state == "ready"
            ),
        )
        assert {one.host_uuid for one in record.named("report")} == {
            "uuid-host1",
            "uuid-host2",
        }
    finally:
        for agent in agents:
            agent.stop()
        server.stop()
        server.wait()
