# SPDX-License-Identifier: Apache-2.0

"""All services of one process tell their metrics apart."""

from __future__ import annotations

import json
import pathlib
import urllib.request

import pytest

from tests.functional.allinone import harness as allinone
from tests.functional.metrics import harness
from tests.services import process

# In the gate: test_metrics.py and tests/unit/common/test_metrics.py.
pytestmark = pytest.mark.long


def test_agents_of_one_process_do_not_mix(tmp_path: pathlib.Path) -> None:
    names = ("conductor_port", "agent_port", "api_port")
    ports = {name: process.free_port() for name in names}
    config = tmp_path / "metrics.conf"
    lines = [f"{name} = {port}" for name, port in ports.items()]
    config.write_text("\n".join(["[metrics]", *lines, ""]))
    with allinone.short_directory() as run_dir:
        pool = allinone.Pool(
            run_dir,
            *allinone.SMALL,
            "--api-port=0",
            f"--config-file={config}",
        )
        try:
            url = pool.wait_until_ready()["api_url"]
            with urllib.request.urlopen(
                f"{url}/v1/pool", timeout=harness.TIMEOUT_S
            ) as response:
                hosts = json.load(response)["pool"]["hosts"]
            _check(ports, {host["name"]: _slots(host) for host in hosts})
        finally:
            pool.close()


def _slots(host: dict) -> int:
    return sum(len(device["slots"]) for device in host["devices"])


def _check(ports: dict[str, int], slots: dict[str, int]) -> None:
    assert len(slots) > 1
    conductor = harness.read(ports["conductor_port"])
    assert conductor.value("fpgapool_conductor_slots") == sum(slots.values())
    agents = harness.read(ports["agent_port"])
    for host, count in slots.items():
        assert agents.value("fpgapool_agent_state_known", host=host) == 1
        assert agents.value("fpgapool_agent_slots", host=host) == count
        started = "fpgapool_agent_workers_started_total"
        assert agents.value(started, host=host) == count
    api = harness.read(ports["api_port"])
    pool = {"route": "/v1/pool", "status": "200"}
    assert api.value("fpgapool_api_requests_total", **pool) == 1
