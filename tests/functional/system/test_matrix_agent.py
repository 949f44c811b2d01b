# SPDX-License-Identifier: Apache-2.0

"""The fault matrix: the agent of the host with both slots and clients."""

from __future__ import annotations

import pytest

from tests.functional.system import matrix
from tests.harness import cloud as clouds
from tests.harness import scene as scenes
from tests.harness import waiting

# In the gate: test_hosts.py, test_restarts.py, and tests/world.
pytestmark = pytest.mark.long

REPORT_TIMEOUT_S = 3
# An agent that is restarted is back within that time on any machine.
PATIENCE_S = 60
LIMITS_S = {
    "": matrix.MARGIN_S,
    "[conductor] report_timeout_s": REPORT_TIMEOUT_S + matrix.MARGIN_S,
}


@pytest.fixture(scope="module")
def make_matrix_cloud(make_cloud):
    """Give a function that returns a cloud of a patience."""
    made: dict[int, clouds.Cloud] = {}

    def get(report_timeout_s: int) -> clouds.Cloud:
        if report_timeout_s not in made:
            conductor = {
                **scenes.OPTIONS["conductor"],
                "report_timeout_s": report_timeout_s,
            }
            made[report_timeout_s] = make_cloud(
                *scenes.HOSTS, options={"conductor": conductor}
            )
        return made[report_timeout_s]

    return get


def play_loss(scene: scenes.Scene, kind: str) -> None:
    """Have the agent fall silent, and come back when its host is lost."""
    agent = scene.board.agent
    scene.strike(agent.kill if kind == "kill" else agent.pause)
    scene.settle(matrix.cells("agent", kind), LIMITS_S)
    # The data path is not the agent's business.
    scene.actors["ACTIVE"].wait_progress()
    # Its own programs have no other front door.
    assert scene.new_request(1.0) == matrix.fault("agent", kind).opens
    # Those who gave up their slots find others, before who came later.
    scene.free_spare()
    waiting.wait_until(
        lambda: (
            {scene.records()[state].state for state in ("PREPARING", "READY")}
            == {"READY"}
        ),
        "both are served by the other host",
    )
    assert scene.records()["QUEUED"].state == "QUEUED"
    agent.ensure_running()
    # Also the worker on the lost host has let go of them: a program that
    # still believes in its old slot is not let in there.
    scene.cloud.check_consistent(live=len(matrix.STATES))


def play_restart(scene: scenes.Scene) -> None:
    """Stop the agent in order, and start it again."""
    agent = scene.board.agent
    scene.strike(agent.stop)
    assert scene.new_request() == matrix.fault("agent", "restart").opens
    agent.start()
    scene.settle(matrix.cells("agent", "restart"), LIMITS_S)


@pytest.fixture(scope="module")
def fates(make_matrix_cloud, request) -> dict[str, scenes.Fate]:
    """What becomes of the sessions when their agent has a fault."""
    kind = request.param
    restarts = kind == "restart"
    cloud = make_matrix_cloud(PATIENCE_S if restarts else REPORT_TIMEOUT_S)
    with scenes.Scene(cloud) as scene:
        if restarts:
            play_restart(scene)
        else:
            play_loss(scene, kind)
        return scene.finish()


@pytest.mark.parametrize("state", matrix.STATES)
@pytest.mark.parametrize(
    "fates", matrix.KINDS, indirect=True, ids="agent-{}".format
)
def test_fault(fates, state: str, request) -> None:
    kind = request.node.callspec.params["fates"]
    matrix.check(matrix.cells("agent", kind)[state], fates[state])
