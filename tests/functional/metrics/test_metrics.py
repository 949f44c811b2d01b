# SPDX-License-Identifier: Apache-2.0

"""What conductors, agents and the API tell, held against what was done."""

from __future__ import annotations

import json

import pytest

from fpgapool.agent import metrics as agent_metrics
from fpgapool.api import metrics as api_metrics
from fpgapool.conductor import metrics as conductor_metrics
from tests.functional.api import harness as api_harness
from tests.functional.metrics import harness
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import waiting


@pytest.fixture
def door(cloud):
    with cloud.hosts["board"].door() as one:
        yield one
    cloud.check_consistent()


@pytest.fixture
def conductor(ports):
    """Give a function that scrapes the conductor."""
    return lambda: harness.read(ports["conductor_port"])


@pytest.fixture
def agent(ports):
    """Give a function that scrapes the agent."""
    return lambda: harness.read(ports["agent_port"])


def _use(door: doors.Door, data: bytes) -> None:
    client = door.attach(door.open_ready(size_bytes=len(data)))
    assert client.run(data) == data
    client.close_session()


def test_sessions_are_counted(door, conductor, agent, ports, rng) -> None:
    before, agent_before = conductor(), agent()
    for _ in range(3):
        _use(door, rng.randbytes(50_000))

    def grown(page: harness.Page, name: str, **labels: str) -> float:
        old = agent_before if "_agent_" in name else before
        return page.value(name, **labels) - old.value(name, **labels)

    page = harness.wait_for(
        ports["conductor_port"],
        lambda page: (
            grown(page, "fpgapool_conductor_service_seconds_count") == 3
        ),
        "three slots are free again",
    )
    assert grown(page, "fpgapool_conductor_sessions_opened_total") == 3
    assert grown(page, "fpgapool_conductor_wait_seconds_count") == 3
    ended = "fpgapool_conductor_sessions_ended_total"
    assert grown(page, ended, state="CLOSED", code="OK") == 3
    assert grown(page, ended) == 3
    for name in ("decision_seconds_count", "commit_seconds_count"):
        assert grown(page, f"fpgapool_conductor_{name}") > 0
    # One row for each session at least.
    assert grown(page, "fpgapool_conductor_commit_rows_total") >= 3
    assert grown(page, "fpgapool_conductor_rpc_seconds_count") >= 3
    assert page.value("fpgapool_conductor_rpc_failures_total") == 0
    told = harness.wait_for(
        ports["agent_port"],
        lambda page: grown(page, "fpgapool_agent_results_total") == 3,
        "three results",
    )
    assert grown(told, "fpgapool_agent_results_total", code="OK") == 3
    for name in ("input", "output"):
        name = f"fpgapool_agent_{name}_bytes_total"
        assert grown(told, name, host="board", device="board0") == 150_000
    prepared = sum(
        grown(told, f"fpgapool_agent_{name}_total")
        for name in ("programmings", "reuses")
    )
    assert prepared == 3
    assert grown(told, "fpgapool_agent_reuses_total") >= 1
    assert grown(told, "fpgapool_agent_prepare_seconds_count") == 3
    assert grown(told, "fpgapool_agent_rpc_seconds_count") > 0


def test_what_there_is(door, conductor, agent) -> None:
    page = conductor()
    assert page.value("fpgapool_conductor_leading") == 1
    assert page.value("fpgapool_conductor_state_known") == 1
    assert page.value("fpgapool_conductor_host_up", host="board") == 1
    assert page.value("fpgapool_conductor_slots") == 2
    assert page.value("fpgapool_conductor_slots", state="idle") == 2
    told = agent()
    slots = "fpgapool_agent_slots"
    assert told.value(slots, device="board0", state="idle") == 2
    assert told.value(slots) == 2
    assert told.value("fpgapool_agent_device_healthy") == 1
    assert told.value("fpgapool_agent_dma_limit_bytes_per_second") > 0
    limit = told.value("fpgapool_agent_nic_limit_bytes_per_second")
    assert limit == 1_250_000_000
    assert told.value("fpgapool_agent_nic_receive_bytes_total") > 0
    assert told.value("process_resident_memory_bytes") > 0


def test_those_who_wait_are_counted(cloud, door, conductor) -> None:
    held = doors.hold_slots(door, 2)
    sessions = "fpgapool_conductor_sessions"
    waiting.wait_until(
        lambda: conductor().value(sessions, state="ACTIVE") == 2,
        "the conductor hears of their clients",
    )
    waiting_ids = [door.open(size_bytes=size) for size in (10, 10**9)]
    with cloud.hosts["board"].door(clouds.OTHER_PROJECT) as other:
        waiting_ids.append(other.open(size_bytes=10))
        other.wait_state(waiting_ids[2], "QUEUED")
        for request_id in waiting_ids[:2]:
            door.wait_state(request_id, "QUEUED")
        page = conductor()
        by_project = "fpgapool_conductor_project_queued_sessions"
        assert page.value(by_project, project=clouds.PROJECT) == 2
        assert page.value(by_project, project="other") == 1
        assert not page.found(by_project, project=clouds.OTHER_PROJECT)
        by_queue = "fpgapool_conductor_queue_sessions"
        assert page.value(by_queue, queue="1") == 2
        assert page.value(by_queue) == 3
        assert len(page.found(by_queue)) == 20
        queued_bytes = page.value("fpgapool_conductor_queued_bytes")
        assert queued_bytes == 10**9 + 20
        assert page.value(sessions, state="QUEUED") == 3
        assert page.value(sessions, state="ACTIVE") == 2
        assert page.value("fpgapool_conductor_slots", state="idle") == 0
        for each, request_id in zip(
            (door, door, other), waiting_ids, strict=True
        ):
            each.request("cancel", request_id=request_id)
            each.wait_state(request_id, "CANCELLED")
    assert conductor().value(sessions, state="QUEUED") == 0
    doors.let_go(held)


def test_a_killed_worker_is_counted(cloud, door, agent, ports) -> None:
    before = agent()
    view = door.open_ready()
    client = door.attach(view)
    client.run(b"0" * 1000)
    door.wait_state(view["request_id"], "ACTIVE")
    cloud.hosts["board"].worker(view["slot"]).kill()
    ended = "fpgapool_agent_workers_ended_total"
    started = "fpgapool_agent_workers_started_total"
    results = "fpgapool_agent_results_total"
    page = harness.wait_for(
        ports["agent_port"],
        lambda page: page.value(started) > before.value(started),
        "a worker in the place of the one that was killed",
    )
    died = page.value(ended, how="died") - before.value(ended, how="died")
    assert died == 1
    labels = {"state": "FAILED", "code": "WORKER_DIED"}
    assert page.value(results, **labels) - before.value(results, **labels) == 1
    client.close()


def test_requests_to_the_api_are_counted(api, door, ports) -> None:
    session = api.open_until_ready()
    assert api.close(session["id"]) == 204
    assert api.ask("GET", "/v1/nothing", check=False).status == 404
    requests = "fpgapool_api_requests_total"

    page = harness.read(ports["api_port"])
    one = {"route": "/v1/sessions", "method": "POST"}
    assert page.value(requests, status="202", **one) == 1
    assert page.value("fpgapool_api_request_seconds_count", **one) == 1
    assert page.value(
        requests, route="/v1/sessions/{session_id}", status="204"
    )
    assert page.value(requests, route="other", status="404") == 1
    assert page.value("fpgapool_api_requests_in_progress") == 0
    submitted = {"method": "submit_sessions"}
    assert page.value("fpgapool_api_rpc_seconds_count", **submitted) == 1
    # It is for Prometheus only.
    told = api.ask("GET", "/metrics", check=False)
    assert told.status == 404


def test_all_that_is_defined_is_told(api, conductor, agent, ports) -> None:
    api.ask("GET", "/v1/pool")
    for page, definitions in (
        (conductor(), conductor_metrics.DEFINITIONS),
        (agent(), agent_metrics.DEFINITIONS),
        (harness.read(ports["api_port"]), api_metrics.DEFINITIONS),
    ):
        own = {name for name in page.names if name.startswith("fpgapool_")}
        assert own == {one.name for one in definitions} | {
            "fpgapool_build_info"
        }


def test_privileged_requests_leave_a_line(api, door) -> None:
    session = api.open_until_ready()
    assert api.close(session["id"], api_harness.ADMIN_TOKEN) == 204

    def line() -> dict | None:
        for text in api.present_log().splitlines():
            _, found, tail = text.partition(" INFO fpgapool.audit ")
            if found and session["id"] in tail:
                return json.loads(tail[tail.index("{") :])
        return None

    found = waiting.wait_until(line, "a line of the audit log")
    assert found is not None
    assert found["outcome"] == "done"
    assert (found["user"], found["project"]) == ("admin", "operators")
    assert found["target_projects"] == [clouds.PROJECT]
    assert found["request_id"].startswith("req-")
