# SPDX-License-Identifier: Apache-2.0

"""The fault matrix: clients."""

from __future__ import annotations

import signal

import pytest

from tests.functional.system import matrix
from tests.harness import cloud as clouds
from tests.harness import scene as scenes

# In the gate: test_clients.py, and tests/world.
pytestmark = pytest.mark.long

IDLE_S = CONNECT_S = RESUME_S = 5
PROGRAMMING_S = 2.0
LIMITS_S = {
    "": matrix.MARGIN_S,
    "[conductor] idle_timeout_s": IDLE_S + matrix.MARGIN_S,
    "[conductor] connect_timeout_s": 2 * CONNECT_S + matrix.MARGIN_S,
    "[conductor] resume_grace_s": RESUME_S + matrix.MARGIN_S,
}


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    # Nobody holds the spare slots: they would go to the one that waits.
    limits = {
        "idle_timeout_s": IDLE_S,
        "connect_timeout_s": CONNECT_S,
        "resume_grace_s": RESUME_S,
    }
    return make_cloud(
        clouds.HostPlan("board", slots=scenes.BOARD_SLOTS),
        clouds.HostPlan("compute", slots=0),
        options={"conductor": {**scenes.OPTIONS["conductor"], **limits}},
    )


def strike(scene: scenes.Scene, kind: str) -> None:
    """Have the fault happen to all programs of a scene at once."""
    for actor in scene.actors.values():
        match kind:
            case "kill":
                actor.kill()
            case "stop":
                actor.signal(signal.SIGSTOP)
            case "restart":
                actor.signal(signal.SIGTERM)


def recover(scene: scenes.Scene, kind: str) -> None:
    """Let programs go on that can."""
    for state, actor in list(scene.actors.items()):
        if kind == "stop":
            actor.signal(signal.SIGCONT)
        if kind == "restart":
            actor.terminate()
            # It repeats its request, and is told how that one ended.
            scene.actors[state] = again = actor.again()
            actor.close()
            again.say("open")


@pytest.fixture(scope="module")
def fates(cloud, request) -> dict[str, scenes.Fate]:
    """What becomes of the sessions when all clients have a fault."""
    kind = request.param
    with scenes.Scene(
        cloud, home="compute", programming_s=PROGRAMMING_S
    ) as scene:
        scene.strike(lambda: strike(scene, kind))
        assert scene.new_request() == matrix.fault("client", kind).opens
        scene.settle(matrix.cells("client", kind), LIMITS_S)
        recover(scene, kind)
        return scene.finish()


@pytest.mark.parametrize("state", matrix.STATES)
@pytest.mark.parametrize(
    "fates", matrix.KINDS, indirect=True, ids="client-{}".format
)
def test_fault(fates, state: str, request) -> None:
    kind = request.node.callspec.params["fates"]
    matrix.check(matrix.cells("client", kind)[state], fates[state])
