# SPDX-License-Identifier: Apache-2.0

"""Where the workers of chains listen: known to hosts of the project alone."""

from __future__ import annotations

import pytest

from fpgapool import objects
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world

pytestmark = pytest.mark.security

HERE = {"address": "127.0.0.1", "port": 4007}


@pytest.fixture
def pool() -> world.Conductor:
    """Two hosts with a slot each; a session of the project is in host a."""
    agents = [world.FakeAgent("a", 1), world.FakeAgent("b", 1)]
    for agent in agents:
        agent.offer = objects.Offer(
            endpoints=(
                objects.Endpoint("local", "", 0),
                objects.Endpoint("data", "127.0.0.1", 4007),
            )
        )
    made = world.Conductor(agents)
    request_id = made.open("a")
    made.deliver_all()
    steps.ready_up(made)
    steps.activate(made)
    assert made.view(request_id).state == states.ACTIVE
    return made


def asked(pool: world.Conductor, **changes: object) -> list[dict[str, object]]:
    view = pool.view("r1")
    wanted = {
        "host_uuid": "a",
        "project_id": "p",
        "session_id": view.session_id,
        "generation": view.generation,
    }
    return pool.ask.stage_endpoints(**wanted | changes)


def test_a_host_of_the_project_learns_the_address(pool) -> None:
    assert asked(pool) == [HERE]


@pytest.mark.parametrize(
    "changes",
    [
        {"project_id": "q"},
        {"session_id": "other"},
        {"generation": 1},
        {"host_uuid": "b"},
        {"host_uuid": "c"},
    ],
)
def test_others_learn_nothing(pool, changes) -> None:
    assert asked(pool, **changes) == []


def test_a_session_without_slot_is_nowhere(pool) -> None:
    pool.end(states.CLOSED, "OK")
    assert pool.ask.stage_endpoints("a", "p", "s", 1) == []
