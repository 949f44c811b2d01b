# SPDX-License-Identifier: Apache-2.0

"""Hosts that fall silent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import programs
from tests.harness import waiting

CHUNK = clouds.CHUNK_BYTES
SLOTS = 3
REPORT_TIMEOUT_S = 3


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("alpha", slots=SLOTS),
        clouds.HostPlan("beta", slots=SLOTS),
        clouds.HostPlan("compute", slots=0),
        options={"conductor": {"report_timeout_s": REPORT_TIMEOUT_S}},
    )


@pytest.fixture
def hosts(cloud) -> Iterator[dict[str, clouds.Host]]:
    """All hosts; afterwards nothing may be left over."""
    yield cloud.hosts
    for host in cloud.hosts.values():
        host.agent.resume()
        host.write_boards()
    waiting.wait_until(
        lambda: all(cloud.host_states().values()), "all hosts are back"
    )
    cloud.check_consistent()


def test_lost_host(cloud, hosts, rng) -> None:
    """Who waits for a lost host gets another one; who runs there goes on."""
    text = rng.randbytes(20 * CHUNK)
    params = {"key": rng.randbytes(16).hex(), "iv": rng.randbytes(16).hex()}
    with hosts["compute"].door() as door, hosts["beta"].door() as beta_door:
        # While beta is full, everything goes to alpha.
        held = doors.hold_slots(beta_door, SLOTS)
        running = programs.Transfer(hosts["compute"].socket_path(), text)
        running.run_to(4 * CHUNK)
        cloud.wait_session(running.session_id, "ACTIVE")
        ready = door.open_ready("aes")
        hosts["alpha"].write_boards(programming_time_s=60)
        preparing_id = door.open("aes")
        preparing = door.wait_state(preparing_id, "PREPARING")
        views = (ready, preparing)
        assert {view["slot_host_name"] for view in views} == {"alpha"}
        doors.let_go(held)

        hosts["alpha"].agent.pause()
        for view in views:
            moved = door.wait_for(
                view["request_id"],
                lambda v: (
                    v["state"] == "READY" and v["slot_host_name"] == "beta"
                ),
            )
            assert moved["generation"] > view["generation"]
            assert moved["session_id"] == view["session_id"]
        assert cloud.host_states()["alpha"] is False
        running.run_to(8 * CHUNK)
        assert cloud.state(running.session_id) == "ACTIVE"
        hosts["alpha"].agent.resume()
        for view in views:
            newest = door.views[view["request_id"]][-1]
            doors.let_go([door.attach(newest, params=params)])
            door.wait_state(view["request_id"], "CLOSED")
    report = running.finish()
    assert running.output == text
    assert (report.host, report.reconnects) == ("alpha", 0)
    # Being programmed cannot be interrupted: its time is not waited for.
    hosts["alpha"].write_boards()
    hosts["alpha"].worker(preparing["slot"]).kill()


def test_most_hosts_silent(cloud, hosts, rng) -> None:
    """When most hosts fall silent it is the bus: nobody is moved."""
    text = rng.randbytes(8 * CHUNK)
    with hosts["compute"].door() as door:
        running = programs.Transfer(hosts["alpha"].socket_path(), text)
        running.run_to(2 * CHUNK)
        ready = door.open_ready()
        for name in ("alpha", "beta"):
            hosts[name].agent.pause()
        cloud.conductor.wait_for_log("2 of 3 hosts are silent")
        assert all(cloud.host_states().values())
        view = cloud.views([ready["session_id"]])[ready["session_id"]]
        assert (view["state"], view["generation"]) == (
            "READY",
            ready["generation"],
        )
        for name in ("alpha", "beta"):
            hosts[name].agent.resume()
        doors.let_go([door.attach(ready)])
        door.wait_state(ready["request_id"], "CLOSED")
    running.finish()
    assert running.output == text
