# SPDX-License-Identifier: Apache-2.0

"""Limits of projects from a real Keystone's unified limits."""

from __future__ import annotations

import sys
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

SLOTS = 4
DEFAULT_SESSIONS = 1
OWN_SESSIONS = 2
CONFIGURED_SESSIONS = 3


class Limits:
    """The limits that an administrator sets in Keystone."""

    def __init__(self, admin: connections.Connection, project_id: str) -> None:
        self._identity = admin.identity
        (self._service,) = self._identity.services(type="fpgapool")
        self._project_id = project_id
        self._own: str | None = None

    def register(self, **defaults: int) -> None:
        """Register defaults, by resource."""
        for resource, default in defaults.items():
            self._identity.create_registered_limit(
                service_id=self._service.id,
                region_id=openstack.REGION,
                resource_name=resource,
                default_limit=default,
            )

    def set_sessions(self, limit: int) -> None:
        """Limit the sessions of the project."""
        if self._own is None:
            self._own = self._identity.create_limit(
                service_id=self._service.id,
                region_id=openstack.REGION,
                project_id=self._project_id,
                resource_name="sessions",
                resource_limit=limit,
            ).id
        else:
            self._identity.update_limit(self._own, resource_limit=limit)


@pytest.fixture(scope="module")
def project_id(personas: openstack.Personas) -> str:
    """Give the project that has a limit of its own."""
    return personas.member.project.id


@pytest.fixture(scope="module")
def limits(
    accounts: openstack.Accounts,
    admin: connections.Connection,
    project_id: str,
) -> Limits:
    """Give the limits, which are registered."""
    (service,) = admin.identity.services(type=openstack.SERVICE_TYPE)
    if not list(admin.identity.endpoints(service_id=service.id)):
        # The catalog has to have one; nobody goes there.
        accounts.register_endpoint("http://127.0.0.1:9")
    made = Limits(admin, project_id)
    made.register(sessions=DEFAULT_SESSIONS, queued_bytes=-1)
    made.set_sessions(OWN_SESSIONS)
    return made


@pytest.fixture(scope="module")
def options(system_reader: Mapping[str, str]) -> clouds.Options:
    """Give the configuration of a conductor that follows Keystone."""
    return {
        "quota": {
            "driver": "unified",
            "sessions": CONFIGURED_SESSIONS,
            "refresh_interval_s": 1,
        },
        "oslo_limit": {
            "endpoint_region_name": openstack.REGION,
            **system_reader,
        },
    }


@pytest.fixture(scope="module")
def limited(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    limits: Limits,
    options: clouds.Options,
) -> Iterator[clouds.Cloud]:
    """Give a pool whose conductor follows Keystone."""
    with clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        [clouds.HostPlan("board", slots=SLOTS)],
        options=options,
    ) as pool:
        yield pool


@pytest.fixture(scope="module")
def front(
    limited: clouds.Cloud, service_workspace: process.Workspace
) -> Iterator[harness.Server]:
    """Give the pool's API; who somebody is, it takes from the token."""
    served = harness.Server("limits-api", limited, service_workspace)
    served.start()
    yield served
    served.kill()
    # Shown if a test has failed.
    for name, text in limited.logs():
        print(f"{name}:\n{text}", file=sys.stderr)  # noqa: T201


def limit_of(
    front: harness.Server, project_id: str, resource: str = "sessions"
) -> tuple[int, str]:
    path = f"/v1/quotas/{project_id}"
    answer = front.ask("GET", path, harness.ADMIN_TOKEN)
    assert answer.status == 200
    found = answer.document["quota"][resource]
    return found["limit"], found["source"]


def await_limit(
    front: harness.Server, project_id: str, limit: int, source: str
) -> None:
    harness.wait_for(
        lambda: limit_of(front, project_id) == (limit, source),
        f"the limit is {limit}, from {source}",
    )


def test_the_conductor_takes_limits_from_keystone(
    front: harness.Server, project_id: str
) -> None:
    await_limit(front, project_id, OWN_SESSIONS, "keystone")
    assert limit_of(front, "other") == (DEFAULT_SESSIONS, "keystone")
    assert limit_of(front, "other", "queued_bytes") == (-1, "keystone")
    # Nobody has registered it.
    assert limit_of(front, "other", "queued") == (20_000, "default")


def test_they_are_what_counts(front: harness.Server, project_id: str) -> None:
    await_limit(front, project_id, OWN_SESSIONS, "keystone")
    token = f"eve:{project_id}"
    opened = [front.open(token).session["id"] for _ in range(OWN_SESSIONS + 1)]
    last = front.show(opened[-1], token).session
    assert [one["code"] for one in last["pending_reasons"]] == [
        "PROJECT_SESSION_LIMIT"
    ]
    own = front.ask("GET", "/v1/quotas", token).document["quota"]
    assert own["sessions"] == {
        "limit": OWN_SESSIONS,
        "in_use": OWN_SESSIONS,
        "source": "keystone",
    }
    for session_id in opened:
        assert front.close(session_id, token) == 204


def test_changes_take_effect(
    front: harness.Server, limits: Limits, project_id: str
) -> None:
    # Keystone 30 leaves a limit as it is that is to become 0.
    for limit in (OWN_SESSIONS + 1, -1, OWN_SESSIONS):
        limits.set_sessions(limit)
        await_limit(front, project_id, limit, "keystone")


@pytest.mark.long
def test_keystone_may_go_away(
    limited: clouds.Cloud,
    front: harness.Server,
    keystone: keystone_service.Keystone,
    limits: Limits,
    project_id: str,
) -> None:
    """The last limits stay; after a restart, those of the configuration."""
    await_limit(front, project_id, OWN_SESSIONS, "keystone")
    keystone.stop()
    try:
        harness.wait_for(
            lambda: "the previous ones still apply" in limited.conductor.log(),
            "the conductor notices",
        )
        assert limit_of(front, project_id) == (OWN_SESSIONS, "keystone")
        # Nobody who opens a session waits for Keystone.
        session = front.open_until_ready()
        assert front.close(session["id"]) == 204
        limited.conductor.kill()
        limited.conductor.start()
        limited.wait_ready()
        assert limit_of(front, project_id) == (CONFIGURED_SESSIONS, "default")
    finally:
        keystone.start()
    limits.set_sessions(OWN_SESSIONS + 1)
    await_limit(front, project_id, OWN_SESSIONS + 1, "keystone")
