# SPDX-License-Identifier: Apache-2.0

"""A group on the host of an agent that is a process, behind RabbitMQ."""

from __future__ import annotations

import math
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from fpgapool import objects
from fpgapool.common import config
from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
from tests.functional.agent import harness
from tests.functional.agent import test_command
from tests.functional.agent import test_groups
from tests.harness import waiting

#: After so long an order is repeated that an agent may have missed.
ASK_AGAIN_S = 1.0

CONFIGURATION = """
[DEFAULT]
transport_url = {transport_url}
state_path = {directory}/state
host_uuid = {host_uuid}
host_name = host1

[agent]
driver = emulator
nic_bytes_per_s = 1e9
report_interval_s = 60
workers_outlive_agent = {outlive}
front_door_sockets = {project}:{directory}/door.sock

[emulator]
boards_file = {boards_file}
"""


class Pool:
    """A host whose agent is a process, and the conductor it reports to.

    :ivar front_door: of the agent.
    """

    def __init__(self, directory: pathlib.Path, transport_url: str) -> None:
        self._directory = directory
        self._transport_url = transport_url
        self._boards_file = harness.write_boards(directory)
        self.front_door = str(directory / "door.sock")
        self.conductor = harness.FakeConductor()
        self.agent: subprocess.Popen[bytes] | None = None
        config.init("fpgapool-agent", ["--config-file", self._configure()])
        rpc.init(cfg.CONF)
        self._server = rpc.get_server(
            conductor_api.TOPIC,
            conductor_api.server_name(1),
            [test_command.Conductor(self.conductor)],
        )
        self._server.start()
        self.api = agent_api.AgentAPI()

    def _configure(self, outlive: bool = True) -> str:
        file = self._directory / "fpgapool.conf"
        file.write_text(
            CONFIGURATION.format(
                transport_url=self._transport_url,
                directory=self._directory,
                host_uuid=harness.HOST,
                outlive=outlive,
                project=harness.PROJECT,
                boards_file=self._boards_file,
            )
        )
        return str(file)

    def start(self, outlive: bool = True) -> None:
        """Start the agent and wait until it obeys."""
        self.conductor.calls.clear()
        # Workers and desks outlive the agent, and keep its standard error.
        with (self._directory / "agent.log").open("a") as log:
            self.agent = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "fpgapool.cmd.agent",
                    "--config-file",
                    self._configure(outlive),
                ],
                cwd=test_command.ROOT,
                stderr=log,
            )
        self.conductor.wait_for("report", lambda one: True)
        # An order may be lost while a broker still notices that the agent
        # before this one is gone; conductors repeat theirs, tests do not.
        asked_s = -math.inf

        def obeys() -> bool:
            nonlocal asked_s
            if time.monotonic() >= asked_s + ASK_AGAIN_S:
                asked_s = time.monotonic()
                self.api.report_now(harness.HOST, 1)
            return any(
                one.leader_epoch == 1 for one in self.conductor.named("report")
            )

        waiting.wait_until(obeys, "the agent obeys")

    def kill(self) -> None:
        """Kill the agent; its workers and its desk go on."""
        self.agent.kill()
        self.agent.wait(harness.TIMEOUT_S)

    def keep(self, revision: int, **changes: object) -> None:
        order = test_groups.order(revision, **changes)
        self.api.keep_group(harness.HOST, 1, order)

    def join(self, generation: int, slot: int) -> None:
        self.api.assign(
            harness.HOST,
            1,
            objects.AssignRequest(
                host_uuid=harness.HOST,
                device="board0",
                slot=slot,
                session_id=test_groups.GROUP,
                generation=generation,
                project_id=harness.PROJECT,
                accelerator="copy",
                bitstream="builtin:copy",
                connect_timeout_s=0.0,
                resume_grace_s=0.0,
                claimed_bytes=0,
                local=True,
                group_id=test_groups.GROUP,
            ),
        )

    def release(self, generation: int, slot: int) -> None:
        self.api.release(
            harness.HOST,
            1,
            device="board0",
            slot=slot,
            session_id=test_groups.GROUP,
            generation=generation,
            reason="GROUP_RESIZED",
        )

    def close(self) -> None:
        """End all processes of the host."""
        if self.agent is not None:
            self.kill()
            self.start(outlive=False)
            self.agent.terminate()
            self.agent.wait(harness.TIMEOUT_S)
        self._server.stop()
        self._server.wait()
        rpc.cleanup()
        cfg.CONF.reset()


@pytest.fixture
def pool(directory: pathlib.Path, transport_url: str) -> Iterator[Pool]:
    made = Pool(directory, transport_url)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_the_agent_is_killed_while_tasks_run(pool):
    pool.keep(1)
    for slot in (0, 1):
        pool.join(7 + slot, slot)
    told = test_groups.group_report(pool, lambda one: one.endpoints)
    pool.keep(2, hosts=(test_groups.group_host(told, True),))
    for slot in (0, 1):
        pool.conductor.wait_for_slot(slot, test_groups.active)

    def restart() -> None:
        pool.kill()
        pool.start()

    with test_groups.open_group(pool) as opened:
        count = test_groups.run_tasks_during(opened, restart)
        again = test_groups.group_report(pool, lambda one: one.revision == 0)
        assert again.desk_boot_id == told.desk_boot_id
        pool.keep(2, hosts=(test_groups.group_host(told, True),))
        test_groups.group_report(pool, lambda one: one.revision == 2)
        pool.release(7, 0)
        assert test_groups.ended(pool, 0, 7) == "OK"
        assert opened.run(b"x", timeout_s=harness.TIMEOUT_S) == b"x"
    pool.release(8, 1)
    assert test_groups.ended(pool, 1, 8) == "OK"
    last = test_groups.group_report(
        pool, lambda one: one.clients and not one.endpoints
    )
    assert test_groups.counts_of(last).ended == count + 1
