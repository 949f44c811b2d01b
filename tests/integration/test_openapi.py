# SPDX-License-Identifier: Apache-2.0

"""Whatever somebody sends to the API, it is no error of the service.

Requests are made of the API's own description, and against it; conductor,
database and bus behind it are real.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import urllib.parse
import warnings
from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis

from fpgapool.api import routes
from fpgapool.vocabulary import codes
from tests.functional.api import harness
from tests.functional.system.conftest import make_cloud
from tests.functional.system.conftest import pytest_runtest_makereport
from tests.harness import cases
from tests.harness import cloud as clouds
from tests.services import process
from tests.unit.api import answers

pytestmark = pytest.mark.security

__all__ = ["make_cloud", "pytest_runtest_makereport"]

EXAMPLES = 10
MAX_BODY_BYTES = 4096
VARIABLE = re.compile(r"{(\w+)}")
NAME = "fuzzed-api"

#: What the pool may say while all its services are well.
BUSY = {codes.QUEUE_FULL}

PATHS = [
    "..",
    "../../etc/passwd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "a/../../b",
    "\\..\\..\\boot.ini",
    "nul\x00byte",
    "line\r\nX-Injected: 1",
    "' OR '1'='1",
    "{name}",
    "%s%n%x",
    "-1",
    "99999999999999999999999999",
    "0x10",
    "nan",
    "é" * 255,
    "\u202e\U0001f4a9",
    "a" * 2000,
    "00000000-0000-0000-0000-000000000000",
]

#: Of gunicorn, less the method and the version of HTTP.
_MAX_LINE = 4000

REFUSED = (400, 404, 405, 411, 415)

VALUES = [
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    -(2**63) - 1,
    10**400,
    "",
    "\x00",
    "\ud800",
    "a" * 3000,
    [],
    [[]],
    {},
    {"": None},
]


@pytest.fixture(scope="module")
def api(
    service_workspace: process.Workspace, make_cloud
) -> Iterator[harness.Server]:
    """Give the API of a pool that nobody else uses."""
    cloud: clouds.Cloud = make_cloud(clouds.HostPlan("board", slots=1))
    served = harness.Server(
        NAME,
        cloud,
        service_workspace,
        max_body_bytes=MAX_BODY_BYTES,
        max_wait_s=0.1,
        conductor_timeout_s=5,
    )
    served.start()
    yield served
    # The processes are the same ones, and still serve.
    assert served.running
    assert served.ask("GET", "/v1/pool").status == 200
    served.kill()


def _check(answer: harness.Answer) -> None:
    """Check what all answers have in common, errors in particular."""
    assert answer.status != 500, answer.document
    if answer.status >= 500:
        assert answer.code in BUSY, answer.document


def _send(
    api: harness.Server, method: str, path: str, body: object = None
) -> harness.Answer:
    answer = api.ask(method, path, harness.ADMIN_TOKEN, body, check=False)
    _check(answer)
    if len(path) > _MAX_LINE and answer.status == 414:
        # The web server's own answer: the API has not seen it.
        return answer
    if answer.status != 404 or answer.document is not None:
        answers.check(method, path, *answer)
    return answer


def _filled(route: routes.Route, text: str = "x") -> str:
    """Return a route's path with a text for each of its variable parts."""
    names = {
        name: urllib.parse.quote(text.encode(errors="surrogatepass"), safe="")
        for name in VARIABLE.findall(route.path)
    }
    return route.path.format(**names)


def _of(*routes_: routes.Route) -> list[object]:
    return [
        pytest.param(route, id=f"{route.method} {route.path}")
        for route in routes_
    ]


@pytest.mark.parametrize("route", _of(*routes.ROUTES))
@pytest.mark.parametrize(
    "mode",
    cases.some(schemathesis.GenerationMode, lambda mode: mode.is_negative),
)
def test_what_the_description_allows_and_what_not(
    api: harness.Server,
    route: routes.Route,
    mode: schemathesis.GenerationMode,
) -> None:
    schema = schemathesis.openapi.from_dict(routes.description())
    operation = schema[route.path][route.method]
    if mode.is_negative and not (route.body or operation.query):
        # Nothing in it can be wrong but the path.
        return

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case) -> None:
        arguments = case.as_transport_kwargs(base_url="http://pool")
        address = urllib.parse.urlsplit(arguments["url"])
        query = urllib.parse.urlencode(arguments.get("params") or {}, True)
        body = arguments.get("json", arguments.get("data"))
        path = address.path + (f"?{query}" if query else "")
        _send(api, route.method, path, body)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        send()


@pytest.mark.parametrize(
    "route",
    _of(*(route for route in routes.ROUTES if "{" in route.path)),
)
def test_names_like_paths(api: harness.Server, route: routes.Route) -> None:
    for text in PATHS:
        answer = _send(api, route.method, _filled(route, text), {})
        # Whatever Keystone may call a project can have quotas.
        assert answer.status < 400 or answer.status in REFUSED
        assert "x-injected" not in answer.headers


WITH_BODY = _of(*(route for route in routes.ROUTES if route.body))


def _nested(depth: int, *, array: bool) -> bytes:
    if array:
        return b"[" * depth + b"]" * depth
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize("route", WITH_BODY)
def test_bodies_that_are_none(
    api: harness.Server, route: routes.Route
) -> None:
    rng = random.Random(route.path)
    path = _filled(route)
    bodies = [
        b"",
        b"null",
        b"{",
        b"\xff\xfe\x00",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b"1" * MAX_BODY_BYTES,
        _nested(2000, array=True),
        _nested(600, array=False),
        *(rng.randbytes(MAX_BODY_BYTES) for _ in range(5)),
    ]
    for body in bodies:
        answer = _send(api, route.method, path, body)
        assert answer.status in (400, 404), body[:40]
    body = rng.randbytes(2_000_000)
    assert _send(api, route.method, path, body).status in (404, 413)


def _wrong(schema: dict, depth: int = 0) -> Iterator[object]:
    """Return documents with a value of a wrong type somewhere."""
    yield from VALUES
    properties = schema.get("properties", {})
    if depth < 3:
        for name, inner in properties.items():
            for value in _wrong(inner, depth + 1):
                yield {name: value}


@pytest.mark.parametrize("route", WITH_BODY)
def test_values_of_wrong_types(
    api: harness.Server, route: routes.Route
) -> None:
    assert route.body is not None
    path = _filled(route)
    for document in itertools.islice(_wrong(dict(route.body)), 150):
        body = json.dumps(document).encode()
        _send(api, route.method, path, body)


@pytest.mark.parametrize("text", PATHS, ids=ascii)
def test_quotas_of_what_is_no_project(api: harness.Server, text: str) -> None:
    route = next(
        route
        for route in routes.ROUTES
        if (route.method, route.path) == ("PUT", "/v1/quotas/{project_id}")
    )
    body = {"quota": {"sessions": 1}}
    _send(api, route.method, _filled(route, text), body)


def test_headers(api: harness.Server) -> None:
    for value in ("x" * 4000, "fpgapool 99.9", "fpgapool -1.0", "\xff", "é"):
        token = f"admin:{value}"
        answer = api.ask("GET", "/v1/slots", token, check=False)
        _check(answer)
