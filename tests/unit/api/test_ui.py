# SPDX-License-Identifier: Apache-2.0

"""The files of the live page: who gets them, with which headers."""

from __future__ import annotations

import json
import logging
import pathlib
import re
from typing import Any

import pytest

from fpgapool.api.ui import page
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import microversions
from tests.unit.api import fakes

STATIC = pathlib.Path(page.__file__).parent / "static"
FILES = sorted(one.name for one in STATIC.iterdir())
KEYSTONE = "https://keystone.example.org:5000/identity"

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def _ask(world: Any, path: str, method: str = "GET", **headers: str) -> Any:
    # No token, and not from this machine.
    return world.client.simulate_request(
        method, path, headers=headers, remote_addr="192.0.2.7"
    )


@pytest.mark.parametrize("name", FILES)
def test_file_needs_no_token(world: fakes.Api, name: str) -> None:
    answer = _ask(world, f"/ui/{name}")
    assert answer.status_code == 200
    assert answer.content == (STATIC / name).read_bytes()
    assert answer.headers["content-type"] == TYPES[pathlib.Path(name).suffix]
    assert answer.headers["content-length"] == str(len(answer.content))


def test_directory_is_the_page(world: fakes.Api) -> None:
    assert _ask(world, "/ui/").content == _ask(world, "/ui/index.html").content
    answer = _ask(world, "/ui")
    assert answer.status_code == 308
    assert answer.headers["location"].endswith("/ui/")


BROWSERS = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/html, image/gif, image/jpeg, */*; q=.2",
)


@pytest.mark.parametrize("accept", BROWSERS)
def test_browsers_are_led_to_the_page(world: fakes.Api, accept: str) -> None:
    for method in ("GET", "HEAD"):
        answer = _ask(world, "/", method, Accept=accept)
        assert answer.status_code == 303
        assert answer.headers["location"] == "./ui/"
        assert answer.headers["vary"] == "Accept"
        assert answer.content == b""
    # Only from there: what is below is for programs.
    assert _ask(world, "/v1", Accept=accept).json["version"]["id"] == "v1"


@pytest.mark.parametrize(
    "accept",
    ["application/json", "*/*", "", "application/json, text/html;q=0.9"],
)
def test_programs_get_the_versions(world: fakes.Api, accept: str) -> None:
    answer = _ask(world, "/", Accept=accept)
    assert answer.json["versions"][0]["id"] == "v1"
    assert _ask(world, "/").json == answer.json


def test_head_is_get_without_a_body(world: fakes.Api) -> None:
    for path in ("/ui", "/ui/", "/ui/main.js", "/ui/nothing.js"):
        seen, asked = _ask(world, path), _ask(world, path, "HEAD")
        assert asked.content == b""
        assert asked.status_code == seen.status_code
        for name in ("content-length", "content-type", "etag"):
            assert asked.headers.get(name) == seen.headers.get(name)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_files_can_only_be_read(world: fakes.Api, method: str) -> None:
    answer = _ask(world, "/ui/", method)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.json["errors"][0]["code"] == codes.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    "path",
    [
        "/ui/nothing.js",
        "/ui/main.js/",
        "/ui//main.js",
        "/ui/../page.py",
        "/ui/static/main.js",
        "/ui/%2e%2e/page.py",
        "/ui/..%2fpage.py",
        "/ui/..\\page.py",
        "/ui/%00",
        "/ui/main.js%00.css",
        "/ui/../../../../../../etc/passwd",
        "/ui//etc/passwd",
        "/ui/\u00e9",
        "/ui/" + "a" * 5000,
        "/ui/../v1/pool",
    ],
)
def test_other_paths_are_not_found(world: fakes.Api, path: str) -> None:
    answer = _ask(world, path)
    assert answer.status_code == 404
    assert answer.json["errors"][0]["code"] == codes.PATH_NOT_FOUND
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_similar_path_is_the_apis(world: fakes.Api) -> None:
    """It needs a token there, even to learn that there is nothing."""
    assert _ask(world, "/uix").status_code == 403


def test_unchanged_file_is_not_sent_again(world: fakes.Api) -> None:
    first = _ask(world, "/ui/main.js")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "no-cache"
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = _ask(world, "/ui/main.js", **{"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        assert "content-security-policy" in again.headers
    other = _ask(world, "/ui/main.js", **{"If-None-Match": '"other"'})
    assert other.status_code == 200
    assert _ask(world, "/ui/").headers["etag"] != tag


def _rules(headers: Any) -> dict[str, str]:
    policy = headers["content-security-policy"]
    return dict(one.split(" ", 1) for one in policy.split("; "))


def test_browser_may_do_little(world: fakes.Api) -> None:
    for path in ("/ui/", "/ui/main.js", "/ui/settings.json", "/ui/nothing"):
        headers = _ask(world, path).headers
        assert _rules(headers) == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self'",
            "connect-src": "'self'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
            "require-trusted-types-for": "'script'",
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"


def test_without_keystone(world: fakes.Api) -> None:
    answer = _ask(world, "/ui/settings.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {"authentication": "noauth", "keystone_url": None}


def test_with_keystone(make_world: Any) -> None:
    world = make_world(auth_strategy="keystone")
    answer = _ask(world, "/ui/settings.json")
    assert answer.json == {
        "authentication": "keystone",
        "keystone_url": "http://keystone.example.org",
    }
    connect = _rules(answer.headers)["connect-src"]
    assert connect == "'self' http://keystone.example.org"


@pytest.mark.parametrize(
    ("configured", "url"),
    [
        (KEYSTONE, KEYSTONE),
        (f"{KEYSTONE}/v3", KEYSTONE),
        (f"{KEYSTONE}/v3/", KEYSTONE),
        ("http://[2001:db8::1]:5000/", "http://[2001:db8::1]:5000"),
    ],
)
def test_keystone_url(configured: str, url: str) -> None:
    assert page.keystone_url(configured) == url


@pytest.mark.parametrize(
    "configured",
    [
        *(None, "", "/v3", "keystone", "ftp://keystone", "https://"),
        "javascript:alert(1)",
        "https://keystone; script-src *",
        "https://keystone\r\nX-Header: 1",
        "https://user:password@keystone",
        "https://*",
        "https://keystone/?next=1",
        "https://keystone/\u00e9",
        "https://keystone:port",
    ],
)
def test_unusable_keystone_url(
    configured: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The API runs without it; the log and the page say so."""
    with caplog.at_level(logging.WARNING):
        assert page.keystone_url(configured) is None
    assert "www_authenticate_uri" in caplog.text


def test_policy_names_host_and_port_only() -> None:
    served = page.Page(KEYSTONE, is_open=False)
    headers: dict[str, str] = {}
    body = served(
        {"REQUEST_METHOD": "GET", "PATH_INFO": "/ui/settings.json"},
        lambda _status, found: headers.update(found),
    )
    connect = headers["Content-Security-Policy"]
    assert "connect-src 'self' https://keystone.example.org:5000;" in connect
    assert json.loads(b"".join(body))["keystone_url"] == KEYSTONE


# Ways by which text becomes markup or code, or outlives the page.
_DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\("
    r"|DOMParser|srcdoc|localStorage|sessionStorage|indexedDB|\.cookie"
    r"|setAttribute\(\"(on|style)|style="
)


@pytest.mark.parametrize("name", FILES)
def test_sources_are_plain(name: str) -> None:
    text = (STATIC / name).read_text()
    assert "SPDX-License-Identifier: Apache-2.0" in "".join(
        text.splitlines(keepends=True)[:2]
    )
    assert _DANGEROUS.findall(text) == []
    hosts = set(re.findall(r"https?://[^/\"]+", text))
    # The name of a language, which nothing is loaded from.
    assert hosts <= {"http://www.w3.org"}
    assert all(len(line) <= 79 for line in text.splitlines())


def test_modules_and_files_exist() -> None:
    for name in FILES:
        text = (STATIC / name).read_text()
        found = re.findall(r'from "\./([^"]+)"|(?:src|href)="([^#"]+)"', text)
        for module, file in found:
            assert (module or file) in FILES


def test_page_speaks_the_newest_version() -> None:
    found = re.search(
        r'const VERSION = "fpgapool ([0-9.]+)"',
        (STATIC / "api.js").read_text(),
    )
    assert found is not None
    assert found[1] == microversions.VERSIONS[-1]
