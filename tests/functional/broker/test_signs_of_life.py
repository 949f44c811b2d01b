# SPDX-License-Identifier: Apache-2.0

"""Signs of life of another process, through RabbitMQ."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from fpgapool.common.messaging import rpc
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.rpcapi import conductor as conductor_api
from tests.harness import waiting
from tests.unit.conductor import pumps

#: A process of the API, as far as it shows that it lives.
PROCESS = """
import atexit, sys
from oslo_config import cfg
from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import conductor, pulse
cfg.CONF([], default_config_files=[])
rpc.init(url=sys.argv[1])
one = pulse.Pulse(conductor.ConductorAPI(), "fpgapool-api")
one.start()
atexit.register(one.stop)
sys.stdin.read()
"""


@pytest.fixture
def leader(transport_url: str) -> Iterator[conductor_rpc.ConductorManager]:
    cfg.CONF([], default_config_files=[])
    rpc.init(url=transport_url)
    made = conductor_rpc.ConductorManager(pumps.FakePump(), None, 1)
    server = rpc.get_server(conductor_api.TOPIC, "leader-1", [made])
    server.start()
    yield made
    server.stop()
    server.wait()
    rpc.cleanup()
    cfg.CONF.reset()


def test_a_process_is_known_until_it_ends(
    leader: conductor_rpc.ConductorManager, transport_url: str
) -> None:
    def known() -> list[str]:
        found = leader.services_now(None)["services"]
        return [one["name"] for one in found]

    command = [sys.executable, "-c", PROCESS, transport_url]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.kill)
        waiting.wait_until(known, "the process is known")
        assert known()[0].endswith(f":{process.pid}")
        process.communicate(timeout=waiting.LIMIT_S)
        assert process.returncode == 0
    waiting.wait_until(lambda: not known(), "it is forgotten")
