# SPDX-License-Identifier: Apache-2.0

"""What Nova does with instances and computes, and what it means here.

Each row of the table in doc/source/install/instances.rst has its test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.db import api as db_api
from tests.harness import cloud as clouds
from tests.harness import waiting
from tests.integration.nova import harness
from tests.services import nova as nova_service
from tests.services import openstack

# The first test waits for services that take their time.
# In the gate: test_instances.py, test_placement.py and
# tests/unit/conductor/test_instances.py.
pytestmark = pytest.mark.long

#: One session that goes on, and one to ask with where it counts.
SPECS = {"fpgapool:accelerators": "aes", "fpgapool:max_sessions": "2"}
PIECE = bytes(range(256)) * 16
KNOWN, DELETED, NONE = (
    db_api.ComputeState.KNOWN.value,
    db_api.ComputeState.DELETED.value,
    db_api.ComputeState.NONE.value,
)


class Tenant:
    """An instance with a session that goes on whatever happens to it.

    :param guest: what it may ask for.
    :param compute: with which its life is changed.
    """

    def __init__(
        self, guest: harness.Guest, api: harness.Api, compute: harness.Compute
    ) -> None:
        self._api = api
        self._compute = compute
        self._guest = guest
        self._sent = b""
        self.token = guest.token
        self.server = guest.server
        self._session = client.acc_open("aes", 1_000_000, params=harness.AES)

    def use(self) -> None:
        """Check that its session goes on, and where it stopped."""
        self._session.pin[: len(PIECE)] = PIECE
        output = bytes(self._session.run(len(PIECE)))
        before, self._sent = self._sent, self._sent + PIECE
        assert output == harness.encrypted(self._sent)[len(before) :]
        assert self._session.reopens == 0

    def close(self) -> None:
        """End its session."""
        self._session.close()

    def has_room(self) -> bool:
        """Tell whether it may have one more session."""
        answer = self._api.open(self.token)
        if answer.status == 202:
            self._api.close(answer.session["id"], self.token)
            return True
        assert (answer.status, answer.code) == (429, "INSTANCE_SESSION_LIMIT")
        return False

    def counts_as_from(self) -> str | None:
        """Open one more session, and return from where it seems to be."""
        session = self._api.open(self.token).session
        self._api.close(session["id"], self.token)
        host: str | None = session["host"]
        return host

    def settle(self, *statuses: str) -> None:
        """Wait for a state of it, and until the pool knows where it is."""
        self.server = self._compute.wait_status(self.server.id, *statuses)
        self.arrive()

    def move(self) -> None:
        """Wait until it is elsewhere, and the pool knows that."""
        self.server = self._compute.wait_moved(self.server)
        self.arrive()

    def leave(self) -> None:
        """Wait until it is nowhere, and the pool knows that."""
        self.server = self._compute.wait_nowhere(self.server)
        self.arrive()

    def arrive(self) -> None:
        """Wait until the pool knows where it is, and use the session."""
        expected = (
            harness.provider_of(self.server)
            if self.server.compute_host
            else None
        )
        waiting.wait_until(
            lambda: self.counts_as_from() == expected,
            f"the pool knows that {self.server.id} is on {expected}",
            harness.LIMIT_S,
        )
        self.use()
        # Whatever it is told anew is the same.
        assert self._guest.token == self.token


@pytest.fixture
def boot(
    api: harness.Api,
    compute: harness.Compute,
    image_id: str,
    inside: harness.Enter,
) -> Iterator[Callable[[], Tenant]]:
    """Give a function that boots an instance with a session."""
    with contextlib.ExitStack() as booted:

        def boot_one() -> Tenant:
            server = compute.boot(compute.create_flavor(SPECS), image_id)
            assert server.status == "ACTIVE", server.fault
            tenant = Tenant(inside(server), api, compute)
            booted.callback(tenant.close)
            tenant.arrive()
            return tenant

        yield boot_one


def test_what_happens_on_its_host_changes_nothing(
    boot: Callable[[], Tenant], compute: harness.Compute, image_id: str
) -> None:
    tenant = boot()
    before = tenant.server.compute_host
    actions = compute.connection.compute
    server_id = tenant.server.id
    for act, status in (
        (actions.stop_server, "SHUTOFF"),
        (actions.start_server, "ACTIVE"),
        (actions.suspend_server, "SUSPENDED"),
        (actions.resume_server, "ACTIVE"),
        (actions.pause_server, "PAUSED"),
        (actions.unpause_server, "ACTIVE"),
        (actions.rescue_server, "RESCUE"),
        (actions.unrescue_server, "ACTIVE"),
    ):
        act(server_id)
        tenant.settle(status)
    actions.rebuild_server(server_id, image_id)
    tenant.settle("ACTIVE")
    assert tenant.server.compute_host == before


def test_shelved_and_offloaded_it_is_nowhere(
    boot: Callable[[], Tenant], compute: harness.Compute
) -> None:
    tenant = boot()
    actions = compute.connection.compute
    actions.shelve_server(tenant.server.id)
    tenant.settle("SHELVED")
    assert tenant.server.compute_host
    actions.shelve_offload_server(tenant.server.id)
    tenant.leave()
    actions.unshelve_server(tenant.server.id)
    tenant.settle("ACTIVE")
    assert tenant.server.compute_host


def test_resize_brings_the_limit_of_the_new_flavor(
    boot: Callable[[], Tenant], api: harness.Api, compute: harness.Compute
) -> None:
    tenant = boot()
    actions = compute.connection.compute
    small = compute.create_flavor({**SPECS, "fpgapool:max_sessions": "1"})
    before = tenant.server
    actions.resize_server(before.id, small.id)
    moved = compute.wait_status(before.id, "VERIFY_RESIZE")
    assert moved.compute_host != before.compute_host
    waiting.wait_until(
        lambda: not tenant.has_room(),
        "the limit of the new flavor counts",
        harness.LIMIT_S,
    )
    # What it has already is not taken away.
    tenant.use()
    actions.revert_server_resize(before.id)
    compute.wait_status(before.id, "ACTIVE")
    waiting.wait_until(
        tenant.has_room,
        "the old flavor, which has no limit, counts again",
        harness.LIMIT_S,
    )
    tenant.settle("ACTIVE")
    assert tenant.server.compute_host == before.compute_host
    large = compute.create_flavor({**SPECS, "fpgapool:max_sessions": "3"})
    actions.resize_server(before.id, large.id)
    tenant.settle("VERIFY_RESIZE")
    actions.confirm_server_resize(before.id)
    tenant.settle("ACTIVE")
    assert tenant.server.compute_host != before.compute_host
    for _ in range(2):
        assert tenant.has_room()
        api.open(tenant.token)
    assert not tenant.has_room()


def test_wherever_it_migrates_the_next_session_counts_from_there(
    boot: Callable[[], Tenant],
    compute: harness.Compute,
    nova: nova_service.Nova,
) -> None:
    tenant = boot()
    actions = compute.connection.compute
    been_at = {harness.host_number(tenant.server)}
    actions.migrate_server(tenant.server.id)
    tenant.move()
    actions.confirm_server_resize(tenant.server.id)
    tenant.settle("ACTIVE")
    been_at.add(harness.host_number(tenant.server))
    actions.live_migrate_server(tenant.server.id)
    tenant.move()
    last = harness.host_number(tenant.server)
    # The fake driver remembers what has migrated away from it.
    fresh = min({1, 2, 3, 4} - been_at - {last})
    with compute.lost(nova, last):
        actions.evacuate_server(
            tenant.server.id, host=nova_service.compute_name(fresh)
        )
        tenant.move()
    assert harness.host_number(tenant.server) == fresh


def test_soft_deleted_it_can_come_back(
    boot: Callable[[], Tenant],
    compute: harness.Compute,
    nova: nova_service.Nova,
    accounts: openstack.Accounts,
) -> None:
    tenant = boot()
    patient = nova.other_api(
        "nova-patient", {"DEFAULT": {"reclaim_instance_interval": 3600}}
    )
    patient.start()
    token = accounts.token(accounts.admin())
    answer = openstack.web_session().delete(
        f"{patient.base_url}/v2.1/servers/{tenant.server.id}",
        headers=token.headers(),
        timeout=harness.LIMIT_S,
    )
    assert answer.status_code == 204
    patient.kill()
    tenant.settle("SOFT_DELETED")
    compute.connection.compute.restore_server(tenant.server.id)
    tenant.settle("ACTIVE")


def computes(pool: clouds.Cloud) -> dict[str, str]:
    """Return what the pool holds that Nova has of each host."""
    return {host.name: host.compute_state for host in pool.snapshot().hosts}


def wait_for_computes(
    pool: clouds.Cloud, expected: dict[str, str | None]
) -> None:
    """Wait until the pool knows what Nova has of hosts; None: no such host."""

    def is_known() -> bool:
        found = computes(pool)
        return {name: found.get(name) for name in expected} == expected

    waiting.wait_until(
        is_known,
        lambda: f"{expected}; it is {computes(pool)}",
        harness.LIMIT_S,
    )


@pytest.fixture
def known(pool: clouds.Cloud, nova: nova_service.Nova) -> Iterator[None]:
    """See to it that the pool knows Nova's computes, and has all its hosts."""
    names = map(nova_service.compute_name, range(1, 1 + nova_service.COMPUTES))
    expected = {"network1": NONE, **dict.fromkeys(names, KNOWN)}
    wait_for_computes(pool, expected)
    yield
    nova.ensure_running()
    for daemon in pool.daemons():
        daemon.start()
    wait_for_computes(pool, expected)
    pool.wait_ready()


def test_hosts_of_deleted_compute_services_are_forgotten(
    known: None,
    pool: clouds.Cloud,
    compute: harness.Compute,
    nova: nova_service.Nova,
) -> None:
    # While a conductor runs. An agent still does, at first.
    compute.delete_service(nova, 4)
    wait_for_computes(pool, {"compute4": DELETED})
    pool.hosts["compute4"].agent.kill()
    wait_for_computes(pool, {"compute4": None})
    # While none does.
    pool.conductor.kill()
    pool.hosts["compute3"].agent.kill()
    pool.hosts["network1"].agent.kill()
    compute.delete_service(nova, 3)
    compute.delete_service(nova, 2)
    pool.conductor.start()
    wait_for_computes(pool, {"compute3": None})
    # One with boards stays, as does one that never was Nova's.
    assert computes(pool) == {
        "compute1": KNOWN,
        "compute2": DELETED,
        "network1": NONE,
    }
    uuid = nova_service.provider_uuid(2)
    assert (
        f"Nova has deleted compute node {uuid}, but host compute2"
        in pool.conductor.present_log()
    )


def test_a_cell_that_is_away_takes_nothing_with_it(
    known: None,
    boot: Callable[[], Tenant],
    pool: clouds.Cloud,
    nova: nova_service.Nova,
) -> None:
    tenant = boot()
    # Nothing but Nova speaks for this host.
    pool.hosts["compute3"].agent.kill()
    pool.conductor.kill()
    with nova.cell_away():
        pool.conductor.start()
        pool.conductor.wait_for_log("Cannot get instances from Nova: ")
        uuid = nova_service.provider_uuid(3)
        pool.conductor.wait_for_log(f"Host compute3 ({uuid}) has not reported")
        tenant.use()
    pool.conductor.wait_for_log("Nova is available again")
    assert computes(pool)["compute3"] == KNOWN
    tenant.arrive()
