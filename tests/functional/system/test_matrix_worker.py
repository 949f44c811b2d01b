# SPDX-License-Identifier: Apache-2.0

"""The fault matrix: workers."""

from __future__ import annotations

import os
import signal

import pytest

from tests.functional.system import matrix
from tests.harness import cloud as clouds
from tests.harness import scene as scenes

# In the gate: test_clients.py, agent/test_workers.py, and tests/world.
pytestmark = pytest.mark.long

TIMEOUT_S = 3
LIMITS_S = {
    "": matrix.MARGIN_S,
    "[agent] worker_timeout_s": TIMEOUT_S + matrix.MARGIN_S,
}
SIGNALS = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "restart": signal.SIGTERM,
}


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        *scenes.HOSTS,
        options={**scenes.OPTIONS, "agent": {"worker_timeout_s": TIMEOUT_S}},
    )


@pytest.fixture(scope="module")
def fates(cloud, request) -> dict[str, scenes.Fate]:
    """What becomes of the sessions when all their workers have a fault."""
    kind = request.param
    with scenes.Scene(cloud) as scene:

        def strike() -> None:
            for worker in scene.board.workers():
                os.kill(worker.pid, SIGNALS[kind])

        scene.strike(strike)
        assert scene.new_request() == matrix.fault("worker", kind).opens
        scene.settle(matrix.cells("worker", kind), LIMITS_S)
        return scene.finish()


@pytest.mark.parametrize("state", matrix.STATES)
@pytest.mark.parametrize(
    "fates", matrix.KINDS, indirect=True, ids="worker-{}".format
)
def test_fault(fates, state: str, request) -> None:
    kind = request.node.callspec.params["fates"]
    matrix.check(matrix.cells("worker", kind)[state], fates[state])
