# SPDX-License-Identifier: Apache-2.0

"""What the log says of each request, and of none but it."""

from __future__ import annotations

from typing import Any

import pytest
from keystonemiddleware import auth_token
from keystonemiddleware.auth_token import _identity
from oslo_context import context

LOGGER = "fpgapool.api.http.access_log"
GLOBAL_ID = "req-12345678-1234-1234-1234-1234567890ab"


@pytest.mark.security
def test_no_request_has_the_context_of_the_one_before(
    make_world, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is logged while a token is checked names no other user."""
    seen: list[Any] = []

    def verify(*_: object, **__: object) -> None:
        seen.append(context.get_current())
        raise auth_token.InvalidToken

    monkeypatch.setattr(_identity.IdentityServer, "verify_token", verify)
    asked = make_world(auth_strategy="keystone")
    # In this thread, as the next one.
    assert make_world().ask("GET", "/v1/pool").status_code == 200
    answer = asked.client.simulate_get(
        "/v1/slots",
        headers={
            "X-Auth-Token": "gAAAAB",
            "X-Openstack-Request-Id": GLOBAL_ID,
        },
    )
    assert answer.status_code == 401
    (found,) = seen
    assert (found.user_id, found.project_id) == (None, None)
    assert found.request_id == answer.headers["x-openstack-request-id"]
    assert found.global_request_id == GLOBAL_ID


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == LOGGER and record.levelname == "INFO"
    ]


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "/v1/nothing": (404, {}),
    "/v1/hosts": (403, {}),
    "/v1/slots": (403, {"remote_addr": "192.0.2.1"}),
}


def test_a_line_for_each_request(
    world, caplog: pytest.LogCaptureFixture
) -> None:
    """Method, path, status, who asked, and both ids."""
    caplog.set_level("INFO")
    answer = world.ask(
        "GET",
        "/v1/pool",
        params={"a": "secret"},
        check=False,
        headers={"X-Openstack-Request-Id": GLOBAL_ID},
    )
    own = answer.headers["x-openstack-request-id"]
    assert _lines(caplog) == [
        f"GET /v1/pool {answer.status_code} user=eve project=p1"
        f" request_id={own} global_request_id={GLOBAL_ID}"
    ]


@pytest.mark.parametrize("path", REFUSED)
def test_a_line_for_each_refused_request(
    world, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """What a client tells an operator is in the log."""
    caplog.set_level("INFO")
    status, options = REFUSED[path]
    answer = world.ask("GET", path, **options)
    (error,) = answer.json["errors"]
    (line,) = _lines(caplog)
    assert line.startswith(f"GET {path} {status} ")
    assert f"request_id={error['request_id']} " in line
    known = "user=eve project=p1" if not options else "user=- project=-"
    assert known in line


def test_a_line_for_each_request_without_a_token(
    make_world, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is known of who asked; an earlier request's user is not told."""
    caplog.set_level("INFO")
    asked = make_world(auth_strategy="keystone")
    assert make_world().ask("GET", "/v1/pool").status_code == 200
    caplog.clear()
    answer = asked.client.simulate_get("/v1/pool")
    own = answer.headers["x-openstack-request-id"]
    assert _lines(caplog) == [
        "GET /v1/pool 401 user=- project=-"
        f" request_id={own} global_request_id=-"
    ]


@pytest.mark.security
def test_a_request_writes_one_line_only(
    world, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its parts are made of."""
    caplog.set_level("INFO")
    world.client.simulate_request(
        "GET",
        "/v1/slots/a%0d%0aGET%20/v1/pool%20200%E2%80%AE",
        headers={"X-Auth-Token": "a\tb c:p=1:reader"},
        remote_addr="127.0.0.1",
    )
    (line,) = _lines(caplog)
    assert line.isprintable()
    assert line.isascii()
    assert len(line.split(" ")) == 7
    # As it came, and not longer than a line should be.
    assert line.startswith(
        "GET /v1/slots/a%0D%0AGET%20/v1/pool%20200%E2%80%AE"
    )
    caplog.clear()
    world.ask("GET", "/v1/slots/" + "x" * 5000)
    assert len(_lines(caplog)[0]) < 700


def test_a_health_check_leaves_no_line(
    world, caplog: pytest.LogCaptureFixture
) -> None:
    """There is one every few seconds."""
    caplog.set_level("INFO")
    assert world.client.simulate_get("/healthcheck").status_code == 200
    assert _lines(caplog) == []
