# SPDX-License-Identifier: Apache-2.0

"""Nova and its neighbours work, before anything of fpgapool is looked at."""

from __future__ import annotations

import pytest
import requests

from tests.integration.nova import harness
from tests.services import nova as nova_service

# The first test waits for services that take their time.
# In the gate: test_instances.py, which needs all of it.
pytestmark = pytest.mark.long


def test_server_boots_and_is_deleted(
    compute: harness.Compute, image_id: str
) -> None:
    server = compute.boot(compute.create_flavor(), image_id)
    assert server.status == "ACTIVE", server.fault
    allocated = dict(harness.allocations(compute.connection, server.id))
    assert allocated == {
        harness.provider_of(server): {"VCPU": 1, "MEMORY_MB": 64}
    }
    compute.delete(server.id)
    assert not dict(harness.allocations(compute.connection, server.id))


def test_server_is_told_who_it_is(
    nova: nova_service.Nova, compute: harness.Compute, image_id: str
) -> None:
    server = compute.boot(compute.create_flavor(), image_id)
    answer = requests.get(
        f"{nova.metadata_url}/openstack/latest/meta_data.json",
        headers=nova.metadata_headers(server.id, server.project_id),
        timeout=harness.LIMIT_S,
    )
    assert answer.json()["uuid"] == server.id
