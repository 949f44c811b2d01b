# SPDX-License-Identifier: Apache-2.0

"""What the API tells while no conductor answers."""

import dataclasses
import uuid

import oslo_messaging as messaging
import pytest

from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.api import fakes

HEADER = "OpenStack-fpgapool-Source"
PATHS = (
    f"/v1/sessions/{fakes.view(1).session_id}",
    "/v1/pool",
)
QUOTAS = ("/v1/quotas", "/v1/quotas/defaults")


@pytest.fixture
def headless(world: fakes.Api) -> fakes.Api:
    """Give a pool whose conductor does not answer; it counts questions."""
    world.asked = []
    world.database.records = [
        fakes.record(
            1,
            state=states.READY,
            slot_id=3,
            generation=7,
            revision=5,
            ready_at=1.7e9,
        ),
        fakes.record(2, accelerator="fft"),
        fakes.record(3, project_id="p2"),
    ]

    def fail() -> None:
        world.asked.append(1)
        raise messaging.MessagingTimeout()

    world.conductor._fail = fail
    world.conductor.views.clear()
    return world


@pytest.mark.parametrize("path", PATHS + QUOTAS)
def test_a_leaders_answer_is_not_marked(world, path):
    assert HEADER not in world.ask("GET", path).headers


@pytest.mark.parametrize("path", PATHS)
def test_what_is_recorded_is_told_and_marked(headless, path):
    answer = headless.ask("GET", path)
    assert answer.status_code == 200
    assert answer.headers[HEADER] == "database"


@pytest.mark.parametrize(
    "path", [*QUOTAS, "/v1/sessions", f"/v1/sessions/{uuid.UUID(int=4)}"]
)
def test_a_leader_is_not_asked_for_what_rows_have(headless, path):
    headless.database.records = [
        fakes.record(4, state=states.CLOSED, finished_at=1.7e9)
    ]
    answer = headless.ask("GET", path)
    assert answer.status_code == 200
    assert HEADER not in answer.headers
    assert not headless.asked


def test_a_session_lacks_what_only_leaders_know(headless):
    session = headless.ask("GET", PATHS[0]).json["session"]
    assert session["state"] == "READY"
    assert session["connection"] is None
    mine = identity.host_hash(fakes.HOST, "p1")
    # Whoever waits for a later revision is told by the next leader.
    assert (session["generation"], session["revision"]) == (7, 4)
    assert session["placement"] == {
        "host_uuid": mine,
        "host_name": f"host-{mine[:8]}",
        "device": "board0",
        "slot": 2,
        "local": None,
    }
    waiting = fakes.record(2).session_id
    session = headless.ask("GET", f"/v1/sessions/{waiting}").json["session"]
    assert session["state"] == "QUEUED"
    assert session["queue_position"] is None
    assert session["expected_wait_s"] is None


def test_sessions_of_others_stay_hidden(headless):
    path = f"/v1/sessions/{fakes.record(3).session_id}"
    assert headless.error("GET", path) == (404, codes.SESSION_NOT_FOUND)
    assert headless.ask("GET", path, fakes.ADMIN).status_code == 200


def test_nobody_is_asked_until_the_lease_changes(headless):
    for _ in range(3):
        headless.ask("GET", "/v1/pool")
    assert len(headless.asked) == 1
    lease = headless.database.lease
    headless.database.lease = dataclasses.replace(lease, holder="")
    headless.ask("GET", "/v1/pool")
    assert len(headless.asked) == 1
    headless.database.lease = dataclasses.replace(lease, epoch=9)
    headless.ask("GET", "/v1/pool")
    headless.ask("GET", "/v1/pool")
    assert len(headless.asked) == 2


def test_a_new_leader_is_asked_again(headless):
    headless.ask("GET", "/v1/pool")
    del headless.conductor._fail
    assert HEADER in headless.ask("GET", "/v1/pool").headers
    headless.database.lease = db_api.Lease(holder="c2", epoch=5, renewals=0)
    assert HEADER not in headless.ask("GET", "/v1/pool").headers
    assert HEADER not in headless.ask("GET", "/v1/pool").headers


def test_a_question_that_is_pinned_does_not_silence_the_leader(world):
    newer = messaging.RPCVersionCapError(version="1.1", version_cap="1.0")
    world.conductor.failure = newer
    assert HEADER in world.ask("GET", "/v1/pool").headers
    world.conductor.failure = None
    assert HEADER not in world.ask("GET", "/v1/pool").headers


def test_a_pool_as_it_is_recorded(headless):
    pool = headless.ask("GET", "/v1/pool").json["pool"]
    assert pool["strategy"] is None
    assert pool["waiting"] == 2
    assert pool["sessions"] == {"READY": 1, "QUEUED": 2}
    assert pool["counts"] == {
        "hosts": 2,
        "hosts_up": 1,
        "devices": 1,
        "devices_healthy": 1,
        "slots": {"medium": {"active": 2, "idle": 1, "faulty": 1}},
    }
    first, second = headless.ask("GET", "/v1/pool/hosts", fakes.ADMIN).json[
        "hosts"
    ]
    (device,) = first["devices"]
    assert [one["state"] for one in device["slots"]] == [
        "active",
        "active",
        "idle",
        "faulty",
    ]
    assert second["devices"] == []


def test_a_snapshot_as_it_is_recorded(headless):
    answer = headless.ask("GET", "/v1/pool/snapshot", fakes.SERVICE)
    assert answer.headers[HEADER] == "database"
    snapshot = answer.json["snapshot"]
    host = snapshot["hosts"][fakes.HOST]
    assert host["slots"] == {"total": 4, "usable": 3, "free": 1}
    assert host["accelerators"]["copy"] == {"usable": 3, "free": 1}
    assert (host["queued"], host["nic_load"]) == (2, 0.0)
    assert snapshot["queued"] == {"fft": 1, "copy": 1}


def test_quotas_as_they_are_recorded(headless):
    headless.database.limits = [
        db_api.QuotaRecord(
            id=1, project_id="p1", resource="queued", hard_limit=7
        ),
        db_api.QuotaRecord(id=2, project_id="p1", resource="sessions"),
    ]
    quota = headless.ask("GET", "/v1/quotas").json["quota"]
    assert quota["queued"] == {"limit": 7, "in_use": 1, "source": "project"}
    assert quota["sessions"] == {
        "limit": 20,
        "in_use": 1,
        "source": "default",
    }
    assert quota["queued_bytes"]["in_use"] == 1000


@pytest.mark.parametrize("path", QUOTAS)
def test_limits_that_only_keystone_knows(headless, path):
    object.__setattr__(headless.backends, "default_limits", None)
    answer = headless.ask("GET", path)
    assert answer.headers[HEADER] == "database"
    limit = answer.json["quota"]["sessions"]
    assert (limit["limit"], limit["source"]) == (None, "keystone")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        (
            "POST",
            "/v1/sessions",
            {"session": {"accelerator": "copy", "claimed_bytes": 1}},
        ),
        ("DELETE", PATHS[0], None),
        ("POST", f"{PATHS[0]}/renew-secret", None),
    ],
)
def test_changes_have_to_wait(headless, method, path, body):
    answer = headless.ask(method, path, body=body)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json["errors"][0]["code"] == codes.CONDUCTOR_UNAVAILABLE
    # No message waits for the next leader.
    assert not headless.conductor.renewed


@pytest.mark.parametrize("path", PATHS + QUOTAS[:1])
def test_without_a_database_there_is_no_answer(headless, path):
    headless.database.failure = fakes.UNAVAILABLE
    assert headless.error("GET", path) == (503, codes.DATABASE_UNAVAILABLE)


def test_an_error_of_the_conductor_is_no_silence(world):
    world.conductor.failure = messaging.RemoteError("E", "text")
    for _ in range(2):
        assert world.error("GET", "/v1/pool") == (500, codes.INTERNAL_ERROR)


def test_changes_are_noticed_in_the_database(headless):
    leader = headless.backends.leader
    one, two, _ = (record.session_id for record in headless.database.records)
    assert leader.revisions([one, two, "gone"]) == {one: 5, two: 0}
    # While no leader tells the secret, its session has an older revision.
    headless.ask("GET", "/v1/pool")
    assert leader.revisions([one, two, "gone"]) == {one: 4, two: 0}
    lease = headless.database.lease
    headless.database.lease = dataclasses.replace(lease, renewals=3)
    assert leader.revisions([one]) == {one: 5}


def test_who_waits_while_the_leader_dies_is_told_what_it_gets(world):
    waiting = fakes.queued(1, revision=2)
    world.conductor.views[waiting.session_id] = waiting
    waited = world.waiting.wait

    def wait(*args: object, **kwargs: object) -> object:
        # The request begins to wait.
        world.conductor.failure = messaging.MessagingTimeout()
        world.conductor.views[waiting.session_id] = fakes.view(1, revision=9)
        return waited(*args, **kwargs)

    world.waiting.wait = wait
    path = f"/v1/sessions/{waiting.session_id}?wait_s=60"
    answer = world.ask("GET", path)
    assert answer.headers[HEADER] == "database"
    session = answer.json["session"]
    assert (session["state"], session["revision"]) == (states.READY, 8)
    assert session["connection"] is None


def test_who_began_to_wait_without_a_leader_gets_its_secret(world):
    ready = fakes.view(1, revision=6)
    world.conductor.failure = messaging.MessagingTimeout()
    path = f"/v1/sessions/{ready.session_id}"
    world.conductor.views[ready.session_id] = ready
    assert world.ask("GET", path).json["session"]["revision"] == 5
    waited = world.waiting.wait

    # The next leader is there when the request has begun to wait.
    def wait(*args: object, **kwargs: object) -> object:
        world.conductor.failure = None
        world.database.lease = db_api.Lease(holder="c2", epoch=9, renewals=0)
        return waited(*args, **kwargs)

    world.waiting.wait = wait
    answer = world.ask("GET", f"{path}?wait_s=60&revision=5")
    assert HEADER not in answer.headers
    session = answer.json["session"]
    assert (session["state"], session["revision"]) == (states.READY, 6)
    assert session["connection"]["secret"] == fakes.SECRET


def test_a_leader_that_has_too_much_to_do_is_asked_again(headless):
    def refuse() -> None:
        headless.asked.append(1)
        raise exception.Overloaded(reason="too many questions wait")

    headless.conductor._fail = refuse
    for _ in range(2):
        answer = headless.ask("GET", PATHS[0])
        assert (answer.status_code, answer.headers[HEADER]) == (
            200,
            "database",
        )
    # It leads: nobody waits for another lease.
    assert len(headless.asked) == 2


def test_changes_may_come_later_if_there_is_too_much_to_do(world):
    world.conductor.failure = exception.Overloaded(reason="too many")
    answer = world.ask("DELETE", PATHS[0])
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
