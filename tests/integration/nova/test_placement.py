# SPDX-License-Identifier: Apache-2.0

"""What a real Placement knows of devices, and instances that reserve slots."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import typing
from collections.abc import Iterator
from collections.abc import Mapping

import pytest
import sqlalchemy as sa
import yaml

from fpgapool.conductor.outside import placement_plan
from fpgapool.db import engine as db_engine
from fpgapool.db import models
from fpgapool.objects import identity
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import placement as fake
from tests.harness import waiting
from tests.integration import server as api_server
from tests.integration.nova import harness
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import nova as nova_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

BOARD = "board0"
#: A host that Nova does not have, yet.
LATER = nova_service.COMPUTES + 1
HOSTS = (
    clouds.HostPlan(nova_service.compute_name(1), slots=2),
    clouds.HostPlan(nova_service.compute_name(2), slots=2),
    clouds.HostPlan(nova_service.compute_name(3), slots=0),
    clouds.HostPlan(nova_service.compute_name(4), slots=0),
    clouds.HostPlan("later", slots=1),
)
#: Slots of other hosts than the first one.
ELSEWHERE = sum(host.slots for host in HOSTS[1:])
AES = "CUSTOM_FPGAPOOL_AES"
# Nova has it on its compute nodes; a device has another owner.
_OWNER_NOVA = "OWNER_NOVA"
OWN = {"CUSTOM_FPGAPOOL_OWNED", "CUSTOM_FPGAPOOL_POOL_DEFAULT"}
#: With a token, to open sessions.
RESERVED = {**fake.RESERVED_NEAR, "fpgapool:accelerators": "aes"}
_MICROVERSION = "1.36"
_CLEAN_LIMIT_S = 60


def device(number: int) -> str:
    """Return the id of a host's device, which its provider has, too."""
    return identity.device_id(nova_service.provider_uuid(number), BOARD)


class Providers:
    """What Placement has, as an administrator sees it."""

    def __init__(self, connection: typing.Any) -> None:
        self._placement = connection.placement

    def get(self, path: str) -> typing.Any:
        """Return what there is; None: nothing."""
        answer = self._placement.get(
            path, microversion=_MICROVERSION, raise_exc=False
        )
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        return answer.json()

    def change(self, method: str, path: str, body: typing.Any = None) -> None:
        """Do what others do."""
        answer = self._placement.request(
            path, method, json=body, microversion=_MICROVERSION
        )
        assert answer.status_code < 300

    def traits(self, uuid: str) -> set[str]:
        """Return the traits of a provider, or none if there is no such."""
        found = self.get(f"/resource_providers/{uuid}/traits")
        return set(found["traits"]) if found else set()

    def add_trait(self, uuid: str, trait: str) -> None:
        """Mark a provider."""
        self.change("PUT", f"/traits/{trait}")
        path = f"/resource_providers/{uuid}/traits"
        body = self.get(path)
        self.change("PUT", path, {**body, "traits": [*body["traits"], trait]})

    def slots(self, uuid: str) -> tuple[int, int] | None:
        """Return how many slots there are, and how many nobody gets."""
        found = self.get(f"/resource_providers/{uuid}/inventories")
        one = (found or {"inventories": {}})["inventories"].get(
            placement_plan.SLOT
        )
        return None if one is None else (one["total"], one["reserved"])

    def consumers(self, uuid: str) -> set[str]:
        """Return who has something of a provider."""
        found = self.get(f"/resource_providers/{uuid}/allocations")
        return set(found["allocations"])

    def children(self, number: int) -> list[Mapping[str, typing.Any]]:
        """Return what is in a compute node."""
        root = nova_service.provider_uuid(number)
        found = self.get(f"/resource_providers?in_tree={root}")
        return [p for p in found["resource_providers"] if p["uuid"] != root]

    def wait_traits(self, number: int, *, there: bool = True) -> None:
        """Wait until a compute node can be found by its accelerators."""
        root = nova_service.provider_uuid(number)
        waiting.wait_until(
            lambda: (AES in self.traits(root)) == there,
            lambda: f"{AES} on {root}: {there}; {self.traits(root)}",
            harness.LIMIT_S,
        )

    def wait_slots(
        self, number: int, expected: tuple[int, int] | None
    ) -> None:
        """Wait until a device has an inventory."""
        waiting.wait_until(
            lambda: self.slots(device(number)) == expected,
            lambda: f"{expected}, not {self.slots(device(number))}",
            harness.LIMIT_S,
        )


@pytest.fixture(scope="module")
def providers(administrator: harness.Compute) -> Providers:
    """Give what Placement has."""
    return Providers(administrator.connection)


@pytest.fixture(scope="module")
def pool(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    nova: nova_service.Nova,
    keystone: keystone_service.Keystone,
    accounts: openstack.Accounts,
) -> Iterator[clouds.Cloud]:
    """Give a pool that keeps up its devices in Placement."""
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    client = {
        "auth_type": "password",
        **keystone.auth_options("fpgapool", openstack.SERVICE_PROJECT),
        "region_name": openstack.REGION,
        "valid_interfaces": "public",
    }
    made = clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        HOSTS,
        options={
            "nova": client,
            "placement": {
                **client,
                "sync_interval_s": 2,
                "allocation_interval_s": 0.5,
            },
            "vendordata": {
                "token_keys": "integration-tests-" * 3,
                # Other tests may use the machine, too.
                "lookup_timeout_s": 4,
            },
        },
    )
    with made:
        yield made
        made.conductor.kill()
        clean(made)
    # They remember providers for minutes, and build nothing without them. The
    # next test that asks for them has them started.
    for compute in nova.computes:
        compute.stop()


def clean(pool: clouds.Cloud) -> subprocess.CompletedProcess[str]:
    """Remove what the pool has in Placement."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "fpgapool.cmd.manage",
            "--config-file",
            str(pool.conductor.config_path),
            "placement",
            "clean",
        ],
        env=pool.conductor.environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=_CLEAN_LIMIT_S,
        check=False,
    )


class Api(api_server.Server):
    """The pool's API, and what operators and instances do with it."""

    admin_token: str
    nova_token: str

    def change_device(self, number: int, **wish: object) -> None:
        """Do what ``openstack fpga device set`` does."""
        path = f"/v1/devices/{device(number)}"
        answer = self.ask("PATCH", path, self.admin_token, wish)
        assert answer.status == 200, answer.document

    def device(self, number: int) -> Mapping[str, typing.Any]:
        path = f"/v1/devices/{device(number)}"
        found = self.ask("GET", path, self.admin_token).document["device"]
        return typing.cast("Mapping[str, typing.Any]", found)

    def wait_reserved(self, number: int, count: int) -> None:
        """Wait until the pool knows how many slots are reserved."""
        waiting.wait_until(
            lambda: self.device(number)["reserved_slots"] == count,
            lambda: f"{count} reserved of {self.device(number)}",
            harness.LIMIT_S,
        )

    def token_of(self, server: harness.Server) -> str:
        """Return what a guest finds in its metadata."""
        body = {
            "instance-id": server.id,
            "project-id": server.project_id,
            "hostname": server.name,
        }
        told = waiting.wait_until(
            # Nothing while Nova is slow.
            lambda: (
                self.ask(
                    "POST", "/v1/vendordata", self.nova_token, body
                ).document
            ),
            f"{server.id} is told something",
            harness.LIMIT_S,
        )
        return str(told["instance_token"])

    def wait_session(self, session_id: str, token: str, state: str) -> None:
        """Wait until a session is in a state."""

        def found() -> str:
            return str(self.show(session_id, token).session["state"])

        waiting.wait_until(
            lambda: found() == state, lambda: f"{state}, not {found()}"
        )


@pytest.fixture(scope="module")
def api(
    pool: clouds.Cloud,
    service_workspace: process.Workspace,
    keystone: keystone_service.Keystone,
    personas: openstack.Personas,
    accounts: openstack.Accounts,
) -> Iterator[Api]:
    """Give the pool's API."""
    served = Api(pool, service_workspace, keystone, "placement-api")
    served.admin_token = accounts.token(accounts.admin()).text
    served.nova_token = accounts.token(personas.nova).text
    served.start()
    yield served
    served.kill()


@pytest.fixture
def offered(api: Api, providers: Providers) -> Iterator[None]:
    """Offer one slot of the first device, and none of the second."""
    api.change_device(1, reservable_slots=1)
    providers.wait_slots(1, (1, 0))
    yield
    api.change_device(2, reservable_slots=0, state="enabled")
    waiting.wait_until(
        lambda: not providers.consumers(device(1)), "nothing is allocated"
    )
    api.wait_reserved(1, 0)
    api.change_device(1, reservable_slots=0)
    for number in (1, 2):
        providers.wait_slots(number, None)


def assert_as_it_should_be(providers: Providers, number: int) -> None:
    """Check that a device is there once, with its traits."""
    (child,) = providers.children(number)
    root = nova_service.provider_uuid(number)
    assert child["uuid"] == device(number)
    assert child["name"] == f"fpgapool_{root}_{BOARD}"
    assert child["parent_provider_uuid"] == root
    traits = providers.traits(child["uuid"])
    assert traits >= {*OWN, AES}
    assert providers.traits(root) >= traits - OWN
    assert _OWNER_NOVA not in traits


def test_devices_are_children_of_compute_nodes(
    pool: clouds.Cloud, providers: Providers
) -> None:
    for number in (1, 2):
        providers.wait_traits(number)
        assert_as_it_should_be(providers, number)
        root = nova_service.provider_uuid(number)
        assert _OWNER_NOVA in providers.traits(root)
        assert providers.slots(device(number)) is None
    for number in (3, 4):
        root = nova_service.provider_uuid(number)
        assert not any(
            trait.startswith(placement_plan.PREFIX)
            for trait in providers.traits(root)
        )
        assert not providers.children(number)


@pytest.mark.long
def test_a_flavor_finds_boards_by_a_trait(
    pool: clouds.Cloud,
    providers: Providers,
    compute: harness.Compute,
    image_id: str,
) -> None:
    for number in (1, 2):
        providers.wait_traits(number)
    flavor = compute.create_flavor(fake.NEAR)
    servers = compute.boot_many(flavor, image_id, 4)
    assert {harness.host_number(one) for one in servers} <= {1, 2}
    unknown = compute.create_flavor({"trait:HW_GPU_API_DXVA": "required"})
    harness.assert_no_valid_host(compute.boot(unknown, image_id))


@pytest.mark.long
def test_restarts_leave_one_provider_and_what_others_have_put_there(
    pool: clouds.Cloud,
    nova: nova_service.Nova,
    api: Api,
    providers: Providers,
    offered: None,
) -> None:
    root = nova_service.provider_uuid(1)
    providers.add_trait(root, "CUSTOM_RACK_7")
    # One that looks like ours, and is wrong.
    providers.add_trait(root, "CUSTOM_FPGAPOOL_NONSENSE")
    pool.conductor.kill()
    pool.conductor.start()
    host = pool.hosts[nova_service.compute_name(1)]
    host.agent.kill()
    nova.computes[0].stop()
    host.agent.start()
    nova.start()
    pool.wait_ready()
    waiting.wait_until(
        lambda: "CUSTOM_FPGAPOOL_NONSENSE" not in providers.traits(root),
        "the next conductor has looked",
        harness.LIMIT_S,
    )
    providers.wait_traits(1)
    assert_as_it_should_be(providers, 1)
    assert "CUSTOM_RACK_7" in providers.traits(root)
    assert providers.slots(device(1)) == (1, 0)


def test_an_instance_reserves_a_slot_for_its_life(
    api: Api,
    personas: openstack.Personas,
    accounts: openstack.Accounts,
    providers: Providers,
    compute: harness.Compute,
    image_id: str,
    offered: None,
) -> None:
    stranger = accounts.token(personas.stranger).text
    # So that there are two slots in all.
    api.change_device(2, state="disabled")
    flavor = compute.create_flavor(RESERVED)
    server = compute.boot(flavor, image_id)
    assert server.status == "ACTIVE", server.fault
    assert harness.host_number(server) == 1
    allocated = dict(harness.allocations(compute.connection, server.id))
    assert allocated[device(1)] == {placement_plan.SLOT: 1}
    harness.assert_no_valid_host(compute.boot(flavor, image_id))
    api.wait_reserved(1, 1)
    # Two slots of the first host, one of the host that Nova does not have.
    mine = [api.open(stranger).session["id"] for _ in range(3)]
    for session_id in mine[:2]:
        api.wait_session(session_id, stranger, "READY")
    assert api.show(mine[2], stranger).session["state"] == "QUEUED"
    token = api.token_of(server)
    own = api.open(token, accelerator="aes").session["id"]
    api.wait_session(own, token, "READY")
    assert api.show(mine[2], stranger).session["state"] == "QUEUED"
    compute.delete(server.id)
    api.wait_reserved(1, 0)
    api.wait_session(mine[2], stranger, "READY")
    for session_id in mine:
        api.close(session_id, stranger)
    api.change_device(2, state="enabled")
    providers.wait_traits(2)


@pytest.mark.long
def test_a_device_that_is_taken_out_is_offered_to_nobody(
    api: Api,
    providers: Providers,
    compute: harness.Compute,
    image_id: str,
    offered: None,
) -> None:
    api.change_device(1, state="disabled")
    providers.wait_slots(1, (1, 1))
    providers.wait_traits(1, there=False)
    assert providers.traits(device(1)) == OWN
    # Not only for want of a trait.
    flavor = compute.create_flavor(fake.RESERVED)
    harness.assert_no_valid_host(compute.boot(flavor, image_id))
    api.change_device(1, state="enabled")
    providers.wait_slots(1, (1, 0))
    providers.wait_traits(1)


@pytest.mark.long
def test_a_move_keeps_both_ends_until_it_is_confirmed(
    api: Api,
    providers: Providers,
    compute: harness.Compute,
    image_id: str,
    offered: None,
) -> None:
    server = compute.boot(compute.create_flavor(RESERVED), image_id)
    assert harness.host_number(server) == 1, server.fault
    api.wait_reserved(1, 1)
    api.change_device(2, reservable_slots=1)
    providers.wait_slots(2, (1, 0))
    compute.connection.compute.migrate_server(server.id)

    def status() -> str:
        found = compute.connection.compute.get_server(server.id)
        return str(found.status)

    waiting.wait_until(
        lambda: status() == "VERIFY_RESIZE", "it has moved", harness.LIMIT_S
    )
    api.wait_reserved(2, 1)
    # Where it was, its slot is its migration's.
    assert providers.consumers(device(2)) == {server.id}
    (migration_id,) = providers.consumers(device(1))
    assert migration_id != server.id
    slots = api.ask("GET", "/v1/slots", api.admin_token).document["slots"]
    assert [one["reserved_for"] for one in slots if one["reserved_for"]] == [
        server.id
    ] * 2
    compute.connection.compute.confirm_server_resize(server.id)
    waiting.wait_until(
        lambda: status() == "ACTIVE", "that is confirmed", harness.LIMIT_S
    )
    api.wait_reserved(1, 0)
    assert api.device(2)["reserved_slots"] == 1
    compute.delete(server.id)
    api.wait_reserved(2, 0)


@pytest.mark.long
def test_a_host_that_is_lost_is_found_by_nobody(
    pool: clouds.Cloud, providers: Providers, api: Api, offered: None
) -> None:
    agent = pool.hosts[nova_service.compute_name(1)].agent
    agent.kill()
    providers.wait_slots(1, (1, 1))
    providers.wait_traits(1, there=False)
    agent.start()
    providers.wait_slots(1, (1, 0))
    providers.wait_traits(1)
    assert_as_it_should_be(providers, 1)


@contextlib.contextmanager
def broken_board(pool: clouds.Cloud, number: int) -> Iterator[None]:
    """Let a compute node's board take no accelerator."""
    host = pool.hosts[nova_service.compute_name(number)]
    path = host.agent.directory / "boards.faults.yaml"
    fresh = path.with_suffix(".new")
    fresh.write_text(yaml.safe_dump({BOARD: {"programming": [0, 1]}}))
    fresh.rename(path)
    try:
        yield
    finally:
        path.unlink()


@pytest.mark.long
def test_an_accelerator_that_fails_is_not_found_by_its_trait(
    pool: clouds.Cloud, providers: Providers
) -> None:
    """Others are, and it is again when it has passed its test."""
    for number in (1, 2):
        providers.wait_traits(number)
    before = providers.traits(device(1))
    host = pool.hosts[nova_service.compute_name(1)]
    with host.door() as door:
        with broken_board(pool, 1):
            # Two more than there are slots elsewhere: these try both slots.
            asked = [door.open("aes") for _ in range(ELSEWHERE + 2)]
            providers.wait_traits(1, there=False)
            waiting.wait_until(
                lambda: providers.traits(device(1)) == before - {AES},
                lambda: f"all but {AES}: {providers.traits(device(1))}",
                harness.LIMIT_S,
            )
            assert AES in providers.traits(device(2))
        providers.wait_traits(1)
        assert_as_it_should_be(providers, 1)
        for request_id in asked:
            # Nobody has connected to those that were served.
            with contextlib.suppress(doors.Refused):
                door.request("cancel", request_id=request_id)


@pytest.mark.long
def test_a_compute_node_may_come_later_and_its_host_may_go(
    pool: clouds.Cloud, providers: Providers
) -> None:
    root = nova_service.provider_uuid(LATER)
    pool.conductor.wait_for_log(
        f"compute node {root} has no resource provider yet"
    )
    body = {"name": "later", "uuid": root}
    providers.change("POST", "/resource_providers", body)
    providers.wait_traits(LATER)
    assert_as_it_should_be(providers, LATER)
    # Its host is known no more.
    pool.hosts["later"].agent.kill()
    pool.conductor.kill()
    forget_host(pool, root)
    pool.conductor.start()
    waiting.wait_until(
        lambda: not providers.children(LATER), "it is gone", harness.LIMIT_S
    )
    assert not providers.traits(root)
    providers.change("DELETE", f"/resource_providers/{root}")
    assert_as_it_should_be(providers, 2)


def forget_host(pool: clouds.Cloud, host_uuid: str) -> None:
    """Remove a host with all that is in it from the database."""
    engine = db_engine.create(pool.database_url)
    hosts, devices, slots = models.hosts, models.devices, models.slots
    with engine.begin() as connection:
        host_id = connection.scalar(
            sa.select(hosts.c.id).where(hosts.c.uuid == host_uuid)
        )
        own = sa.select(devices.c.id).where(devices.c.host_id == host_id)
        device_ids = connection.scalars(own).all()
        for query in (
            sa.delete(slots).where(slots.c.device_id.in_(device_ids)),
            sa.delete(devices).where(devices.c.id.in_(device_ids)),
            sa.delete(hosts).where(hosts.c.id == host_id),
        ):
            connection.execute(query)
    engine.dispose()


# The last one: nothing of the pool is left.
@pytest.mark.long
def test_what_the_pool_has_can_be_removed(
    pool: clouds.Cloud, providers: Providers
) -> None:
    pool.conductor.kill()
    done = clean(pool)
    assert (done.returncode, done.stdout) == (
        0,
        "2 resource providers removed.\n",
    )
    for number in (1, 2):
        root = nova_service.provider_uuid(number)
        assert not providers.children(number)
        assert not any(
            trait.startswith(placement_plan.PREFIX)
            for trait in providers.traits(root)
        )
    assert clean(pool).stdout == "0 resource providers removed.\n"
