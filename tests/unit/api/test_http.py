# SPDX-License-Identifier: Apache-2.0

"""What any client of HTTP expects: HEAD, types of answers, other origins."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import falcon.testing
import pytest

from fpgapool.api import app
from fpgapool.api import routes
from fpgapool.api import schemas
from fpgapool.api.http import errors
from fpgapool.api.schemas import common
from fpgapool.common import exception
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

ORIGIN = "https://dashboard.example.org"
DEVICE = identity.device_id(fakes.HOST, "board0")

SCHEMAS = [
    importlib.import_module(f"{schemas.__name__}.{module.name}")
    for module in pkgutil.iter_modules(schemas.__path__)
]
GETS = [
    pytest.param(route.path, id=route.path)
    for route in routes.ROUTES
    if route.method == "GET" and not route.download and "{" not in route.path
]


@pytest.fixture
def world(make_world: Any) -> Any:
    """Give an API with a session."""
    return make_world(fakes.view())


@pytest.mark.parametrize("path", GETS)
def test_head_is_get_without_a_body(world: Any, path: str) -> None:
    """Same status, same headers, same rights."""
    for token in (fakes.ADMIN, fakes.NOBODY):
        seen = world.ask("GET", path, token, check=False)
        asked = world.ask("HEAD", path, token, check=False)
        assert asked.status_code == seen.status_code
        assert asked.content == b""
        assert asked.headers["content-type"] == seen.headers["content-type"]


def test_head_of_what_is_not_there(world: Any) -> None:
    answer = world.ask("HEAD", "/v1/devices/nothing", fakes.ADMIN, check=False)
    assert (answer.status_code, answer.content) == (404, b"")
    answer = world.ask("HEAD", "/v1/vendordata", check=False)
    assert (answer.status_code, answer.content) == (405, b"")
    assert "HEAD" not in answer.headers["allow"]
    answer = world.ask("PUT", "/v1/slots", body={})
    assert set(answer.headers["allow"].split(", ")) >= {"GET", "HEAD"}


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "*/*",
        "application/json",
        "application/*;q=0.1",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "text/html, application/json",
    ],
)
def test_who_takes_json_is_answered(world: Any, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = world.ask(
        "GET", f"/v1/devices/{DEVICE}", fakes.ADMIN, headers=headers
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "accept", ["text/html", "application/xml", "application/json;q=0"]
)
def test_who_takes_no_json_is_refused(world: Any, accept: str) -> None:
    """Before anything is done, and in JSON: there is nothing else."""
    headers = {"Accept": accept}
    body = {"session": {"accelerator": "copy", "claimed_bytes": 1}}
    for method, path, options in (
        ("GET", f"/v1/devices/{DEVICE}", {}),
        ("POST", "/v1/sessions", {"body": body}),
    ):
        found = world.error(
            method, path, fakes.ADMIN, headers=headers, **options
        )
        assert found == (406, codes.NOT_ACCEPTABLE)
    assert not world.conductor.requests


def test_what_has_no_body_is_for_all(world: Any) -> None:
    path = f"/v1/sessions/{fakes.view().session_id}"
    answer = world.ask("DELETE", path, headers={"Accept": "text/html"})
    assert answer.status_code == 204


def _preflight(application: Any) -> tuple[int, dict[str, str]]:
    """Ask as a browser does before it sends a token.

    :returns: status, and headers by names with lower-case letters.
    """
    environ = falcon.testing.create_environ(
        path="/v1/sessions",
        method="OPTIONS",
        headers={
            "Origin": ORIGIN,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "X-Auth-Token",
        },
    )
    told: list[Any] = []
    b"".join(application(environ, lambda *start: told.append(start)))
    ((status, headers, *_),) = told
    return int(status[:3]), {name.lower(): text for name, text in headers}


@pytest.mark.security
def test_pages_of_other_origins_get_nothing_by_default(world: Any) -> None:
    status, headers = _preflight(world.app)
    assert status >= 400
    assert "access-control-allow-origin" not in headers
    answer = world.ask("GET", "/v1/slots", headers={"Origin": ORIGIN})
    assert "access-control-allow-origin" not in answer.headers


def test_pages_of_an_origin_that_is_allowed(make_world: Any) -> None:
    """A dashboard in a browser sends tokens, and reads what it needs."""
    world = make_world(auth_strategy="keystone")
    world.conf.set_override("allowed_origin", [ORIGIN], group="cors")
    world.client = falcon.testing.TestClient(
        app.build(world.conf, world.backends)
    )
    status, headers = _preflight(world.client.app)
    assert status == 200
    assert headers["access-control-allow-origin"] == ORIGIN
    assert "x-auth-token" in headers["access-control-allow-headers"].lower()
    # Refusals, too: the page shows them.
    answer = world.client.simulate_get("/v1/slots", headers={"Origin": ORIGIN})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    exposed = answer.headers["access-control-expose-headers"].lower()
    for name in ("x-openstack-request-id", "openstack-api-version"):
        assert name in exposed
    other = {"Origin": "https://evil.example.org"}
    answer = world.client.simulate_get("/v1/slots", headers=other)
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.security
def test_the_quota_of_another_project_does_not_exist(world: Any) -> None:
    for token in (fakes.MEMBER, fakes.READER):
        found = world.error("GET", "/v1/quotas/p2", token)
        assert found == (404, codes.PROJECT_NOT_FOUND)
        assert world.ask("GET", "/v1/quotas/p1", token).status_code == 200
    assert world.ask("GET", "/v1/quotas/p2", fakes.ADMIN).status_code == 200


@pytest.mark.parametrize("kind", ["sessions", "instances", "bitstreams"])
def test_the_own_project_may_be_named_in_lists(world: Any, kind: str) -> None:
    plain = world.ask("GET", f"/v1/{kind}").json[kind]
    named = world.ask("GET", f"/v1/{kind}?project_id=p1").json[kind]
    assert named == plain
    if kind != "bitstreams":
        found = world.error("GET", f"/v1/{kind}?project_id=p2")
        assert found == (400, codes.INVALID_REQUEST)


def test_texts_of_a_wrong_form_are_refused_in_words(world: Any) -> None:
    """Never with the regular expression."""
    session = {"accelerator": "aes", "claimed_bytes": 1, "request_id": "?"}
    answer = world.ask("POST", "/v1/sessions", body={"session": session})
    (problem,) = answer.json["errors"]
    assert problem["detail"] == (
        "body.session.request_id: '?' is not 1 to 64 of the characters"
        " A-Z a-z 0-9 _ . : -"
    )


def _patterns(schema: Any) -> set[str]:
    found = set()
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            found.add(schema["pattern"])
        schema = list(schema.values())
    if isinstance(schema, list | tuple):
        found |= set().union(*map(_patterns, schema), set())
    return found


def test_all_forms_of_texts_have_words() -> None:
    used = _patterns([vars(module) for module in SCHEMAS])
    assert len(used) > 8
    assert used <= set(common.WORDS)


@pytest.mark.parametrize(
    "error",
    [
        exception.DatabaseUnavailable(reason="(1050, 'Table x exists')"),
        exception.DatabaseSchemaMismatch(reason="no such column: secret"),
    ],
)
def test_the_words_of_a_database_are_not_shown(error: Exception) -> None:
    told = errors.translate(error)
    assert (told.code, told.status) == (error.code, 503)
    assert "the database is unavailable" in told.detail
    assert "1050" not in told.detail
    assert "column" not in told.detail
