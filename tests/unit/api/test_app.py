# SPDX-License-Identifier: Apache-2.0

"""What all operations have in common, from the outside."""

import contextlib
import dataclasses
import io
import json
import random

import falcon.testing
import oslo_messaging as messaging
import pytest

from fpgapool.api import app
from fpgapool.api import routes
from fpgapool.api.http import errors
from fpgapool.api.http import microversion
from fpgapool.common import exception
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

ROUTES = [
    pytest.param(route, id=f"{route.method} {route.path}")
    for route in routes.ROUTES
]


def test_version_documents_need_no_token(world):
    for path in ("/", "/v1", "/v1/"):
        answer = world.client.simulate_get(path, remote_addr="192.0.2.1")
        assert answer.status_code == 200
    (version,) = world.ask("GET", "/").json["versions"]
    assert version["id"] == "v1"
    assert version["min_version"] == str(microversion.OLDEST)
    assert version["max_version"] == str(microversion.NEWEST)
    (link,) = version["links"]
    assert link["href"] == "http://localhost/v1"


def test_healthcheck_is_outside_of_everything(world):
    answer = world.client.simulate_get("/healthcheck", remote_addr="192.0.2.1")
    assert answer.status_code == 200
    assert "openstack-api-version" not in answer.headers


@pytest.mark.parametrize("address", ["192.0.2.1", "", "localhost", "::ffff:1"])
def test_without_authentication_only_this_machine_is_served(world, address):
    assert world.error("GET", "/v1/pool", remote_addr=address) == (
        403,
        codes.FORBIDDEN,
    )


def test_a_header_does_not_make_a_request_local(make_world):
    world = make_world()
    world.conf.set_override(
        "enable_proxy_headers_parsing", True, group="oslo_middleware"
    )
    answer = world.ask(
        "GET",
        "/v1/pool",
        remote_addr="192.0.2.1",
        headers={"X-Forwarded-For": "127.0.0.1"},
    )
    assert answer.status_code == 403


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_is_served(world, address):
    answer = world.ask("GET", "/v1/pool", remote_addr=address)
    assert answer.status_code == 200


def test_what_is_not_public_needs_a_token_where_there_is_keystone(make_world):
    world = make_world(auth_strategy="keystone")
    for route in routes.ROUTES:
        answer = world.client.simulate_request(
            route.method, fakes.path_of(route)
        )
        if route.public:
            assert answer.status_code == 200
            continue
        assert answer.status_code == 401
        (error,) = answer.json["errors"]
        assert error["code"] == codes.UNAUTHORIZED
        assert error["request_id"] == answer.headers["x-openstack-request-id"]
        assert "keystone" in answer.headers["www-authenticate"].lower()


@pytest.mark.parametrize("route", ROUTES)
def test_what_is_not_public_fails_closed(world, route):
    """Whatever is wrong around it, Falcon serves nobody unknown."""
    bare = app.make_handlers(world.backends, routes.ROUTES)
    client = type(world.client)(bare)
    answer = client.simulate_request(
        route.method,
        fakes.path_of(route),
        headers={"OpenStack-API-Version": f"fpgapool {route.since}"},
    )
    assert answer.status_code == (200 if route.public else 401)


def test_unknown_paths(world):
    for path in ("/v2", "/v1/nothing", "/v1/sessions/x/y", "/v1//pool"):
        assert world.error("GET", path) == (404, codes.PATH_NOT_FOUND)


def test_methods_that_are_not_there(world):
    answer = world.ask("PUT", "/v1/sessions", body={})
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) >= {"GET", "POST"}
    assert world.error("DELETE", "/")[1] == codes.METHOD_NOT_ALLOWED


def test_versions_are_named_and_checked(world):
    newest = str(microversion.NEWEST)
    for wanted, version in (
        ("", "1.0"),
        ("fpgapool 1.0", "1.0"),
        ("compute 2.1", "1.0"),
        (f"fpgapool {newest}", newest),
        ("fpgapool latest", newest),
    ):
        answer = world.ask(
            "GET", "/v1/pool", headers={"OpenStack-API-Version": wanted}
        )
        assert answer.headers["openstack-api-version"] == f"fpgapool {version}"
    for wanted in ("fpgapool 1.999", "fpgapool", "fpgapool 1.0 1.0"):
        assert world.error(
            "GET", "/v1/pool", headers={"OpenStack-API-Version": wanted}
        ) == (406, codes.VERSION_NOT_ACCEPTABLE)


class _Body(io.BytesIO):
    """Counts what is read of it."""

    asked_bytes = 0

    def read(self, size=-1):
        piece = super().read(size)
        self.asked_bytes += len(piece)
        return piece


@pytest.mark.parametrize(
    ("path", "size_bytes", "read_bytes"),
    [
        ("/v1/pool", 100_000, 100_000),
        # Whoever asks is unknown.
        ("/", 100_000, 0),
        # No use: it would not be enough.
        ("/v1/pool", 2**30, 0),
    ],
)
def test_refused_bodies_are_read_on(world, path, size_bytes, read_bytes):
    body = _Body(bytes(200_000))
    environ = falcon.testing.create_environ(
        path=path,
        method="DELETE",
        headers={
            "X-Auth-Token": fakes.MEMBER,
            "Host": "localhost",
            "Content-Length": str(size_bytes),
        },
        remote_addr="127.0.0.1",
    )
    environ["wsgi.input"] = body
    statuses = []
    world.app(environ, lambda status, *_: statuses.append(status))
    assert statuses[0].startswith("405")
    assert body.asked_bytes == read_bytes


class _Late(io.BytesIO):
    def read(self, size=-1):
        raise TimeoutError("timed out")


@pytest.mark.parametrize("body", [io.BytesIO(b"{}"), _Late()])
def test_a_body_that_does_not_come_is_no_request(world, body):
    environ = falcon.testing.create_environ(
        path="/v1/sessions",
        method="POST",
        headers={
            "X-Auth-Token": fakes.MEMBER,
            "Host": "localhost",
            "Content-Type": "application/json",
            "Content-Length": "200",
        },
        remote_addr="127.0.0.1",
    )
    environ["wsgi.input"] = body
    statuses = []
    answer = world.app(environ, lambda status, *_: statuses.append(status))
    assert statuses[0].startswith("400")
    (error,) = json.loads(b"".join(answer))["errors"]
    assert error["code"] == codes.INVALID_REQUEST
    assert " received" in error["detail"]


def test_bodies_have_a_limit_and_a_type(make_world):
    world = make_world(max_body_bytes=1024)
    path = "/v1/sessions"
    assert world.error("POST", path, body=b"[" * 1025) == (
        413,
        codes.BODY_TOO_LARGE,
    )
    for content_type in ("text/plain", "application/jsonp", ""):
        assert world.error(
            "POST", path, body={}, headers={"Content-Type": content_type}
        ) == (415, codes.UNSUPPORTED_MEDIA_TYPE)
    answer = world.ask(
        "POST",
        path,
        body={"session": {"accelerator": "copy", "claimed_bytes": 1}},
        headers={"Content-Type": "application/json; charset=UTF-8"},
    )
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (messaging.MessagingTimeout(), (503, codes.CONDUCTOR_UNAVAILABLE)),
        (
            messaging.MessageDeliveryFailure("amqp://user:pw@bus"),
            (503, codes.CONDUCTOR_UNAVAILABLE),
        ),
        (fakes.UNAVAILABLE, (503, codes.DATABASE_UNAVAILABLE)),
        (
            exception.InvalidRequest(reason="no"),
            (400, codes.INVALID_REQUEST),
        ),
        (messaging.RemoteError("E", "pw"), (500, codes.INTERNAL_ERROR)),
        (exception.DatabaseError(reason="pw"), (500, codes.INTERNAL_ERROR)),
        (RuntimeError("pw"), (500, codes.INTERNAL_ERROR)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_fails_behind_is_told_by_a_code_alone(
    world, error, expected, caplog
):
    world.conductor.failure = error
    wanted = {"session": {"accelerator": "copy", "claimed_bytes": 1}}
    answer = world.ask("POST", "/v1/sessions", body=wanted)
    (told,) = answer.json["errors"]
    assert (answer.status_code, told["code"]) == expected
    assert "pw" not in answer.text
    logged = [one for one in caplog.records if one.name == app.__name__]
    assert len(logged) == (expected[0] >= 500)
    for record in logged:
        assert expected[1] in record.getMessage()
        # A line for what is away, the place for a fault of the service.
        assert bool(record.exc_info) == (expected[0] == 500)


def test_what_fails_outside_of_falcon_is_told_alike(world):
    class Broken:
        def allows(self, *_: object) -> bool:
            raise AssertionError

    def broken(environ, start_response):
        raise RuntimeError("pw")

    shielded = app.middleware.Shield(broken)
    answer = type(world.client)(shielded).simulate_get("/")
    assert answer.status_code == 500
    assert answer.json["errors"][0]["code"] == codes.INTERNAL_ERROR
    assert "pw" not in answer.text


def test_a_remote_error_does_not_bring_its_traceback():
    error = exception.InvalidRequest(reason="no")
    kind = type("InvalidRequest_Remote", (exception.InvalidRequest,), {})
    kind.__str__ = lambda self: "Traceback (most recent call last)"
    error.__class__ = kind
    assert errors.translate(error).detail == "no"


def test_a_route_of_a_later_version_is_not_in_an_earlier_one(
    make_world, monkeypatch
):
    monkeypatch.setattr(microversion, "VERSIONS", ("1.0", "1.1"))
    pool = next(r for r in routes.ROUTES if r.path == "/v1/pool")
    world = make_world(table=[dataclasses.replace(pool, since="1.1")])
    old, new = (
        {"OpenStack-API-Version": f"fpgapool {version}"}
        for version in ("1.0", "1.1")
    )
    assert world.error("GET", "/v1/pool", headers=old) == (
        404,
        codes.PATH_NOT_FOUND,
    )
    answer = world.ask("GET", "/v1/pool", headers=new)
    assert answer.headers["openstack-api-version"] == "fpgapool 1.1"


_PIECES = (
    b"{", b"}", b"[", b"]", b":", b",", b'"', b'"session"', b"NaN", b"1e400",
    b"-1", b"null", b"true", b"\x00", b"\xff\xfe", b"\\ud800", b'"\\u0000"',
    b'"accelerator"', b'"claimed_bytes"', b"9" * 5000, b" ", b"1e300",
)  # fmt: skip


def test_no_body_makes_the_service_fail(world):
    rng = random.Random(20260)
    for _ in range(300):
        body = b"".join(rng.choices(_PIECES, k=rng.randrange(1, 12)))
        answer = world.ask("POST", "/v1/sessions", body=body)
        assert answer.status_code < 500, body
    assert not world.conductor.requests
    nested = b'{"session":' + b"[" * 60000
    assert world.error("POST", "/v1/sessions", body=nested)[0] == 400


_VALUES = (None, True, -1, 0, 1, 1.5, 1e300, 2**70, "", "x", "\x00", "é\ud800",
           "a" * 300, [], [1], {}, {"a": 1})  # fmt: skip


def test_no_member_of_a_body_makes_the_service_fail(world):
    rng = random.Random(20261)
    names = [
        *routes.session_schemas.CREATE["properties"]["session"]["properties"],
        "novelty",
    ]
    for _ in range(500):
        session = {"accelerator": "copy", "claimed_bytes": 5}
        for name in rng.sample(names, k=2):
            session[name] = rng.choice(_VALUES)
        answer = world.ask("POST", "/v1/sessions", body={"session": session})
        assert answer.status_code in (202, 400), session
    for request in world.conductor.requests:
        assert type(request.claimed_bytes) is int
        assert type(request.priority) is int
        request.from_primitive(request.to_primitive())


def test_no_query_makes_the_service_fail(world):
    rng = random.Random(20262)
    values = ("", "x", "1", "-1", "nan", "inf", "%00", "%ff", "1" * 5000)
    for route in routes.ROUTES:
        if route.method != "GET":
            continue
        for name in (*route.query["properties"], "novelty"):
            for value in rng.sample(values, k=4):
                query = f"{name}={value}&{name}={rng.choice(values)}"
                answer = world.ask(
                    "GET", f"{fakes.path_of(route)}?{query}", fakes.ADMIN
                )
                assert answer.status_code in (200, 400, 404), query


def test_a_project_with_too_many_requests_is_told_to_come_later(make_world):
    """Others are answered, and so is everybody when some have ended."""
    world = make_world()
    most = world.backends.limits.max_project_requests
    path = f"/v1/sessions/{fakes.view().session_id}"
    with contextlib.ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(world.backends.crowd.place("p1"))
        answer = world.ask("GET", path)
        assert (answer.status_code, answer.json["errors"][0]["code"]) == (
            429,
            codes.RATE_LIMITED,
        )
        assert int(answer.headers["retry-after"]) > 0
        other = world.ask("GET", "/v1/sessions", "eve:p2:member,reader")
        assert other.status_code == 200
        # Nobody is asked who it is.
        assert world.ask("GET", "/v1").status_code == 200
    assert world.ask("GET", "/v1/sessions").status_code == 200
