# SPDX-License-Identifier: Apache-2.0

"""Many instances that are booted at once."""

from __future__ import annotations

import collections
import concurrent.futures
import time
from collections.abc import Iterable

import pytest

from tests.harness import waiting
from tests.integration.nova import harness
from tests.services import nova as nova_service
from tests.services import openstack

# The first test waits for services that take their time.
# In the gate: test_affinity.py and test_placement.py, one at a time.
pytestmark = pytest.mark.long

SPECS = {"fpgapool:accelerators": "aes"}
BOARDS = (1, 2)
#: So many instances fill a compute.
PLACES = 5
VCPUS = nova_service.VCPUS // PLACES
#: For each request, as many as the other calls leave room for.
PER_CALL = 2
CALLS = 8
#: More than what is left.
LATE_CALLS = 4


def places(compute: harness.Compute, number: int) -> int:
    """Return how many instances a compute has room for, by Placement."""
    provider = nova_service.provider_uuid(number)
    inventory = compute.connection.placement.get(
        f"/resource_providers/{provider}/inventories/VCPU"
    ).json()
    room = inventory["total"] * inventory["allocation_ratio"]
    return int(room - inventory["reserved"]) // VCPUS


def vcpus_by_provider(
    compute: harness.Compute, servers: Iterable[harness.Server]
) -> collections.Counter[str]:
    """Return what servers have of each provider, by Placement."""
    found: collections.Counter[str] = collections.Counter()
    for server in servers:
        ((provider, resources),) = harness.allocations(
            compute.connection, server.id
        )
        assert provider == harness.provider_of(server)
        found[provider] += resources["VCPU"]
    return found


def test_all_are_placed_near_boards_while_there_is_room(
    nova: nova_service.Nova,
    accounts: openstack.Accounts,
    api: harness.Api,
    metadata: openstack.WsgiService,
    compute: harness.Compute,
    image_id: str,
) -> None:
    accounts.register_endpoint(f"http://{api.address}")
    required = compute.create_flavor(
        {**SPECS, "fpgapool:affinity": "required"}
    )

    def found() -> bool:
        server = compute.boot(required, image_id)
        compute.delete(server.id)
        return bool(server.status == "ACTIVE")

    waiting.wait_until(found, "the scheduler asks this API", harness.LIMIT_S)
    flavor = compute.create_flavor(SPECS, vcpus=VCPUS)
    asked, began_s = api.snapshots, time.monotonic()
    first = compute.boot_at_once(flavor, image_id, CALLS, PER_CALL)
    asked, took_s = api.snapshots - asked, time.monotonic() - began_s
    assert {server.status for server in first} == {"ACTIVE"}
    hosts = collections.Counter(map(harness.host_number, first))
    room = {
        number: places(compute, number)
        for number in range(1, 1 + nova_service.COMPUTES)
    }
    assert {number: hosts[number] for number in BOARDS} == {
        number: room[number] for number in BOARDS
    }
    # Once in a while, not for each of them.
    assert 1 <= asked <= 1 + took_s / nova_service.SNAPSHOT_TTL_S
    # Those for whom there is no room are told so.
    late = compute.boot_at_once(flavor, image_id, LATE_CALLS, PER_CALL)
    active = [one for one in first + late if one.status == "ACTIVE"]
    for server in late:
        if server.status != "ACTIVE":
            harness.assert_no_valid_host(server)
    assert len(active) <= sum(room.values())
    vcpus = vcpus_by_provider(compute, active)
    assert vcpus.total() == len(active) * VCPUS

    def token(server: harness.Server) -> str:
        return harness.Guest(nova, metadata, server).token

    with concurrent.futures.ThreadPoolExecutor() as pool:
        tokens = list(pool.map(token, active))
    assert len(set(tokens)) == len(active)
    for server, own in zip(active, tokens, strict=True):
        assert token(server) == own
    admin = accounts.token(accounts.admin()).text
    listed = api.ask("GET", "/v1/instances", admin).document["instances"]
    counted = collections.Counter(one["id"] for one in listed)
    assert {counted[server.id] for server in active} == {1}
