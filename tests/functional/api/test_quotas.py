# SPDX-License-Identifier: Apache-2.0

"""Quotas and usage on a pool of real processes."""

from __future__ import annotations

import concurrent.futures
import datetime
import threading
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
CLIENTS = 8
SESSIONS_PER_CLIENT = 4
DATA = bytes(range(256)) * 200


@pytest.fixture(scope="module")
def cloud(make_cloud: Callable[..., clouds.Cloud]) -> clouds.Cloud:
    """Give a pool that no project may have alone."""
    return make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        options={"quota": {"sessions": SESSIONS, "queued": QUEUED}},
    )


def test_racing_clients_of_a_project_never_exceed_its_limits(api) -> None:
    over: list[dict] = []
    done = threading.Event()

    def watch() -> int:
        """Look at what is in use all the time; :returns: the most of it."""
        most = 0
        while not done.is_set():
            found = api.ask("GET", "/v1/quotas").document["quota"]
            for resource, limit in (("sessions", 2), ("queued", QUEUED)):
                if found[resource]["in_use"] > limit:
                    over.append(found)
            most = max(most, found["sessions"]["in_use"])
        return most

    def use(_: int) -> int:
        """Open and close sessions; :returns: how often it was refused."""
        refused = served = 0
        while served < SESSIONS_PER_CLIENT:
            answer = api.open()
            if answer.status == 429:
                assert answer.code == "QUOTA_EXCEEDED"
                assert int(answer.headers["retry-after"]) > 0
                refused += 1
                continue
            session = api.wait(answer.session, "READY")
            assert api.close(session["id"]) == 204
            served += 1
        return refused

    with concurrent.futures.ThreadPoolExecutor(CLIENTS + 1) as executor:
        watching = executor.submit(watch)
        try:
            refused = list(executor.map(use, range(CLIENTS)))
        finally:
            done.set()
    assert not over
    assert watching.result() == SESSIONS
    # 8 clients on 2 slots and 5 places: somebody finds no room.
    assert sum(refused) > 0


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
