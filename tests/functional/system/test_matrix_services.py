# SPDX-License-Identifier: Apache-2.0

"""The fault matrix: the message broker and the database."""

from __future__ import annotations

import pytest

from tests.functional.system import matrix
from tests.harness import cloud as clouds
from tests.harness import outage
from tests.harness import scene as scenes

# In the gate: test_outages.py, db/test_failures.py, and tests/world.
pytestmark = pytest.mark.long

#: Components by the names of their fixtures.
SERVICES = {"rabbitmq": "RabbitMQ", "mariadb": "MariaDB"}
FAULTS = [(name, kind) for name in SERVICES for kind in matrix.KINDS]


def _id_of(fault: tuple[str, str]) -> str:
    return f"{SERVICES[fault[0]]}-{fault[1]}"


with_faults = pytest.mark.parametrize(
    "played", FAULTS, indirect=True, ids=_id_of
)


@pytest.fixture(scope="session")
def rabbitmq(own_rabbitmq):
    """Give the broker that tests here harm."""
    return own_rabbitmq


@pytest.fixture(scope="session")
def mariadb(own_mariadb):
    """Give the server that tests here harm."""
    return own_mariadb


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(*scenes.HOSTS, options=outage.OPTIONS)


@pytest.fixture(scope="module")
def played(cloud, request) -> outage.Outage:
    """What becomes of the sessions when a service has a fault."""
    name, kind = request.param
    service = request.getfixturevalue(name)
    ways = {
        "kill": service.kill,
        "stop": service.pause,
        "restart": service.stop,
    }
    return outage.play(
        cloud,
        matrix.cells(SERVICES[name], kind),
        outage.LIMITS_S,
        strike=ways[kind],
        recover=service.ensure_running,
        away_s=outage.AWAY_S[kind],
    )


@pytest.mark.parametrize("state", matrix.STATES)
@with_faults
def test_fault(played, state: str, request) -> None:
    name, kind = request.node.callspec.params["played"]
    cell = matrix.cells(SERVICES[name], kind)[state]
    matrix.check(cell, played.fates[state])


@with_faults
def test_new_requests(played, request) -> None:
    """Meanwhile a request is refused with a code, and soon."""
    name, kind = request.node.callspec.params["played"]
    outage.check_opens(played, matrix.fault(SERVICES[name], kind))
