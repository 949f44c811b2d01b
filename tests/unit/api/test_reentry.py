# SPDX-License-Identifier: Apache-2.0

"""A sign-in that outlives a reload of the live page, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cryptography import fernet

from fpgapool.api.ui import reentry
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

pytestmark = pytest.mark.security

TOKEN = "gAAAAABo-secret_token=="
PAGE = {reentry.HEADER: "1", "Sec-Fetch-Site": "same-origin"}


def _ask(world: fakes.Api, method: str, **headers: str) -> Any:
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    return world.client.simulate_request(
        method, reentry.PATH, headers={**PAGE, **sent}
    )


def _keep(world: fakes.Api, **headers: str) -> str:
    """Keep the token; return the header that sets the cookie."""
    answer = _ask(world, "PUT", X_Auth_Token=TOKEN, **headers)
    assert answer.status_code == 204
    found: str = answer.headers["set-cookie"]
    return found


def _value(header: str) -> str:
    return header.partition(";")[0]


def test_token_comes_back(world: fakes.Api) -> None:
    cookie = _value(_keep(world))
    answer = _ask(world, "GET", Cookie=f"other=1; {cookie}")
    assert answer.json == {"token": TOKEN}
    assert answer.headers["cache-control"] == "no-store"
    assert _ask(world, "GET").json == {"token": None}


def test_cookie_says_as_little_as_possible(world: fakes.Api) -> None:
    """No script reads it, no other site causes it to be sent, it ends soon,
    and whoever reads it does not have the token.
    """
    header = _keep(world)
    attributes = set(header.split("; ")[1:])
    assert attributes == {
        f"Max-Age={reentry.LIFE_S}",
        "HttpOnly",
        "SameSite=Strict",
    }
    assert TOKEN not in header
    assert reentry.LIFE_S <= 15 * 60


def test_cookie_of_tls_needs_tls(world: fakes.Api) -> None:
    header = _keep(world, Origin="https://fpgapool.example.org")
    assert "Secure" in header.split("; ")
    plain = _keep(world, Origin="http://127.0.0.1:8778")
    assert "Secure" not in plain.split("; ")


def test_signing_out_deletes_it(world: fakes.Api) -> None:
    answer = _ask(world, "DELETE")
    assert answer.status_code == 204
    header = answer.headers["set-cookie"]
    assert header.startswith(f"{reentry.COOKIE}=;")
    assert "Max-Age=0" in header


def test_it_ends_whatever_the_browser_does(
    world: fakes.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    cookie = _value(_keep(world))
    now_s = fernet.time.time()
    monkeypatch.setattr(
        fernet.time, "time", lambda: now_s + reentry.LIFE_S + 2
    )
    assert _ask(world, "GET", Cookie=cookie).json == {"token": None}


def test_cookie_of_another_service_is_nothing(
    world: fakes.Api, make_world: Any
) -> None:
    cookie = _value(_keep(make_world()))
    assert _ask(world, "GET", Cookie=cookie).json == {"token": None}


@pytest.mark.parametrize(
    "value",
    ["", "x", "a" * 5000, TOKEN, '"', "\\", "é", "gAAAAAB", ";;=;", "\x7f"],
)
def test_bad_cookies_are_nothing(world: fakes.Api, value: str) -> None:
    kept = reentry.Reentry()
    environ = {
        "REQUEST_METHOD": "GET",
        f"HTTP_{reentry.HEADER.upper().replace('-', '_')}": "1",
        "HTTP_COOKIE": f"{reentry.COOKIE}={value}",
    }
    body = b"".join(kept(environ, lambda *_: None))
    assert body == b'{"token": null}'


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "wrong",
    [
        {reentry.HEADER: ""},
        {reentry.HEADER: "true"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_other_sites_are_refused(
    world: fakes.Api, method: str, wrong: dict[str, str]
) -> None:
    cookie = _value(_keep(world))
    answer = _ask(
        world, method, Cookie=cookie, X_Auth_Token="attacker", **wrong
    )
    assert answer.status_code == 403
    assert answer.json["errors"][0]["code"] == codes.FORBIDDEN
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text


def test_browsers_ask_before_others_may_send_the_header(
    world: fakes.Api,
) -> None:
    """A preflight gets no leave."""
    answer = _ask(
        world,
        "OPTIONS",
        Origin="https://evil.example.org",
        Access_Control_Request_Method="GET",
        Access_Control_Request_Headers=reentry.HEADER,
    )
    assert answer.status_code == 405
    assert not any(
        name.startswith("access-control") for name in answer.headers
    )


@pytest.mark.parametrize("method", ["POST", "PATCH", "HEAD", "TRACE"])
def test_other_methods(world: fakes.Api, method: str) -> None:
    answer = _ask(world, method, X_Auth_Token=TOKEN)
    assert answer.status_code == 405
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("token", ["", "a b", "a" * 2501, "a\tb", "é"])
def test_what_is_no_token(world: fakes.Api, token: str) -> None:
    answer = _ask(world, "PUT", X_Auth_Token=token)
    assert answer.status_code == 400
    assert "set-cookie" not in answer.headers


def test_longest_cookie_fits_into_browsers(world: fakes.Api) -> None:
    answer = _ask(world, "PUT", X_Auth_Token="a" * 2500)
    assert len(answer.headers["set-cookie"]) < 4096


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/quotas"),
        ("GET", "/v1/sessions"),
        ("DELETE", "/v1/sessions/00000000-0000-0000-0000-000000000001"),
        ("GET", "/ui/memory.json"),
    ],
)
def test_the_api_takes_no_cookie(
    make_world: Any, method: str, path: str
) -> None:
    """What another site causes a browser to send is nobody's request."""
    world = make_world(auth_strategy="keystone")
    header = _keep(world)
    answer = world.client.simulate_request(
        method, path, headers={"Cookie": _value(header)}
    )
    assert answer.status_code == 401


def test_the_cookie_stays_below_the_page(world: fakes.Api) -> None:
    """Without a path, browsers take the directory of the request's."""
    assert re.search("path|domain", _keep(world), re.IGNORECASE) is None
