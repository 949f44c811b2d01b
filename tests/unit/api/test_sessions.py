# SPDX-License-Identifier: Apache-2.0

"""Sessions: what becomes of requests, who sees what, and waiting."""

import dataclasses
import threading
import uuid

import oslo_messaging as messaging
import pytest

from fpgapool import objects
from fpgapool.api.http import rights
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states
from tests.unit.api import fakes

PATH = "/v1/sessions"
WANTED = {"accelerator": "copy", "claimed_bytes": 1000}
ONE = f"{PATH}/{uuid.UUID(int=1)}"
#: The host as project p1 sees it.
HASH = identity.host_hash(fakes.HOST, "p1")


def _open(world: fakes.Api, token: str = fakes.MEMBER, **members: object):
    body = {"session": {**WANTED, **members}}
    return world.ask("POST", PATH, token, body=body)


# Opening.


def test_a_request_goes_to_the_conductor_and_its_session_is_told(world):
    answer = _open(
        world,
        request_id="mine",
        priority=5,
        wait_timeout_s=7,
        connect_timeout_s=8.5,
        resume_grace_s=0,
    )
    (request,) = world.conductor.requests
    assert (request.project_id, request.user_id) == ("p1", "eve")
    assert request.host_uuid is None
    assert (request.request_id, request.priority) == ("mine", 5)
    assert request.wait_timeout_s == 7
    assert (request.connect_timeout_s, request.resume_grace_s) == (8.5, 0)
    assert answer.status_code == 202
    session = answer.json["session"]
    assert answer.headers["location"].endswith(f"{PATH}/{session['id']}")
    assert int(answer.headers["retry-after"]) > 0
    assert (session["state"], session["request_id"]) == ("QUEUED", "mine")
    assert session["queue_position"] == 4


# Dry runs.


@pytest.mark.security
@pytest.mark.parametrize("name", ["\u00ad", "a\u2028b", "a\0"])
def test_what_the_conductor_would_refuse_is_not_sent_with_others(world, name):
    body = {"session": {**WANTED, "accelerator": name}}
    code = codes.INVALID_REQUEST
    assert world.error("POST", PATH, body=body) == (400, code)
    assert not world.conductor.requests


DRY = f"{PATH}?dry_run=true"


def _dry_run(world: fakes.Api, token: str = fakes.MEMBER, **members: object):
    body = {"session": {**WANTED, **members}}
    return world.ask("POST", DRY, token, body=body)


def test_a_dry_run_says_that_there_is_a_slot(world):
    before = dict(world.conductor.views)
    answer = _dry_run(world, priority=5)
    assert answer.status_code == 200
    assert "location" not in answer.headers
    assert answer.json == {
        "dry_run": {
            "state": "PREPARING",
            "reasons": [],
            "expected_wait_s": 0.0,
            "expected_wait_low_s": 0.0,
            "expected_wait_high_s": 0.0,
            "budget_pct": None,
        }
    }
    assert world.conductor.views == before
    (request,) = world.conductor.requests
    assert (request.project_id, request.user_id) == ("p1", "eve")
    assert (request.host_uuid, request.priority) == (None, 5)


def test_a_dry_run_says_why_there_is_none_and_when(world):
    world.conductor.dry = objects.DryRun(
        state=states.QUEUED,
        reasons=(codes.WAITING_FOR_LOCAL,),
        expected_wait_s=4.5,
        expected_wait_low_s=1.0,
        expected_wait_high_s=20.0,
        budget_pct=12.0,
    )
    assert _dry_run(world).json["dry_run"] == {
        "state": "QUEUED",
        "reasons": [
            {
                "code": codes.WAITING_FOR_LOCAL,
                "message": (
                    "The session is waiting for a slot on its own host."
                ),
            }
        ],
        "expected_wait_s": 4.5,
        "expected_wait_low_s": 1.0,
        "expected_wait_high_s": 20.0,
        "budget_pct": 12.0,
    }


def test_a_refusal_is_an_answer_of_a_dry_run(world):
    world.conductor.dry = objects.DryRun(
        state=states.REJECTED,
        reasons=(codes.QUOTA_EXCEEDED,),
        message="too many",
    )
    assert _dry_run(world).json["dry_run"] == {
        "state": "REJECTED",
        "reasons": [{"code": codes.QUOTA_EXCEEDED, "message": "too many"}],
        "expected_wait_s": None,
        "expected_wait_low_s": None,
        "expected_wait_high_s": None,
        "budget_pct": None,
    }


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (exception.Overloaded(reason="x"), 429, codes.RATE_LIMITED),
        (
            exception.DryRunUnsupported(reason="x"),
            501,
            codes.DRY_RUN_UNSUPPORTED,
        ),
        (
            messaging.MessagingTimeout("x"),
            503,
            codes.CONDUCTOR_UNAVAILABLE,
        ),
    ],
)
def test_a_dry_run_may_fail(world, failure, status, code):
    world.conductor.failure = failure
    body = {"session": WANTED}
    assert world.error("POST", DRY, body=body) == (status, code)


def test_dry_run_is_a_flag(world):
    body = {"session": WANTED}
    for value in ("perhaps", ""):
        path = f"{PATH}?dry_run={value}"
        assert world.error("POST", path, body=body)[0] == 400
    path = f"{PATH}?dry_run=false"
    assert world.ask("POST", path, body=body).status_code == 202


def test_a_request_without_a_name_gets_one(world):
    first, second = (_open(world).json["session"] for _ in range(2))
    assert first["request_id"] != second["request_id"]
    assert uuid.UUID(first["request_id"].removeprefix("req-"))


@pytest.mark.parametrize(
    ("expected_wait_s", "retry_after"),
    [(None, 2), (1.0, 2), (30.5, 15), (1e9, 60)],
)
def test_who_is_far_back_is_told_to_come_later(
    make_world, expected_wait_s, retry_after
):
    world = make_world(fakes.queued(expected_wait_s=expected_wait_s))
    answer = world.ask("GET", ONE)
    assert answer.json["session"]["expected_wait_s"] == expected_wait_s
    assert answer.headers["retry-after"] == str(retry_after)


def test_why_it_waits_is_said_in_words(world):
    reasons = _open(world).json["session"]["pending_reasons"]
    assert reasons == [
        {
            "code": codes.NO_IDLE_SLOT,
            "message": "All slots that fit are in use. Out of service:"
            " 1 faulty.",
        },
        {
            "code": "NEW_REASON",
            "message": "The scheduler reports NEW_REASON.",
        },
    ]


def _out_of_service(world):
    """Have one slot disabled, one faulty, and two of a silent host."""
    pool = world.database.inventory()
    host, device, slot = pool.hosts[0], pool.devices[0], pool.slots[0]
    silent = dataclasses.replace(
        pool.hosts[1], name="host2", last_report_at=1e9
    )
    hosts = [host, silent]
    devices = [
        dataclasses.replace(device, id=1, host_id=host.id),
        dataclasses.replace(
            device,
            id=2,
            host_id=host.id,
            name="b",
            admin_state="disabled",
            admin_reason="new firmware on host1",
        ),
        dataclasses.replace(device, id=3, host_id=silent.id, name="c"),
    ]
    faulty = {1: True}
    slots = [
        dataclasses.replace(
            slot,
            id=number,
            device_id=device_id,
            number=number,
            shape="std",
            faulty=faulty.get(number, False),
        )
        for number, device_id in enumerate((1, 1, 2, 3, 3))
    ]
    # Of another shape: no concern of the session's.
    slots.append(dataclasses.replace(slots[-1], id=9, number=9, shape="big"))
    world.database.change_inventory(
        hosts=hosts,
        devices=devices,
        slots=slots,
        holders=[],
        faults=[],
        reservations=[],
    )
    profile = {"peak_bytes_per_s": 1e9, "core": "copy", "shapes": ["std"]}
    library = [db_api.AcceleratorRecord(name="copy", profile=profile)]
    world.database.accelerators = lambda: library


@pytest.mark.parametrize(
    ("token", "down"),
    [
        (fakes.ADMIN, "2 down (host2 silent since 2001-09-09T01:46:40Z)"),
        (fakes.MEMBER, "2 down since 2001-09-09T01:46:40Z"),
    ],
)
def test_slots_out_of_service_are_named_to_who_waits(make_world, token, down):
    """The operator's words may name hosts, which tenants do not see."""
    world = make_world(fakes.queued())
    _out_of_service(world)
    answer = world.ask("GET", ONE, token)
    first, _ = answer.json["session"]["pending_reasons"]
    assert first["message"] == (
        "All slots that fit are in use. Out of service: 1 disabled"
        f"{' (new firmware on host1)' if token == fakes.ADMIN else ''},"
        f" 1 faulty, {down}."
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (codes.UNKNOWN_ACCELERATOR, 400),
        (codes.INVALID_SIZE, 400),
        (codes.REQUEST_ID_REUSED, 409),
        (codes.NO_COMPATIBLE_SLOT, 409),
        (codes.SIZE_TOO_LARGE, 413),
        (codes.QUOTA_EXCEEDED, 429),
        (codes.QUEUE_FULL, 503),
        (codes.DATABASE_UNAVAILABLE, 503),
    ],
)
def test_refusals_keep_their_code(world, code, status):
    world.conductor.refusal = code, "because"
    answer = _open(world)
    (error,) = answer.json["errors"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert error["detail"] == "because"


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"claimed_bytes": "5"}, "body.session.claimed_bytes"),
        ({"priority": 1001}, "body.session.priority"),
        ({"wait_timeout_s": 0}, "body.session.wait_timeout_s"),
        ({"host": fakes.HOST}, "body.session"),
        ({"request_id": "a b"}, "body.session.request_id"),
        ({"application": ""}, "body.session.application"),
        ({"application": "a b"}, "body.session.application"),
        ({"application": "a" * 65}, "body.session.application"),
        ({"application": None}, "body.session.application"),
        ({"novelty": 1}, "body.session"),
    ],
)
def test_a_bad_body_is_refused_with_the_place(world, members, place):
    answer = _open(world, **members)
    assert answer.status_code == 400
    assert answer.json["errors"][0]["detail"].startswith(f"{place}: ")
    assert not world.conductor.requests


def test_an_older_version_knows_no_new_options(world, monkeypatch):
    first = description.FIELDS.options[0]
    newer = dataclasses.replace(first, since=(1, 1))
    described = fields.Fields(
        *(newer if one is first else one for one in description.FIELDS)
    )
    monkeypatch.setattr(description, "FIELDS", described)
    body = {"session": {**WANTED, first.name: 1}}
    old = {"OpenStack-API-Version": "fpgapool 1.0"}
    answer = world.ask("POST", PATH, body=body, headers=old)
    assert answer.status_code == 400
    (error,) = answer.json["errors"]
    assert error["detail"] == f"body.session.{first.name} requires version 1.1"
    assert _open(world).status_code == 202


def test_only_members_open(world):
    for token in (fakes.READER, fakes.SERVICE, fakes.NOBODY):
        answer = _open(world, token)
        assert answer.status_code == 403
        assert "fpgapool:sessions:create" in answer.json["errors"][0]["detail"]


# Who sees what.


def test_another_projects_session_is_not_there(world):
    for method, path in (
        ("GET", ONE),
        ("DELETE", ONE),
        ("POST", f"{ONE}/renew-secret"),
    ):
        assert world.error(method, path, fakes.STRANGER) == (
            404,
            codes.SESSION_NOT_FOUND,
        )
    assert world.conductor.views[str(uuid.UUID(int=1))] == fakes.view()
    assert not world.conductor.renewed


def test_a_session_that_is_over_is_read_once(make_world):
    """Each caller sees it by their own rights."""
    over = fakes.view(state="CANCELLED", reason=codes.CANCELLED_BY_CLIENT)
    world = make_world(over, inventory_cache_s=60.0)
    first = world.ask("GET", ONE).json["session"]
    named = world.ask("GET", ONE, fakes.ADMIN).json["session"]
    assert first["placement"]["host_uuid"] == HASH
    assert named["placement"]["host_uuid"] == fakes.HOST
    # Rows are not read again.
    world.conductor.views.clear()
    assert world.ask("GET", ONE).json["session"] == first
    assert world.error("GET", ONE, fakes.STRANGER) == (
        404,
        codes.SESSION_NOT_FOUND,
    )
    assert world.ask("GET", ONE, fakes.ADMIN).json["session"] == named


@pytest.mark.parametrize(
    "members",
    [
        {"state": "QUEUED"},
        {"state": "FAILED", "reason": codes.WORKER_DIED},
    ],
)
def test_a_session_that_may_change_is_read_again(make_world, members):
    world = make_world(fakes.view(**members), inventory_cache_s=60.0)
    assert world.ask("GET", ONE).json["session"]["state"] == members["state"]
    world.conductor.views.clear()
    assert world.error("GET", ONE)[0] == 404


def test_a_member_gets_what_is_needed_to_connect(world):
    connection = world.ask("GET", ONE).json["session"]["connection"]
    assert connection == {
        "endpoints": [
            {"network": "data", "address": "10.0.0.1", "port": 4000}
        ],
        "secret": fakes.SECRET,
        "certificate_sha256": "ab" * 32,
    }


@pytest.mark.parametrize(
    ("token", "name"),
    [(fakes.READER, f"host-{HASH[:8]}"), (fakes.ADMIN, "compute1")],
)
def test_who_may_look_may_not_connect(world, token, name, caplog):
    answer = world.ask("GET", ONE, token)
    assert answer.json["session"]["connection"] is None
    assert answer.json["session"]["placement"]["host_name"] == name
    assert fakes.SECRET not in answer.text
    assert world.error("POST", f"{ONE}/renew-secret", token)[0] == 403


@pytest.mark.security
def test_who_does_not_want_to_connect_gets_no_secret(world):
    answer = world.ask("GET", f"{ONE}?connection=false")
    session = answer.json["session"]
    assert (session["state"], session["connection"]) == (states.READY, None)
    assert session["placement"]["host_name"] == f"host-{HASH[:8]}"
    assert fakes.SECRET not in answer.text
    # Not for lack of a conductor.
    assert "openstack-fpgapool-source" not in answer.headers
    shown = world.ask("GET", f"{ONE}?connection=true").json["session"]
    assert shown["connection"]["secret"] == fakes.SECRET


def test_a_secret_is_never_logged_or_listed(world, caplog):
    caplog.set_level(1)
    world.ask("GET", ONE)
    world.ask("GET", f"{ONE}?wait_s=0.01")
    world.conductor.failure = messaging.MessagingTimeout()
    world.ask("GET", ONE)
    assert fakes.SECRET not in caplog.text
    assert fakes.SECRET not in world.ask("GET", PATH).text
    assert fakes.SECRET not in repr(fakes.view())


def test_a_session_in_use_has_no_connection(make_world):
    world = make_world(fakes.view(state=states.ACTIVE))
    assert world.ask("GET", ONE).json["session"]["connection"] is None


# Lists.


def _ids(document) -> list[int]:
    return [uuid.UUID(one["id"]).int for one in document["sessions"]]


def test_a_list_has_ones_own_project(world):
    assert _ids(world.ask("GET", PATH).json) == [6, 4, 2]
    assert _ids(world.ask("GET", PATH, fakes.STRANGER).json) == [7, 5, 3, 1]
    first = world.ask("GET", PATH).json["sessions"][0]
    assert (first["host"], first["project_id"]) == (HASH, "p1")
    assert first["queued_at"] == "2023-11-14T22:13:26.000000Z"


def test_only_administrators_list_all_projects(world):
    path = f"{PATH}?all_projects=true"
    assert len(_ids(world.ask("GET", path, fakes.ADMIN).json)) == 7
    one = world.ask("GET", f"{path}&project_id=p2", fakes.ADMIN)
    assert _ids(one.json) == [7, 5, 3, 1]
    answer = world.ask("GET", path)
    assert answer.status_code == 403
    assert rights.SESSIONS_LIST_ALL in answer.json["errors"][0]["detail"]
    assert world.error("GET", f"{PATH}?project_id=p2")[0] == 400


def test_pages_lead_to_each_other(world):
    path = f"{PATH}?limit=2&state=QUEUED&state=READY"
    (link,) = world.ask("GET", path).json["sessions_links"]
    assert link["rel"] == "next"
    pages = [_ids({"sessions": page}) for page in world.pages(path)]
    assert pages == [[6, 4], [2]]
    for asked in world.database.asked:
        assert list(asked["filters"].states) == ["QUEUED", "READY"]


def test_a_marker_tells_nothing_of_other_projects(world):
    for marker in (uuid.UUID(int=3), uuid.UUID(int=99), "x"):
        assert world.error("GET", f"{PATH}?marker={marker}")[0] == 400


def test_filters_and_order_reach_the_database(world):
    world.ask(
        "GET",
        f"{PATH}?host={HASH}&accelerator=aes&sort_key=claimed_bytes"
        "&sort_dir=asc&changes-since=1970-01-01T01:00:05%2B01:00",
    )
    (asked,) = world.database.asked
    filters = asked["filters"]
    assert (filters.host_id, filters.accelerator) == (1, "aes")
    assert filters.changed_since == 5.0
    assert asked["order"] == [("claimed_bytes", True)]
    elsewhere = f"{PATH}?host={uuid.UUID(int=99)}"
    assert world.ask("GET", elsewhere).json == {"sessions": []}


VM = str(uuid.UUID(int=0xF0))


@pytest.mark.parametrize(
    ("query", "user_id"),
    [
        ("user_id=eve", "eve"),
        (f"instance_id={VM}", f"instance:{VM}"),
        (f"instance_id={VM.upper()}", f"instance:{VM}"),
    ],
)
def test_a_list_has_the_sessions_of_a_user_or_instance(world, query, user_id):
    world.ask("GET", f"{PATH}?{query}")
    assert world.database.asked[0]["filters"].user_id == user_id


@pytest.mark.parametrize(
    "query",
    [f"user_id=eve&instance_id={VM}", f"user_id=instance:{VM}"],
)
def test_a_session_has_one_opener(world, query):
    assert world.ask("GET", f"{PATH}?{query}").json == {"sessions": []}
    assert not world.database.asked


def test_users_and_instances_are_told_apart(make_world):
    world = make_world(
        fakes.queued(1, user_id="eve"),
        fakes.queued(2, user_id=f"instance:{VM}"),
    )
    world.database.records = [
        fakes.record(1, user_id="eve"),
        fakes.record(2, user_id=f"instance:{VM}"),
    ]
    listed = world.ask("GET", PATH).json["sessions"]
    shown = [
        world.ask("GET", f"{PATH}/{one['id']}").json["session"]
        for one in listed
    ]
    for found in (listed, shown):
        assert [(one["user_id"], one["instance_id"]) for one in found] == [
            ("", VM),
            ("eve", None),
        ]


def test_lists_say_why_sessions_wait(make_world):
    world = make_world(fakes.queued(2), fakes.queued(4))
    world.database.records.append(
        fakes.record(8, state=states.ACTIVE, project_id="p1")
    )
    answer = world.ask("GET", PATH)
    assert "OpenStack-fpgapool-Source" not in answer.headers
    said = {
        uuid.UUID(one["id"]).int: one["pending_reasons"]
        for one in answer.json["sessions"]
    }
    why = world.ask("GET", f"{PATH}/{uuid.UUID(int=2)}").json["session"]
    assert why["pending_reasons"]
    # Of the sixth, only the database knows.
    assert said == {
        2: why["pending_reasons"],
        4: why["pending_reasons"],
        6: [],
        8: [],
    }


_OF_SET = {"set_id": "one", "set_size": 2, "set_placement": "spread"}


def test_sessions_that_wait_name_their_set(make_world):
    world = make_world(
        fakes.queued(2, reason=codes.SET_WAITS, **_OF_SET), fakes.queued(4)
    )
    listed = world.ask("GET", PATH).json["sessions"]
    found = {uuid.UUID(one["id"]).int: one["set_id"] for one in listed}
    assert found == {2: "one", 4: None, 6: None}
    shown = world.ask("GET", f"{PATH}/{uuid.UUID(int=2)}").json["session"]
    assert {name: shown[name] for name in _OF_SET} == _OF_SET
    assert shown["reason"] == codes.SET_WAITS


def test_a_session_of_a_set_is_opened(world):
    assert _open(world, **_OF_SET).status_code == 202
    (request,) = world.conductor.requests
    assert {name: getattr(request, name) for name in _OF_SET} == _OF_SET
    body = {"session": {**WANTED, **_OF_SET}}
    old = {"OpenStack-API-Version": "fpgapool 1.2"}
    answer = world.ask("POST", PATH, body=body, headers=old)
    assert answer.status_code == 400
    (error,) = answer.json["errors"]
    assert error["detail"] == "body.session.set_id requires version 1.3"


@pytest.mark.parametrize("token", [fakes.MEMBER, fakes.ADMIN])
def test_lists_say_where_sessions_are(make_world, token):
    """As single sessions do; those that wait or have ended are nowhere."""
    world = make_world(fakes.view(2, state=states.ACTIVE))
    world.database.records = [
        fakes.record(2, state=states.ACTIVE, slot_id=2, local=False),
        fakes.record(4),
        fakes.record(8, state=states.CLOSED, slot_id=1),
        fakes.record(9, state=states.ACTIVE, slot_id=99),
    ]
    path = f"{PATH}?all_projects={token == fakes.ADMIN}".lower()
    listed = world.ask("GET", path, token).json["sessions"]
    found = {uuid.UUID(one["id"]).int: one["placement"] for one in listed}
    path = f"{PATH}/{uuid.UUID(int=2)}"
    shown = world.ask("GET", path, token).json["session"]["placement"]
    assert found == {2: shown, 4: None, 8: None, 9: None}
    assert (shown["device"], shown["slot"]) == ("board0", 1)


def test_lists_are_there_without_a_leader(world):
    world.conductor.failure = messaging.MessagingTimeout()
    answer = world.ask("GET", PATH)
    assert answer.headers["OpenStack-fpgapool-Source"] == "database"
    assert not any(one["pending_reasons"] for one in answer.json["sessions"])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_older_versions_of_lists_are_as_they_were(world, version):
    old = {"OpenStack-API-Version": f"fpgapool {version}"}
    world.conductor.failure = messaging.MessagingTimeout()
    answer = world.ask("GET", PATH, headers=old)
    assert "OpenStack-fpgapool-Source" not in answer.headers
    new = {"user_id", "instance_id", "pending_reasons", "placement"}
    assert not new & answer.json["sessions"][0].keys()
    for query in ("user_id=eve", f"instance_id={VM}"):
        answer = world.ask("GET", f"{PATH}?{query}", headers=old)
        (error,) = answer.json["errors"]
        name = query.partition("=")[0]
        assert error["detail"] == f"query.{name} requires version 1.2"


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("", [("id", False)]),
        ("sort_dir=asc", [("id", True)]),
        (
            "sort_key=state&sort_key=queued_at",
            [("state", False), ("id", False)],
        ),
        (
            "sort_key=state&sort_key=queued_at&sort_dir=asc&sort_dir=desc",
            [("state", True), ("id", False)],
        ),
        (
            "sort_key=state&sort_key=priority&sort_dir=asc",
            [("state", True), ("priority", True)],
        ),
    ],
)
def test_lists_have_several_sort_keys(world, query, order):
    world.ask("GET", f"{PATH}?{query}")
    (asked,) = world.database.asked
    assert asked["order"] == order


@pytest.mark.parametrize(
    "query",
    [
        "sort_dir=asc&sort_dir=asc",
        "sort_key=nothing",
        "sort_key=state&sort_key=nothing",
        "sort_dir=up",
        "changes-since=yesterday",
        "changes-since=",
        "changes-since=2026-11-24T00:00:00Z&changes-since=2026-11-24",
    ],
)
def test_a_bad_order_or_time_is_refused(world, query):
    status, code = world.error("GET", f"{PATH}?{query}")[:2]
    assert (status, code) == (400, codes.INVALID_REQUEST)


def test_the_service_limits_the_length_of_a_page(make_world):
    world = make_world(max_page_length=2)
    assert len(_ids(world.ask("GET", f"{PATH}?limit=100").json)) == 2


# Waiting.


def test_who_knows_an_old_revision_is_answered_at_once(world):
    answer = world.ask("GET", f"{ONE}?wait_s=30&revision=2")
    assert answer.json["session"]["revision"] == 3


def test_waiting_ends_with_the_next_revision(make_world):
    world = make_world(fakes.queued())
    ready = fakes.view(revision=2)
    changed = threading.Event()
    question = world.backends.leader.revisions

    def ask(session_ids):
        # Whoever asks once found that nothing had changed.
        answer = question(session_ids)
        world.conductor.views[ready.session_id] = ready
        changed.set()
        return answer

    world.waiting._ask = ask
    answer = world.ask("GET", f"{ONE}?wait_s=30")
    assert changed.is_set()
    assert answer.json["session"]["state"] == states.READY
    assert answer.json["session"]["connection"]["secret"] == fakes.SECRET


def _etag(answer) -> str:
    tag = answer.headers["etag"]
    assert tag.startswith('W/"')
    return tag


def _poll(world: fakes.Api, tag: str, query: str = "", path: str = ONE):
    return world.ask(
        "GET",
        path + query,
        headers={"If-None-Match": tag},
        # Not modified: there is nothing to check.
        check=False,
    )


@pytest.mark.parametrize("tag", ["9" * 5000, "-1", "\u0663", "x", ""])
def test_etags_that_are_no_revisions_mean_nothing(make_world, tag):
    answer = _poll(make_world(fakes.queued()), f'"{tag}"', "?wait_s=0.01")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "one",
    [fakes.queued(), fakes.view(), fakes.view(state="PREPARING")],
    ids=lambda one: one.state,
)
def test_who_polls_with_an_etag_gets_a_session_when_it_has_changed(
    make_world, one
):
    world = make_world(one)
    tag = _etag(world.ask("GET", ONE))

    def refuse(*_question):
        raise AssertionError("the leader is not asked for what is known")

    tell, world.conductor.session_now = world.conductor.session_now, refuse
    for known in (tag, f'"x", {tag}', tag.removeprefix("W/"), "*"):
        for query in ("", "?wait_s=0.01"):
            answer = _poll(world, known, query)
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["etag"] == tag
            assert int(answer.headers["retry-after"]) > 0
    world.conductor.session_now = tell
    changed = dataclasses.replace(one, revision=one.revision + 1)
    world.conductor.views[one.session_id] = changed
    for query in ("", "?wait_s=30"):
        answer = _poll(world, tag, query)
        assert answer.status_code == 200
        assert _etag(answer) != tag


def test_an_etag_of_a_session_that_has_ended_is_known(make_world):
    world = make_world(fakes.ended())
    tag = _etag(world.ask("GET", ONE))
    answer = _poll(world, tag)
    assert answer.status_code == 304
    assert "retry-after" not in answer.headers
    assert _poll(world, 'W/"0"').json["session"]["state"] == states.CLOSED


def test_news_ends_a_wait_and_nobody_is_asked_then(make_world):
    world = make_world(fakes.queued(), max_wait_s=60)
    ready = fakes.view(revision=2)

    class Source:
        def start(self, changed):
            world.conductor.session_now = None
            world.database.session_head = None
            changed([ready])

        def stop(self):
            pass

    world.waiting._source = Source()
    world.waiting._interval_s = 60
    session = world.ask("GET", f"{ONE}?wait_s=30").json["session"]
    assert session["connection"]["secret"] == fakes.SECRET


@pytest.mark.security
@pytest.mark.parametrize(
    ("token", "query"),
    [
        (fakes.READER, ""),
        (fakes.ADMIN, ""),
        (fakes.MEMBER, "&connection=false"),
    ],
)
def test_who_does_not_connect_gets_no_secret_from_news(
    make_world, token, query
):
    world = make_world(fakes.queued(), max_wait_s=60)
    ready = fakes.view(revision=2)

    class Source:
        def start(self, changed):
            world.conductor.views[ready.session_id] = ready
            changed([ready])

        def stop(self):
            pass

    world.waiting._source = Source()
    world.waiting._interval_s = 60
    answer = world.ask("GET", f"{ONE}?wait_s=30{query}", token=token)
    assert answer.json["session"]["state"] == states.READY
    assert fakes.SECRET not in answer.text


def test_waiting_has_an_end(make_world):
    world = make_world(fakes.queued(), max_wait_s=0.01)
    answer = world.ask("GET", f"{ONE}?wait_s=80000")
    assert answer.json["session"]["state"] == states.QUEUED
    assert int(answer.headers["retry-after"]) > 0


def test_beyond_the_limit_nobody_waits(make_world):
    world = make_world(fakes.queued(), max_waiters=0)
    answer = world.ask("GET", f"{ONE}?wait_s=30")
    assert answer.status_code == 200
    assert int(answer.headers["retry-after"]) > 0


def test_nobody_waits_for_what_has_ended(make_world):
    world = make_world(fakes.ended())
    answer = world.ask("GET", f"{ONE}?wait_s=30")
    assert answer.json["session"]["state"] == states.CLOSED
    assert "retry-after" not in answer.headers


def test_waiting_fails_when_the_database_does(make_world):
    world = make_world(fakes.queued())

    def ask(session_ids):
        raise fakes.UNAVAILABLE

    world.waiting._ask = ask
    assert world.error("GET", f"{ONE}?wait_s=30") == (
        503,
        codes.DATABASE_UNAVAILABLE,
    )


# Who is asked.


@pytest.mark.parametrize(
    ("one", "token", "questions"),
    [
        (fakes.view(), fakes.MEMBER, 1),
        (fakes.view(), fakes.READER, 0),
        (fakes.queued(), fakes.READER, 1),
        (fakes.view(state=states.ACTIVE), fakes.MEMBER, 1),
        (fakes.view(state=states.DETACHED), fakes.MEMBER, 1),
        (fakes.view(state=states.PREPARING), fakes.MEMBER, 1),
        (fakes.view(state=states.PREPARING), fakes.READER, 0),
        (fakes.ended(), fakes.MEMBER, 0),
    ],
)
def test_a_leader_is_asked_once_and_only_for_what_it_alone_knows(
    make_world, one, token, questions
):
    world = make_world(one)
    asked = []
    tell = world.conductor.session_now

    def session_now(*question):
        asked.append(question)
        return tell(*question)

    world.conductor.session_now = session_now
    answer = world.ask("GET", ONE, token)
    assert answer.json["session"]["state"] == one.state
    assert len(asked) == questions
    world.ask("GET", f"{ONE}?wait_s=0.01", token)
    assert len(asked) == 2 * questions


def test_a_session_that_becomes_ready_while_it_is_read_has_its_secret(
    make_world,
):
    world = make_world(fakes.queued(revision=1))
    ready = fakes.view(revision=2)
    tell = world.conductor.session_now

    def session_now(session_id, project_id):
        world.conductor.views[session_id] = ready
        return tell(session_id, project_id)

    world.conductor.session_now = session_now
    session = world.ask("GET", ONE).json["session"]
    assert (session["state"], session["revision"]) == (states.READY, 2)
    assert session["connection"]["secret"] == fakes.SECRET


def test_a_session_that_becomes_ready_between_two_reads_has_its_secret(
    make_world,
):
    world = make_world(fakes.view(revision=1, state=states.PREPARING))
    ready = fakes.view(revision=2)
    read = world.database.session_head

    def session_head(session_id):
        head = read(session_id)
        world.conductor.views[session_id] = ready
        return head

    world.database.session_head = session_head
    session = world.ask("GET", ONE).json["session"]
    assert (session["state"], session["revision"]) == (states.READY, 2)
    assert session["connection"]["secret"] == fakes.SECRET


def test_what_a_leader_does_not_know_is_shown_as_it_is_recorded(make_world):
    world = make_world(fakes.queued(), fakes.view(2, state=states.ACTIVE))
    world.conductor.session_now = lambda *_: None
    for number in (1, 2):
        path = f"{PATH}/{uuid.UUID(int=number)}"
        session = world.ask("GET", path).json["session"]
        assert session["queue_position"] is None
        assert session["revision"] > 0


# Closing.


@pytest.mark.parametrize("token", [fakes.MEMBER, fakes.ADMIN])
def test_closing_is_repeatable(world, token):
    for _ in range(2):
        assert world.ask("DELETE", ONE, token).status_code == 204
    (left,) = world.conductor.views.values()
    assert left.state == states.CANCELLED
    assert left.reason == codes.CANCELLED_BY_CLIENT
    assert left.revision == fakes.view().revision + 1


def test_who_closes_with_counts_has_closed_and_not_cancelled(make_world):
    world = make_world(fakes.view(generation=4))
    counts = "generation=4&input_bytes=1000&output_bytes=1000"
    assert world.ask("DELETE", f"{ONE}?{counts}").status_code == 204
    (left,) = world.conductor.views.values()
    assert left.state == states.CLOSED


def test_a_session_that_only_the_database_knows_is_not_closed_again(
    make_world, monkeypatch
):
    """Its end was unseen, and the leader has forgotten it."""
    monkeypatch.setattr("fpgapool.api.handlers.sessions._TRY_S", 0.001)
    lost = fakes.ended(state=states.LOST, reason=codes.HOST_LOST)
    world = make_world(lost)
    world.conductor.end_sessions = lambda ends: [None] * len(ends)
    counts = "generation=4&input_bytes=1000&output_bytes=1000"
    assert world.ask("DELETE", f"{ONE}?{counts}").status_code == 204


def test_a_conductor_of_release_1_0_0_closes_sessions_too(world):
    def unknown(_ends):
        raise messaging.RPCVersionCapError(version="1.1", version_cap="1.0")

    world.backends.ends._call = unknown
    assert world.ask("DELETE", ONE).status_code == 204
    (left,) = world.conductor.views.values()
    assert left.state == states.CANCELLED


def test_what_is_not_closed_is_not_said_to_be(world, monkeypatch):
    monkeypatch.setattr("fpgapool.api.handlers.sessions._TRY_S", 0.01)
    world.conductor.deaf = True
    assert world.error("DELETE", ONE) == (503, codes.CONDUCTOR_UNAVAILABLE)


# Slots that were lost.


def _reopen(world: fakes.Api, generation: int, token: str = fakes.MEMBER):
    body = {"reopen": {"generation": generation}}
    return world.ask("POST", f"{ONE}/reopen", token, body=body)


@pytest.mark.parametrize(
    "lost",
    [
        fakes.view(state=states.ACTIVE, generation=3),
        fakes.view(
            state=states.FAILED, reason=codes.WORKER_DIED, generation=3
        ),
    ],
)
def test_a_session_that_lost_its_slot_waits_again(make_world, lost):
    answer = _reopen(make_world(lost), 3)
    assert answer.status_code == 202
    assert answer.json["session"]["state"] == "QUEUED"


def test_a_slot_that_came_since_is_told_of(make_world):
    world = make_world(fakes.view(generation=4))
    assert _reopen(world, 3).json["session"]["connection"]


@pytest.mark.parametrize(
    ("generation", "code"),
    [(3, codes.SESSION_CLOSED), (4, codes.STALE_GENERATION)],
)
def test_what_has_ended_is_not_reopened(make_world, generation, code):
    ended = fakes.view(state=states.CLOSED, generation=3)
    answer = _reopen(make_world(ended), generation)
    assert answer.status_code == 409
    assert answer.json["errors"][0]["code"] == code


def test_only_members_reopen(make_world):
    world = make_world(fakes.view(state=states.ACTIVE, generation=3))
    for token, status in (
        (fakes.READER, 403),
        (fakes.ADMIN, 403),
        (fakes.STRANGER, 404),
    ):
        assert _reopen(world, 3, token).status_code == status


# Secrets that came too late.


def test_a_secret_is_renewed_for_members(world):
    answer = world.ask("POST", f"{ONE}/renew-secret")
    assert answer.status_code == 202
    assert world.conductor.renewed == [fakes.view().session_id]
    assert answer.json["session"]["connection"]["secret"] == "a" * 64


def test_an_old_secret_is_not_told_for_a_new_one(world, monkeypatch):
    monkeypatch.setattr("fpgapool.api.handlers.sessions._TRY_S", 0.001)
    world.conductor.deaf = True
    answer = world.ask("POST", f"{ONE}/renew-secret")
    assert answer.status_code == 202
    assert answer.json["session"]["connection"] is None
    assert len(world.conductor.renewed) > 1


def test_only_what_is_ready_has_a_secret(make_world):
    world = make_world(fakes.queued())
    assert world.error("POST", f"{ONE}/renew-secret") == (
        409,
        codes.SESSION_NOT_READY,
    )


def test_a_ready_session_may_be_without_its_secret(make_world):
    world = make_world(dataclasses.replace(fakes.view(), secret=""))
    connection = world.ask("GET", ONE).json["session"]["connection"]
    assert connection["secret"] is None


def test_a_client_asks_again_for_a_secret_that_the_leader_did_not_tell(
    make_world, monkeypatch
):
    world = make_world(dataclasses.replace(fakes.view(), secret=""))

    def silent(*_: object) -> str:
        raise messaging.MessagingTimeout

    monkeypatch.setattr(world.conductor, "session_now", silent)
    session = world.ask("GET", ONE).json["session"]
    assert session["connection"] is None
    known = session["revision"]
    assert known < fakes.view().revision
    # A leader has renewed its lease: it can be asked again.
    world.database.lease = dataclasses.replace(
        world.database.lease, renewals=3
    )
    monkeypatch.setattr(
        world.conductor, "session_now", lambda *_: fakes.view()
    )
    query = f"{ONE}?wait_s=60&revision={known}"
    session = world.ask("GET", query).json["session"]
    assert session["connection"]["secret"] == fakes.SECRET


def test_every_refusal_of_a_request_has_a_status():
    told = vars(codes).items()
    wrong = {
        value
        for name, value in told
        if name.startswith(("INVALID_", "UNKNOWN_"))
    } - {
        codes.INVALID_ARGUMENT,
        codes.INVALID_CHECKPOINT,
        codes.INVALID_CONFIGURATION,
        codes.INVALID_INPUT,
        codes.INVALID_PARAMS,
        codes.INVALID_PROFILE,
        codes.INVALID_SETTINGS,
        codes.INVALID_USAGE,
        codes.UNKNOWN_JOB,
        codes.UNKNOWN_OPERATION,
    }
    assert {codes.STATUSES[code] for code in wrong} == {400}
