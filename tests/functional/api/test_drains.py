# SPDX-License-Identifier: Apache-2.0
"""An operator enables, drains and disables boards that are in use."""

from __future__ import annotations

import pytest

from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import programs

# In the gate: tests/unit/core/test_drains.py,
# tests/unit/api/test_administration.py, and tests/world.
pytestmark = pytest.mark.long

CHUNK = clouds.CHUNK_BYTES
#: How many chunks a stream has, and how many have gone when it has begun.
CHUNKS, BEGUN_CHUNKS = 40, 4
ADMIN = harness.ADMIN_TOKEN


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("alpha", slots=1),
        clouds.HostPlan("beta", slots=1),
        clouds.HostPlan("compute", slots=0),
    )


def devices(api: harness.Server) -> dict[str, dict]:
    """Return the boards, by the names of their hosts."""
    found = api.ask("GET", "/v1/devices", ADMIN).document["devices"]
    return {one["host_name"]: one for one in found}


def test_a_stream_moves_to_the_other_board_byte_for_byte(
    cloud, api, rng
) -> None:
    text = rng.randbytes(CHUNKS * CHUNK)
    aes = programs.Aes(rng)
    path = cloud.hosts["compute"].socket_path()
    running = programs.Transfer(path, text, "aes", params=aes.params)
    running.run_to(BEGUN_CHUNKS * CHUNK)
    view = cloud.wait_session(running.session_id, "ACTIVE")
    host = view["slot_host_name"]
    path = f"/v1/devices/{devices(api)[host]['id']}"
    wish = {"state": "draining", "reason": "firmware", "drain_deadline_s": 0}
    answer = api.ask("PATCH", path, ADMIN, wish)
    assert answer.status == 200
    shown = answer.document["device"]
    # It may be done already.
    assert shown["admin_state"] in ("draining", "disabled")
    assert shown["admin_reason"] == "firmware"
    # The answer may come before the agent has heard of it: who lets go of all
    # data then may be through before the board is drained.
    for chunks in range(BEGUN_CHUNKS + 1, CHUNKS):
        running.run_to(chunks * CHUNK)
        if devices(api)[host]["admin_state"] == "disabled":
            break
    harness.wait_for(
        lambda: devices(api)[host]["admin_state"] == "disabled", "disabled"
    )
    drained = devices(api)[host]
    report = running.finish()
    assert running.output == aes.encrypt(text)
    assert report.host == {"alpha": "beta", "beta": "alpha"}[host]
    assert report.reopens == 1
    assert (drained["sessions"], drained["state"]) == (0, "disabled")
    assert drained["admin_reason"] == "firmware"
    assert drained["drain_deadline_at"] is None
    enabled = api.ask("PATCH", path, ADMIN, {"state": "enabled"})
    assert enabled.status == 200
