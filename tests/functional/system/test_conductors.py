# SPDX-License-Identifier: Apache-2.0

"""Two conductors, of which one leads."""

from __future__ import annotations

import pytest

from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import programs
from tests.harness import waiting

CHUNK = clouds.CHUNK_BYTES
QUEUED = 4
QUESTIONS = 10


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=2),
        clouds.HostPlan("compute", slots=0),
        conductors=2,
    )


def leader_and_standby(
    cloud: clouds.Cloud,
) -> tuple[processes.Daemon, processes.Daemon]:
    """Return both conductors, whichever leads now first."""
    holder = cloud.lease_holder()
    first, second = cloud.conductors
    return (first, second) if first.name == holder else (second, first)


@pytest.mark.parametrize(
    "how", ["kill", pytest.param("stop", marks=pytest.mark.long), "freeze"]
)
def test_standby_takes_over(cloud, how: str, rng) -> None:
    """When the leader dies or freezes, nothing is lost and all goes on."""
    leader, standby = leader_and_standby(cloud)
    text = rng.randbytes(20 * CHUNK)
    board = cloud.hosts["board"]
    running = programs.Transfer(cloud.hosts["compute"].socket_path(), text)
    running.run_to(4 * CHUNK)
    cloud.wait_session(running.session_id, "ACTIVE")
    with board.door() as door:
        ready = door.open_ready()
        requests = []
        for _ in range(QUEUED):
            requests.append(door.open())
            door.wait_state(requests[-1], "QUEUED")
        end = leader.pause if how == "freeze" else getattr(leader, how)
        end()
        waiting.wait_until(
            lambda: cloud.lease_holder() == standby.name,
            "the stand-by is elected",
        )
        # A leader that was frozen believes for a moment that it still is.
        leader.resume()
        running.run_to(8 * CHUNK)
        doors.let_go([door.attach(ready)])
        for request_id in requests:
            view = door.wait_state(request_id, "READY")
            doors.let_go([door.attach(view)])
            door.wait_state(request_id, "CLOSED")
        served = [name for name, state in door.history if state == "READY"]
        assert list(dict.fromkeys(served))[1:] == requests
    leader.start()
    running.finish()
    assert running.output == text
    cloud.wait_session(running.session_id, "CLOSED")
    cloud.check_consistent()
    # Who led before came back to stand by.
    assert cloud.lease_holder() == standby.name


def test_frozen_leader_takes_nothing_away(cloud) -> None:
    """What is meant for the new leader does not reach the old one."""
    leader, standby = leader_and_standby(cloud)
    before = len(standby.log())
    leader.pause()
    waiting.wait_until(
        lambda: all(
            f"Host {host.name} ({host.uuid}) is up" in standby.log()[before:]
            for host in cloud.hosts.values()
        ),
        "the stand-by leads all hosts",
    )
    for _ in range(QUESTIONS):
        for host in cloud.hosts.values():
            with host.door() as door:
                # One that is lost is not repeated: it would be refused.
                door.request("pool")
                assert door.refusal(accelerator="none") == (
                    "UNKNOWN_ACCELERATOR"
                )
    leader.resume()
    cloud.check_consistent()
