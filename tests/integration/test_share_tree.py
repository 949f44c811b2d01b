# SPDX-License-Identifier: Apache-2.0

"""Shares that follow a real Keystone's domains and projects."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from collections.abc import Mapping

import pytest
from openstack import connection as connections

from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

WEIGHT = 3


class Places:
    """A domain of an administrator, and projects in it.

    :ivar team: it has others below it.
    """

    def __init__(self, admin: connections.Connection) -> None:
        self._identity = admin.identity
        self.domain = self._identity.create_domain(name="shares").id
        self.team = self.create("team", self.domain)
        self.leaf = self.create("leaf", self.team)

    def create(self, name: str, parent_id: str) -> str:
        made = self._identity.create_project(
            name=name, domain_id=self.domain, parent_id=parent_id
        )
        return str(made.id)


@pytest.fixture(scope="module")
def places(admin: connections.Connection) -> Places:
    return Places(admin)


@pytest.fixture(scope="module")
def pool(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    places: Places,
    system_reader: Mapping[str, str],
) -> Iterator[clouds.Cloud]:
    """Give a pool whose conductor follows Keystone."""
    with clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        [clouds.HostPlan("board", slots=2)],
        options={
            "conductor": {
                "fair_share": True,
                "share_tree": "keystone",
                "project_weights": f"{places.team}:{WEIGHT}",
            },
            "keystone": {
                "refresh_interval_s": 1,
                "region_name": openstack.REGION,
                **system_reader,
            },
        },
    ) as made:
        yield made


@pytest.fixture(scope="module")
def front(
    pool: clouds.Cloud, service_workspace: process.Workspace
) -> Iterator[harness.Server]:
    """Give the pool's API; who somebody is, it takes from the token."""
    served = harness.Server("shares-api", pool, service_workspace)
    served.start()
    yield served
    served.kill()
    # Shown if a test has failed.
    for name, text in pool.logs():
        print(f"{name}:\n{text}", file=sys.stderr)  # noqa: T201


def path(front: harness.Server, project_id: str) -> typing.Any:
    answer = front.ask("GET", "/v1/share", f"eve:{project_id}")
    assert answer.status == 200
    return answer.document["share"]["path"]


def part(name: str | None, weight: float, weights: float) -> dict[str, object]:
    return {"id": name, "weight": weight, "weights": weights}


def await_path(
    front: harness.Server, project_id: str, *parts: dict[str, object]
) -> None:
    harness.wait_for(
        lambda: path(front, project_id) == list(parts),
        f"the path of {project_id} is {parts}",
    )


def test_the_path_is_that_of_keystone(
    front: harness.Server, places: Places
) -> None:
    above = part(places.team, WEIGHT, WEIGHT), part(places.domain, 1, 1)
    await_path(front, places.leaf, part(places.leaf, 1, 1), *above)
    # A project with others below it is one of them.
    await_path(front, places.team, part(places.team, 1, 1), *above)
    await_path(front, "x", part("x", 1, 1), part(None, 1, 1))


def test_those_that_have_slots_count(
    front: harness.Server, places: Places
) -> None:
    token = f"eve:{places.leaf}"
    session = front.open(token).session
    harness.wait_for(
        lambda: front.show(session["id"], token).session["state"] == "READY",
        "it has a slot",
    )
    await_path(
        front,
        places.team,
        part(places.team, 1, 2),
        part(places.team, WEIGHT, WEIGHT),
        part(places.domain, 1, 1),
    )
    await_path(front, "x", part("x", 1, 1), part(None, 1, 2))
    assert front.close(session["id"], token) == 204
    await_path(front, "x", part("x", 1, 1), part(None, 1, 1))


def test_changes_take_effect_and_the_last_tree_stays(
    front: harness.Server,
    pool: clouds.Cloud,
    places: Places,
    keystone: keystone_service.Keystone,
) -> None:
    new = places.create("new", places.domain)
    there = part(new, 1, 1), part(places.domain, 1, 1)
    await_path(front, new, *there)
    keystone.stop()
    try:
        harness.wait_for(
            lambda: "the previous ones still apply" in pool.conductor.log(),
            "the conductor notices",
        )
        assert path(front, new) == list(there)
        # Nobody who opens a session waits for Keystone.
        session = front.open_until_ready()
        assert front.close(session["id"]) == 204
    finally:
        keystone.start()
    harness.wait_for(
        lambda: "projects from Keystone again" in pool.conductor.log(),
        "the conductor notices",
    )
