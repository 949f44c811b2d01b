# SPDX-License-Identifier: Apache-2.0

"""Tokens of instances, and what they open."""

import base64
import dataclasses
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.api import routes
from fpgapool.api.http import instances
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import ratelimit
from fpgapool.db import api as db_api
from fpgapool.objects import instance
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

KEY = "k" * 32
VM = str(uuid.UUID(int=0xABC))
OTHER = str(uuid.UUID(int=0xDEF))
NOBODY = str(uuid.UUID(int=0xFFF))
NONCE = "0" * 32
TOKEN = instances.make_token(KEY, VM, NONCE)
USER = instance.user_of(VM)

#: What an instance may do, of all there is.
OPEN = {
    "GET /v1/accelerators",
    "GET /v1/accelerators/{name}",
    "POST /v1/sessions",
    "GET /v1/sessions",
    "GET /v1/sessions/{session_id}",
    "DELETE /v1/sessions/{session_id}",
    "POST /v1/sessions/{session_id}/reopen",
    "POST /v1/sessions/{session_id}/renew-secret",
    "GET /v1/groups",
    "GET /v1/groups/{group_id}",
    "GET /v1/groups/{group_id}/clients",
    "GET /v1/groups/{group_id}/clients/{client_id}",
    "POST /v1/groups/{group_id}/clients",
    "DELETE /v1/groups/{group_id}/clients/{client_id}",
}


def record(instance_id: str = VM, **members) -> db_api.InstanceRecord:
    token = instances.make_token(KEY, instance_id, NONCE)
    values = {
        "id": 1,
        "project_id": "p1",
        "name": "web",
        "token_nonce": NONCE,
        "token_hash": instances.hash_token(token),
        "created_at": 1.7e9,
    }
    return db_api.InstanceRecord(
        instance_id=instance_id, **{**values, **members}
    )


def know(world: fakes.Api, **members) -> None:
    for number, name in enumerate((VM, OTHER)):
        one = record(name, **{"id": number + 1, **members})
        world.database.instances[name] = one


# -- tokens ------------------------------------------------------------------


def test_a_token_is_always_the_same_and_every_ones_own():
    assert instances.make_token(KEY, VM, NONCE) == TOKEN
    others = {
        instances.make_token("j" * 32, VM, NONCE),
        instances.make_token(KEY, OTHER, NONCE),
        instances.make_token(KEY, VM, "1" * 32),
    }
    assert len(others | {TOKEN}) == 4
    assert instances.instance_of(TOKEN) == VM


def test_a_token_is_found_again_with_whichever_key_made_it():
    hash_ = instances.hash_token(TOKEN)
    keys = ["new" * 16, KEY]
    assert instances.find_token(keys, VM, NONCE, hash_) == TOKEN
    assert instances.find_token(keys[:1], VM, NONCE, hash_) is None


@given(st.text() | st.binary(max_size=80).map(lambda b: repr(b)))
def test_what_is_no_token(text):
    assert instances.instance_of(text) is None
    assert instances.instance_of(instances.PREFIX + text) is None or (
        len(text) == 64
    )


@given(st.uuids(), st.binary(min_size=32, max_size=32))
def test_what_a_token_says_of_itself(name, seal):
    text = base64.urlsafe_b64encode(name.bytes + seal).decode()
    assert instances.instance_of(f"fpi_{text}") == str(name)


# -- how often ---------------------------------------------------------------


def test_an_instance_that_asks_too_often_is_told_when_to_come_back(
    make_world, monkeypatch
):
    limiter = ratelimit.Limiter(0.3, 5, lambda: 0.0)
    monkeypatch.setattr(ratelimit, "Limiter", lambda *_: limiter)
    world = make_world()
    know(world)
    other = instances.make_token(KEY, OTHER, NONCE)
    # Wrong tokens take nothing out of anybody's bucket.
    wrong = _damaged(other)["one bit"]
    for token, expected in ((TOKEN, 200), (wrong, 401), (other, 200)):
        for _ in range(5):
            answer = world.ask("GET", "/v1/sessions", token)
            assert answer.status_code == expected
    answer = world.ask("GET", "/v1/sessions", TOKEN, check=False)
    assert answer.status_code == 429
    assert answer.json["errors"][0]["code"] == codes.RATE_LIMITED
    assert answer.headers["Retry-After"] == "4"


# -- who is let in -----------------------------------------------------------


def _damaged(token: str) -> dict[str, str]:
    seal = base64.urlsafe_b64decode(token[4:])[16:]
    foreign = base64.urlsafe_b64encode(uuid.UUID(OTHER).bytes + seal).decode()
    return {
        "short": token[:-1],
        "long": token + "A",
        "absurdly long": "fpi_" + "A" * 100_000,
        "only the prefix": "fpi_",
        "one bit": token[:-1] + ("A" if token[-1] != "A" else "B"),
        "of another instance": f"fpi_{foreign}",
        "of nobody": instances.make_token(KEY, NOBODY, NONCE),
        "of another key": instances.make_token("x" * 32, VM, NONCE),
        "of another time": instances.make_token(KEY, VM, "1" * 32),
        "no base64": "fpi_" + "!" * 64,
        "not ascii": "fpi_" + "\xe9" * 64,
    }


@pytest.mark.parametrize("strategy", ["noauth", "keystone"])
@pytest.mark.parametrize("kind", _damaged(TOKEN))
def test_wrong_tokens_open_nothing(make_world, strategy, kind):
    world = make_world(fakes.view(), auth_strategy=strategy)
    know(world)
    # Of no role that they name themselves either.
    headers = {
        "X-Auth-Token": _damaged(TOKEN)[kind],
        "X-Roles": "admin",
        "X-User-Id": "u",
        "X-Project-Id": "p1",
        "X-Identity-Status": "Confirmed",
    }
    for route in routes.ROUTES:
        if route.public:
            continue
        answer = world.client.simulate_request(
            route.method,
            fakes.path_of(route, instance_id=VM),
            headers=headers,
            remote_addr="127.0.0.1",
        )
        assert answer.status_code == 401, route
        assert answer.json["errors"][0]["code"] == codes.UNAUTHORIZED
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert not world.conductor.requests


@pytest.mark.parametrize(
    "members", [{"deleted_at": 1.8e9}, {"token_revoked": True}]
)
def test_tokens_of_deleted_instances_and_revoked_ones_open_nothing(
    make_world, members
):
    world = make_world()
    know(world, **members)
    for method, path in (("GET", "/v1/sessions"), ("GET", "/v1/pool")):
        assert world.error(method, path, TOKEN) == (401, codes.UNAUTHORIZED)


def test_an_instance_gets_at_sessions_and_groups_alone(make_world):
    world = make_world(fakes.view(user_id=USER), auth_strategy="keystone")
    know(world)
    found = set()
    for route in routes.ROUTES:
        if route.public:
            continue
        # What is sent is not looked at before it is clear who may send it.
        answer = world.ask(
            route.method,
            fakes.path_of(route, instance_id=VM),
            TOKEN,
            check=False,
            body=b"nonsense",
        )
        assert answer.status_code != 401
        if answer.status_code != 403:
            found.add(f"{route.method} {route.path}")
        else:
            assert answer.json["errors"][0]["code"] == codes.FORBIDDEN
    assert found == OPEN


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Auth-Token": TOKEN},
        {"Authorization": f"Bearer {TOKEN}"},
        {"Authorization": f"bEaReR   {TOKEN} "},
        {"X-Auth-Token": "", "Authorization": f"Bearer {TOKEN}"},
    ],
)
def test_ways_to_send_a_token(make_world, headers):
    world = make_world(auth_strategy="keystone")
    know(world)
    answer = world.client.simulate_get("/v1/sessions", headers=headers)
    assert answer.status_code == 200
    assert world.database.asked[-1]["filters"].user_id == USER


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"HTTP_AUTHORIZATION": "Basic Zm9v"},
        {"HTTP_AUTHORIZATION": "Bearer gAAAA"},
        {"HTTP_AUTHORIZATION": TOKEN},
        # Whoever has a token for Keystone is whom Keystone says.
        {
            "HTTP_X_AUTH_TOKEN": "gAAAA",
            "HTTP_AUTHORIZATION": f"Bearer {TOKEN}",
        },
        {"HTTP_X_SERVICE_TOKEN": TOKEN},
        {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_ROLES": "admin"},
    ],
)
def test_other_credentials_are_left_to_keystone(headers):
    seen = []

    def others(environ, start_response):
        seen.append(dict(environ))
        return []

    auth = instances.InstanceAuth(
        others,
        lambda environ, start_response: pytest.fail("not an instance"),
        fakes.FakeDatabase(fakes.FakeConductor()),
        ratelimit.Limiter(0, 1),
    )
    assert auth(dict(headers), lambda *_: None) == []
    assert seen == [headers]


def test_what_headers_say_of_an_instance_is_not_believed(make_world):
    world = make_world(auth_strategy="keystone")
    know(world)
    lies = {
        "X-Roles": "admin,member",
        "X-User-Id": "root",
        "X-Project-Id": "p2",
        "X-Identity-Status": "Confirmed",
        "X-Service-Token": "whatever",
    }
    answer = world.ask("GET", "/v1/sessions", TOKEN, headers=lies)
    assert answer.status_code == 200
    filters = world.database.asked[-1]["filters"]
    assert (filters.project_id, filters.user_id) == ("p1", USER)
    assert world.error("GET", "/v1/hosts", TOKEN, headers=lies)[0] == 403


def test_the_database_being_away_is_not_taken_for_a_wrong_token(make_world):
    world = make_world()
    world.database.failure = fakes.UNAVAILABLE
    answer = world.ask("GET", "/v1/sessions", TOKEN, check=False)
    assert answer.status_code == 503
    assert answer.json["errors"][0]["code"] == codes.DATABASE_UNAVAILABLE
    assert answer.headers["Retry-After"]


# -- sessions of an instance -------------------------------------------------


def test_a_session_is_the_instances_in_its_project(make_world):
    world = make_world()
    know(world)
    body = {"session": {"accelerator": "copy", "claimed_bytes": 5}}
    world.ask("POST", "/v1/sessions", TOKEN, body=body, check=False)
    (request,) = world.conductor.requests
    assert (request.project_id, request.user_id) == ("p1", USER)
    assert request.host_uuid is None


@pytest.mark.parametrize(
    "owner", ["eve", instance.user_of(OTHER), "", "instance:"]
)
def test_sessions_of_others_do_not_exist(make_world, owner):
    view = fakes.view(user_id=owner)
    world = make_world(view)
    know(world)
    base = f"/v1/sessions/{view.session_id}"
    for method, path, body in (
        ("GET", base, None),
        ("DELETE", base, None),
        ("POST", f"{base}/reopen", {"reopen": {"generation": 1}}),
        ("POST", f"{base}/renew-secret", None),
    ):
        found = world.error(method, path, TOKEN, body=body)
        assert found == (404, codes.SESSION_NOT_FOUND), path
    assert not world.conductor.renewed


def test_its_own_session_has_its_secret(make_world):
    view = fakes.view(user_id=USER)
    world = make_world(view)
    know(world)
    path = f"/v1/sessions/{view.session_id}"
    session = world.ask("GET", path, TOKEN).json["session"]
    assert session["connection"]["secret"] == fakes.SECRET
    assert world.ask("DELETE", path, TOKEN).status_code == 204


def test_a_request_name_of_somebody_else_tells_nothing(make_world):
    """Even if the conductor does not look at whose it is."""
    world = make_world()
    know(world)
    world.backends.opens._call = lambda requests: [
        fakes.view(user_id="eve", request_id=one.request_id)
        for one in requests
    ]
    body = {
        "session": {
            "accelerator": "copy",
            "claimed_bytes": 5,
            "request_id": "r1",
        }
    }
    found = world.error("POST", "/v1/sessions", TOKEN, body=body)
    assert found == (409, codes.REQUEST_ID_REUSED)


def test_a_list_shows_its_own_and_markers_of_others_are_none(make_world):
    world = make_world()
    know(world)
    world.database.records = [
        dataclasses.replace(one, project_id="p1")
        for one in world.database.records
    ]
    marker = world.database.records[0].session_id
    path = f"/v1/sessions?marker={marker}"
    assert world.error("GET", path, TOKEN) == (400, codes.INVALID_REQUEST)
    assert world.ask("GET", path, fakes.MEMBER).status_code == 200
    path = "/v1/sessions?all_projects=true"
    assert world.error("GET", path, TOKEN)[0] == 403


def test_the_role_alone_restricts():
    """Somebody to whom Keystone gives the role sees no more by it."""
    caller = context.RequestContext(
        user_id="u", roles=[instances.ROLE, "member"], overwrite=False
    )
    assert instances.owner(caller) == "u"
    caller = context.RequestContext(roles=[instances.ROLE], overwrite=False)
    assert instances.owner(caller) == ""
    caller = context.RequestContext(roles=["member"], overwrite=False)
    assert instances.owner(caller) is None


# -- the list of instances, and revocation -----------------------------------


def test_instances_of_a_project(make_world):
    world = make_world()
    know(world, host_uuid=fakes.HOST, max_sessions=3)
    shown = world.ask("GET", "/v1/instances?limit=1", fakes.READER).json
    (one,) = shown["instances"]
    assert one == {
        "id": VM,
        "project_id": "p1",
        "name": "web",
        "host_uuid": None,
        "max_sessions": 3,
        "token": "valid",
        "created_at": one["created_at"],
    }
    assert TOKEN not in str(shown)
    assert record().token_hash not in str(shown)
    assert f"marker={VM}" in shown["instances_links"][0]["href"]
    path = f"/v1/instances?marker={VM}"
    (other,) = world.ask("GET", path, fakes.READER).json["instances"]
    assert other["id"] == OTHER
    everywhere = world.ask(
        "GET", "/v1/instances?all_projects=true", fakes.ADMIN
    ).json["instances"]
    assert {one["host_uuid"] for one in everywhere} == {fakes.HOST}


@pytest.mark.parametrize(
    ("path", "token", "expected"),
    [
        ("?all_projects=true", fakes.MEMBER, (403, codes.FORBIDDEN)),
        ("?project_id=p1", fakes.ADMIN, (400, codes.INVALID_REQUEST)),
        (f"?marker={VM}", fakes.STRANGER, (400, codes.INVALID_REQUEST)),
        ("?marker=x", fakes.MEMBER, (400, codes.INVALID_REQUEST)),
        ("?nonsense=1", fakes.MEMBER, (400, codes.INVALID_REQUEST)),
    ],
)
def test_lists_that_are_refused(make_world, path, token, expected):
    world = make_world()
    know(world)
    assert world.error("GET", f"/v1/instances{path}", token) == expected


@pytest.mark.parametrize(
    ("token", "status"),
    [
        (fakes.MEMBER, 204),
        (fakes.ADMIN, 204),
        ("boss:p1:manager,member,reader", 204),
        (fakes.READER, 403),
        (fakes.STRANGER, 403),
        ("mallory:p2:manager,member,reader", 404),
        (fakes.SERVICE, 403),
    ],
)
def test_who_takes_a_token_away(make_world, token, status):
    world = make_world()
    know(world)
    path = f"/v1/instances/{VM}/token"
    answer = world.ask("DELETE", path, token)
    assert answer.status_code in (status, 404 if status == 403 else status)
    assert world.conductor.revoked == ([VM] if status == 204 else [])


def test_a_token_that_is_lost_is_not_taken_away_again(make_world):
    world = make_world()
    know(world, token_revoked=True)
    path = f"/v1/instances/{VM}/token"
    assert world.ask("DELETE", path, fakes.MEMBER).status_code == 204
    assert not world.conductor.revoked


@pytest.mark.parametrize("name", [NOBODY, "x", VM + "0", "x" * 999])
def test_instances_that_do_not_exist(make_world, name):
    world = make_world()
    know(world)
    path = f"/v1/instances/{name}/token"
    found = world.error("DELETE", path, fakes.MEMBER)
    assert found == (404, codes.INSTANCE_NOT_FOUND)
