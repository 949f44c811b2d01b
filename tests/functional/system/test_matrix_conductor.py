# SPDX-License-Identifier: Apache-2.0

"""The fault matrix: the conductor that leads, alone and with a stand-by."""

from __future__ import annotations

import pytest

from tests.functional.system import matrix
from tests.harness import cloud as clouds
from tests.harness import outage
from tests.harness import processes
from tests.harness import scene as scenes

# In the gate: test_conductors.py, test_restarts.py, and tests/world.
pytestmark = pytest.mark.long

COMPONENT = "conductor"
# Kind of the fault, and whether there is another conductor.
FAULTS = [
    *((kind, False) for kind in matrix.KINDS),
    ("kill", True),
    ("stop", True),
]


def name(fault: tuple[str, bool]) -> str:
    """Return the name of a case; that of the table is the one alone."""
    kind, standby = fault
    return f"{COMPONENT}-{kind}" + "-standby" * standby


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(*scenes.HOSTS, options=outage.OPTIONS, conductors=2)


def strike(kind: str, leader: processes.Daemon) -> None:
    """Have the fault happen."""
    ways = {
        "kill": leader.kill,
        "stop": leader.pause,
        "restart": leader.stop,
    }
    ways[kind]()


@pytest.fixture(scope="module")
def played(cloud, request) -> outage.Outage:
    """What becomes of the sessions when their conductor has a fault."""
    kind, has_standby = request.param
    leader, standby = sorted(
        cloud.conductors, key=lambda one: one.name != cloud.lease_holder()
    )

    def begin() -> None:
        if not has_standby:
            standby.stop()
        strike(kind, leader)

    def end() -> None:
        # The leader first: it shall not be replaced after all.
        for conductor in (leader, standby):
            conductor.ensure_running()

    return outage.play(
        cloud,
        matrix.cells(COMPONENT, kind),
        outage.LIMITS_S,
        strike=begin,
        recover=end,
        away_s=outage.AWAY_S[kind],
    )


@pytest.mark.parametrize("state", matrix.STATES)
@pytest.mark.parametrize("played", FAULTS, indirect=True, ids=name)
def test_fault(played, state: str, request) -> None:
    kind, _ = request.node.callspec.params["played"]
    matrix.check(matrix.cells(COMPONENT, kind)[state], played.fates[state])


@pytest.mark.parametrize("played", FAULTS, indirect=True, ids=name)
def test_new_requests(played, request) -> None:
    """A request waits for the next leader, or is refused with a code."""
    kind, has_standby = request.node.callspec.params["played"]
    if has_standby:
        # One that waits for longer than it may would be refused.
        assert played.opens == ""
    else:
        outage.check_opens(played, matrix.fault(COMPONENT, kind))
