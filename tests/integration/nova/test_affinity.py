# SPDX-License-Identifier: Apache-2.0

"""Where a real Nova places instances that say something of accelerators."""

from __future__ import annotations

import collections
import pathlib
import typing
from collections.abc import Iterator
from collections.abc import Mapping

import pytest
import yaml
from openstack import exceptions

from fpgapool.accelerators import base as accelerators
from tests.harness import cloud as clouds
from tests.harness import waiting
from tests.integration import server as api_server
from tests.integration.nova import harness
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import nova as nova_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

# The first test waits for services that take their time.
#: Two hosts with boards; the first one cannot run what needs large slots.
HOSTS = (
    clouds.HostPlan(nova_service.compute_name(1), slots=2, shape="medium"),
    clouds.HostPlan(nova_service.compute_name(2), slots=2, shape="large"),
    clouds.HostPlan(nova_service.compute_name(3), slots=0),
    clouds.HostPlan(nova_service.compute_name(4), slots=0),
)
BOARDS = {1, 2}
OTHERS = {3, 4}
#: Two instances of this size fill a compute.
HALF_VCPUS = nova_service.VCPUS // 2
#: An accelerator that needs large slots.
WIDE = "wide"
PREFERRED = {"fpgapool:accelerators": "aes"}
REQUIRED = {
    "fpgapool:accelerators": WIDE,
    "fpgapool:affinity": "required",
}
AVOID = {"fpgapool:affinity": "avoid"}
SOFT = {"fpgapool:sla": "soft"}


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give an operator's directory of profiles."""
    directory = tmp_path_factory.mktemp("accelerators")
    profile = {
        "name": WIDE,
        "description": "Needs a large slot",
        "peak_bytes_per_s": 1e9,
        "return_ratio": 1,
        "stateless": True,
        "shapes": ["large"],
        "params_schema": {"type": "object", "additionalProperties": False},
        "core": "copy",
        "chunk_multiple_bytes": 1,
    }
    (directory / f"{WIDE}.yaml").write_text(yaml.safe_dump(profile))
    return directory


@pytest.fixture(scope="module")
def pool(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    profiles: pathlib.Path,
) -> Iterator[clouds.Cloud]:
    """Give a pool, with an agent on each of Nova's computes."""
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    made = clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        HOSTS,
    )
    for daemon in made.daemons():
        daemon.variables[accelerators.DIRECTORY_VARIABLE] = str(profiles)
    with made:
        for number, plan in enumerate(HOSTS, start=1):
            uuid = made.hosts[plan.name].uuid
            assert uuid == nova_service.provider_uuid(number)
        yield made


class Api(api_server.Server):
    """The pool's API, and what the scheduler gets from it."""

    def host(self, token: str, number: int) -> Mapping[str, typing.Any]:
        """Return what the snapshot says of a host."""
        answer = self.ask("GET", "/v1/pool/snapshot", token)
        uuid = nova_service.provider_uuid(number)
        hosts: Mapping[str, typing.Any] = answer.document["snapshot"]["hosts"]
        found: Mapping[str, typing.Any] = hosts[uuid]
        return found


@pytest.fixture(scope="module")
def api(
    pool: clouds.Cloud,
    service_workspace: process.Workspace,
    nova: nova_service.Nova,
    keystone: keystone_service.Keystone,
    accounts: openstack.Accounts,
    administrator: harness.Compute,
    image_id: str,
) -> Iterator[Api]:
    """Give the pool's API, running, and known to the scheduler."""
    served = Api(pool, service_workspace, keystone, "affinity-api")
    served.start()
    accounts.register_endpoint(f"http://{served.address}")
    wait_for_placement(administrator, image_id, REQUIRED, "ACTIVE")
    yield served
    served.kill()


@pytest.fixture
def admin_token(accounts: openstack.Accounts) -> str:
    """Give an administrator's token."""
    return accounts.token(accounts.admin()).text


def wait_for_placement(
    compute: harness.Compute,
    image_id: str,
    extra_specs: Mapping[str, str],
    status: str,
) -> None:
    """Boot servers until one becomes as it should."""
    flavor = compute.create_flavor(extra_specs)

    def boots() -> bool:
        server = compute.boot(flavor, image_id)
        compute.delete(server.id)
        return bool(server.status == status)

    waiting.wait_until(boots, f"a server is {status}", harness.LIMIT_S)


def place(
    compute: harness.Compute,
    image_id: str,
    count: int,
    extra_specs: Mapping[str, str] | None = None,
) -> collections.Counter[int]:
    """Boot servers of half a compute each, and count them on each."""
    flavor = compute.create_flavor(extra_specs, vcpus=HALF_VCPUS)
    servers = compute.boot_many(flavor, image_id, count)
    assert {server.status for server in servers} == {"ACTIVE"}
    return collections.Counter(map(harness.host_number, servers))


@pytest.mark.long
def test_preferred_fills_hosts_with_boards_first(
    api: Api, compute: harness.Compute, image_id: str
) -> None:
    assert place(compute, image_id, 4, PREFERRED) == {1: 2, 2: 2}
    assert set(place(compute, image_id, 1, PREFERRED)) < OTHERS


@pytest.mark.long
def test_others_leave_hosts_with_boards_free(
    api: Api, compute: harness.Compute, image_id: str
) -> None:
    assert place(compute, image_id, 4) == {3: 2, 4: 2}
    assert set(place(compute, image_id, 1)) < BOARDS


@pytest.mark.long
def test_avoid_never_goes_to_boards(
    api: Api,
    nova: nova_service.Nova,
    compute: harness.Compute,
    image_id: str,
) -> None:
    assert place(compute, image_id, 4, AVOID) == {3: 2, 4: 2}
    flavor = compute.create_flavor(AVOID, vcpus=HALF_VCPUS)
    server = compute.boot(flavor, image_id)
    harness.assert_no_valid_host(server)
    assert (
        f"FpgaAffinityFilter: 0 of 2 hosts pass for instance {server.id},"
        " whose flavor avoids boards" in nova.scheduler.log()
    )


@pytest.mark.long
def test_soft_goes_to_boards_when_all_other_hosts_are_full(
    api: Api, compute: harness.Compute, image_id: str
) -> None:
    assert place(compute, image_id, 4, SOFT) == {3: 2, 4: 2}
    assert set(place(compute, image_id, 1, SOFT)) < BOARDS


def test_required_goes_where_it_can(
    api: Api, compute: harness.Compute, image_id: str
) -> None:
    assert place(compute, image_id, 2, REQUIRED) == {2: 2}
    flavor = compute.create_flavor(REQUIRED, vcpus=HALF_VCPUS)
    harness.assert_no_valid_host(compute.boot(flavor, image_id))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("fpgapool:afinity", "required", "fpgapool:afinity"),
        ("fpgapool:affinity", "require", "preferred, required, avoid"),
        ("fpgapool:sla", "hard", "high, soft"),
        ("fpgapool:accelerators", "aes;fft", "aes;fft"),
        ("fpgapool:max_sessions", "0", "min value of '1'"),
    ],
)
def test_mistakes_in_flavors_are_refused(
    compute: harness.Compute, name: str, value: str, text: str
) -> None:
    with pytest.raises(exceptions.BadRequestException, match=text):
        compute.create_flavor({name: value})


@pytest.mark.long
def test_api_may_be_away(
    api: Api,
    nova: nova_service.Nova,
    compute: harness.Compute,
    image_id: str,
) -> None:
    flavor = compute.create_flavor(REQUIRED)
    api.kill()
    # What the API has said still counts …
    server = compute.boot(flavor, image_id)
    assert server.status == "ACTIVE"
    assert "its response of" in nova.scheduler.log()
    # … for a while.
    waiting.wait_until(
        lambda: compute.boot(flavor, image_id).status == "ERROR",
        "what the API has said does not count any more",
        harness.LIMIT_S,
    )
    refused = compute.boot(flavor, image_id)
    harness.assert_no_valid_host(refused)
    assert (
        f"refuses all 4 hosts for instance {refused.id}: its flavor requires"
        f" {WIDE}, and the hosts' boards are unknown: " in nova.scheduler.log()
    )
    preferred = compute.create_flavor(PREFERRED)
    assert compute.boot(preferred, image_id).status == "ACTIVE"
    assert compute.boot(compute.create_flavor(), image_id).status == "ACTIVE"
    api.start()
    wait_for_placement(compute, image_id, REQUIRED, "ACTIVE")


# The last one: it breaks a board.
@pytest.mark.long
def test_required_has_no_host_when_the_device_fails(
    api: Api,
    pool: clouds.Cloud,
    nova: nova_service.Nova,
    compute: harness.Compute,
    image_id: str,
    admin_token: str,
) -> None:
    directory = pool.hosts[HOSTS[1].name].agent.directory
    faults = directory / "faults.new"
    faults.write_text(yaml.safe_dump({"board0": {"dead": "on fire"}}))
    faults.rename(directory / "boards.faults.yaml")
    waiting.wait_until(
        lambda: not api.host(admin_token, 2)["slots"]["usable"],
        "the API knows that the device is out of order",
        harness.LIMIT_S,
    )
    wait_for_placement(compute, image_id, REQUIRED, "ERROR")
    server = compute.boot(compute.create_flavor(REQUIRED), image_id)
    harness.assert_no_valid_host(server)
    assert (
        f"0 of 4 hosts pass for instance {server.id}, whose flavor requires"
        f" {WIDE}" in nova.scheduler.log()
    )
    assert (
        f"Host {HOSTS[1].name} is refused: it has no usable slot for {WIDE}"
        in nova.scheduler.log()
    )
    assert place(compute, image_id, 2, PREFERRED) == {1: 2}
