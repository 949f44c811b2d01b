# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions when the leading conductor dies."""

from __future__ import annotations

import concurrent.futures
import threading

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import cloud as clouds
from tests.harness import waiting

LIMIT_S = 120


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("one", slots=1),
        clouds.HostPlan("two", slots=1),
        conductors=2,
    )


def test_a_set_that_waits_and_one_that_runs_survive(cloud) -> None:
    door = cloud.hosts["one"].socket_path()
    pair = [("copy", 1000)] * 2
    waits = threading.Event()
    seen: dict[str, client.SessionView] = {}

    def note(view: client.SessionView) -> None:
        seen[view.session_id] = view
        queued = [one for one in seen.values() if one.state == states.QUEUED]
        if len(queued) == len(pair):
            waits.set()

    with concurrent.futures.ThreadPoolExecutor() as threads:
        running = client.acc_open_set(
            pair, placement="spread", front_door=door, timeout_s=LIMIT_S
        )
        with running:
            assert {one.host_name for one in running} == {"one", "two"}
            pending = threads.submit(
                client.acc_open_set,
                pair,
                placement="spread",
                front_door=door,
                timeout_s=LIMIT_S,
                on_state=note,
            )
            assert waits.wait(LIMIT_S)
            for session_id in seen:
                view = cloud.wait_session(session_id, states.QUEUED)
                assert view["reason"] == codes.SET_WAITS
            (leader,) = (
                one
                for one in cloud.conductors
                if one.name == cloud.lease_holder()
            )
            leader.kill()
            waiting.wait_until(
                lambda: cloud.lease_holder() not in ("", None, leader.name),
                "the stand-by is elected",
            )
            for number, session in enumerate(running):
                data = bytes([number]) * 1000
                assert bytes(session.run(data)) == data
            for session_id in seen:
                view = cloud.wait_session(session_id, states.QUEUED)
                assert view["reason"] == codes.SET_WAITS
        with pending.result(LIMIT_S) as opened:
            for session in opened:
                assert bytes(session.run(b"hello")) == b"hello"
    leader.start()
    for session in opened:
        cloud.wait_session(session.session_id, states.CLOSED)
    cloud.check_consistent()
