# SPDX-License-Identifier: Apache-2.0

"""What services log while all is well: nothing that warns."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool.common.messaging import signing
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import programs
from tests.services import process

WARNING = re.compile(
    r"^.*\b(?:WARNING|ERROR|CRITICAL|Traceback)\b.*$", re.MULTILINE
)
#: What this pool, and no real one, is warned of.
NO_KEYSTONE = "[api] auth_strategy is noauth"
#: True of a machine without cgroup v2, or where others use this cgroup.
NO_CGROUPS = "Workers and desks share limits"


@pytest.fixture(scope="module")
def cloud(make_cloud: Callable[..., clouds.Cloud]) -> clouds.Cloud:
    """Give a pool with one slot, so that projects take turns in it."""
    return make_cloud(clouds.HostPlan("board", slots=1))


@pytest.fixture
def api(
    cloud: clouds.Cloud, service_workspace: process.Workspace
) -> Iterator[api_harness.Server]:
    """Give the pool's API, which does not run yet."""
    server = api_harness.Server(
        f"{cloud.conductor.name}-api", cloud, service_workspace
    )
    yield server
    server.kill()


def _give_keys(conductor: processes.Daemon, board: clouds.Host) -> None:
    """Give the services keys, without which they warn when they start."""
    pool_key = conductor.directory / "pool.key"
    pool_key.write_text("ab" * signing.KEY_BYTES)
    keys = signing.read(str(pool_key), signing.CONTROL, "")
    assert keys is not None
    host_key = board.agent.directory / "host.key"
    host_key.write_text(keys.host_key(board.uuid))
    for daemon, line in (
        (conductor, f"pool_key_file = {pool_key}"),
        (board.agent, f"host_key_file = {host_key}"),
    ):
        with daemon.config_path.open("a") as file:
            file.write(f"\n[messages]\n{line}\n")


def test_start_sessions_and_stop_warn_of_nothing(
    cloud: clouds.Cloud, api: api_harness.Server
) -> None:
    conductor, board = cloud.conductor, cloud.hosts["board"]
    board.agent.stop()
    conductor.stop()
    _give_keys(conductor, board)
    # The order that operators are told: each finds what it needs.
    conductor.start()
    conductor.wait_for_log("leads")
    board.agent.start()
    cloud.wait_ready()
    api.start()
    for project_id in (clouds.PROJECT, clouds.OTHER_PROJECT) * 2:
        programs.Transfer(board.socket_path(project_id), b"abc").finish()
    assert api.is_led()
    services = (api, board.agent, conductor)
    for service in services:
        service.stop()
    warnings = [
        line
        for service in services
        for line in WARNING.findall(service.present_log())
        if NO_KEYSTONE not in line and NO_CGROUPS not in line
    ]
    assert warnings == []
