# SPDX-License-Identifier: Apache-2.0

"""Quotas and usage on a pool of real processes."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest

from tests.functional.api import harness
from tests.harness import cloud as clouds

# In the gate: test_sessions.py, tests/integration/test_limits.py,
# tests/unit/conductor/test_quotas.py, and tests/world.
pytestmark = pytest.mark.long

SLOTS = 4
SESSIONS = 2
QUEUED = 5
DATA = bytes(range(256)) * 200


@pytest.fixture(scope="module")
def cloud(make_cloud: Callable[..., clouds.Cloud]) -> clouds.Cloud:
    """Give a pool that no project may have alone."""
    return make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        options={"quota": {"sessions": SESSIONS, "queued": QUEUED}},
    )


def test_what_was_used_is_told_with_its_energy(api, cloud) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    path = f"/v1/usage?start={today}&group_by=accelerator"

    def used() -> dict:
        found = api.ask("GET", path).document["usage"]
        return found[0] if found else dict.fromkeys(SUMS, 0)

    before = used()
    session = api.open_until_ready()
    client = harness.connect(session)
    assert client.run(DATA) == DATA
    client.close_session()
    api.wait(session, "CLOSED")
    harness.wait_for(
        lambda: used()["sessions"] > before["sessions"], "it is recorded"
    )
    after = used()
    assert after["input_bytes"] - before["input_bytes"] == len(DATA)
    assert after["slot_s"] > before["slot_s"]
    # An emulated board measures what it draws.
    assert after["energy_j"] > (before["energy_j"] or 0)
    record = next(one for one in cloud.usage() if one.day >= today)
    assert record.energy_j is not None
    everybody = api.ask(
        "GET", "/v1/usage?all_projects=true", harness.ADMIN_TOKEN
    ).document["usage"]
    assert clouds.PROJECT in {one["project_id"] for one in everybody}


SUMS = ("sessions", "slot_s", "input_bytes", "output_bytes", "energy_j")
