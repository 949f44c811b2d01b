# SPDX-License-Identifier: Apache-2.0

"""The proxy and the resources, without a service."""

from __future__ import annotations

import argparse
import io
import json
import re
import types
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import openstack
import pytest
import requests
from openstack import connection as connections
from openstack import exceptions

from fpgapool.api import routes
from fpgapool.osc import plugin
from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import session as sessions
from fpgapool.vocabulary import microversions
from tests.unit.osc import fakes

URL = "http://api.example"
ID = fakes.SESSION_ID


class Service:
    """Answers in place of the network.

    :ivar requests: what was asked, with the query or the body.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any, Any]] = []
        self.options: list[dict[str, Any]] = []
        self.answers: list[tuple[int, Any]] = []
        self.raw: list[io.BytesIO] = []

    def request(
        self, url: str, method: str, **options: Any
    ) -> requests.Response:
        """Answer a request of ``keystoneauth1.session.Session``."""
        response = requests.Response()
        response.url = url
        response.status_code = 200
        response.request = requests.Request(method, URL).prepare()
        response.headers["Content-Type"] = "application/json"
        if url.rstrip("/").endswith(("example", "/v1")):
            document: Any = _VERSIONS
        else:
            self.requests.append(
                (method, url, options.get("params"), options.get("json"))
            )
            self.options.append(options)
            response.status_code, document = self.answers.pop(0)
        response._content = json.dumps(document).encode()
        response.raw = io.BytesIO(response.content)
        if options.get("stream"):
            response._content_consumed = False
            response._content = False
            self.raw.append(response.raw)
        return response


_VERSIONS = {
    "versions": [
        {
            "id": "v1",
            "status": "CURRENT",
            "min_version": "1.0",
            "version": "1.4",
            "max_version": "1.4",
            "links": [{"rel": "self", "href": f"{URL}/v1"}],
        }
    ]
}


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def connect(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], connections.Connection]:
    """Give a function that connects to a cloud, of which nothing is real."""

    def run() -> connections.Connection:
        cloud = openstack.connect(
            load_yaml_config=False,
            load_envvars=False,
            auth_type="none",
            auth={"endpoint": URL},
        )
        monkeypatch.setattr(cloud.config.get_session(), "request", _request)
        return cloud

    def _request(url: str, method: str, **options: Any) -> Any:
        if not url.startswith("http"):
            url = f"{URL}/v1/{url.removeprefix('/')}"
        return service.request(url, method, **options)

    return run


@pytest.fixture
def pool(connect: Callable[[], connections.Connection]) -> Any:
    return fpgapool_service.proxy_of(connect())


def test_the_connections_class_stays_as_it_is(
    connect: Callable[[], connections.Connection],
) -> None:
    """Another cloud may have no pool."""
    first, other = connect(), connect()
    pool = fpgapool_service.proxy_of(first)
    assert fpgapool_service.proxy_of(first) is pool
    assert fpgapool_service.proxy_of(other) is not pool
    assert not hasattr(connections.Connection, "fpgapool")


def test_plugin(connect: Callable[[], connections.Connection]) -> None:
    cloud = connect()
    manager = types.SimpleNamespace(sdk_connection=cloud)
    assert plugin.make_client(manager) is fpgapool_service.proxy_of(cloud)
    parser = plugin.build_option_parser(argparse.ArgumentParser())
    given = parser.parse_args(["--os-fpgapool-api-version", "1.2"])
    assert getattr(given, plugin.API_VERSION_OPTION) == "1.2"
    assert microversions.NEWEST in plugin.API_VERSIONS
    assert plugin.DEFAULT_API_VERSION in plugin.API_VERSIONS


_SHARED_WITH = "/v1/bitstreams/{bitstream_id}/projects/{project_id}"
#: Methods of the proxy, and the operation of the API that each is.
CALLS = {
    "get_pool": "GET /v1/pool",
    "pool_hosts": "GET /v1/pool/hosts",
    "get_pool_snapshot": "GET /v1/pool/snapshot",
    "accelerators": "GET /v1/accelerators",
    "get_accelerator": "GET /v1/accelerators/{name}",
    "bitstreams": "GET /v1/bitstreams",
    "create_bitstream": "POST /v1/bitstreams",
    "get_bitstream": "GET /v1/bitstreams/{bitstream_id}",
    "update_bitstream": "PATCH /v1/bitstreams/{bitstream_id}",
    "delete_bitstream": "DELETE /v1/bitstreams/{bitstream_id}",
    "upload_bitstream": "PUT /v1/bitstreams/{bitstream_id}/file",
    "download_bitstream": "GET /v1/bitstreams/{bitstream_id}/file",
    "approve_bitstream": "POST /v1/bitstreams/{bitstream_id}/approve",
    "reject_bitstream": "POST /v1/bitstreams/{bitstream_id}/reject",
    "share_bitstream": f"PUT {_SHARED_WITH}",
    "unshare_bitstream": f"DELETE {_SHARED_WITH}",
    "groups": "GET /v1/groups",
    "create_group": "POST /v1/groups",
    "get_group": "GET /v1/groups/{group_id}",
    "update_group": "PATCH /v1/groups/{group_id}",
    "delete_group": "DELETE /v1/groups/{group_id}",
    "set_group_goal": "PUT /v1/groups/{group_id}/goal",
    "delete_group_goal": "DELETE /v1/groups/{group_id}/goal",
    "group_clients": "GET /v1/groups/{group_id}/clients",
    "get_group_client": "GET /v1/groups/{group_id}/clients/{client_id}",
    "attach_group_client": "POST /v1/groups/{group_id}/clients",
    "revoke_group_client": "DELETE /v1/groups/{group_id}/clients/{client_id}",
    "hosts": "GET /v1/hosts",
    "get_host": "GET /v1/hosts/{host_uuid}",
    "devices": "GET /v1/devices",
    "get_device": "GET /v1/devices/{device_id}",
    "administer_host": "PATCH /v1/hosts/{host_uuid}",
    "administer_device": "PATCH /v1/devices/{device_id}",
    "instances": "GET /v1/instances",
    "revoke_instance_token": "DELETE /v1/instances/{instance_id}/token",
    "get_quota": "GET /v1/quotas",
    "get_quota_of": "GET /v1/quotas/{project_id}",
    "get_default_quota": "GET /v1/quotas/defaults",
    "set_quota": "PUT /v1/quotas/{project_id}",
    "delete_quota": "DELETE /v1/quotas/{project_id}",
    "budgets": "GET /v1/budgets",
    "get_budget": "GET /v1/budgets/{project_id}",
    "set_budget": "PUT /v1/budgets/{project_id}",
    "delete_budget": "DELETE /v1/budgets/{project_id}",
    "reservations": "GET /v1/reservations",
    "create_reservation": "POST /v1/reservations",
    "get_reservation": "GET /v1/reservations/{reservation_id}",
    "update_reservation": "PATCH /v1/reservations/{reservation_id}",
    "delete_reservation": "DELETE /v1/reservations/{reservation_id}",
    "usage": "GET /v1/usage",
    "get_share": "GET /v1/share",
    "slots": "GET /v1/slots",
    "get_slot": "GET /v1/slots/{slot_id}",
    "test_slot": "POST /v1/slots/{slot_id}/test",
    "services": "GET /v1/services",
    "sessions": "GET /v1/sessions",
    "create_session": "POST /v1/sessions",
    "get_session": "GET /v1/sessions/{session_id}",
    "close_session": "DELETE /v1/sessions/{session_id}",
    "reopen_session": "POST /v1/sessions/{session_id}/reopen",
    "renew_session_secret": "POST /v1/sessions/{session_id}/renew-secret",
}
#: What they take besides the parameters of the path.
_MORE: dict[str, dict[str, Any]] = {
    "create_bitstream": {"accelerator": "mine"},
    "update_bitstream": {"description": "new"},
    "upload_bitstream": {"file": io.BytesIO(b"file")},
    "approve_bitstream": {"force": True, "reason": "good"},
    "reject_bitstream": {"reason": "bad"},
    "create_group": {
        "name": "render",
        "accelerator": "aes",
        "size": 2,
        "goal": {"rate_per_s": 5},
    },
    "update_group": {"size": 3, "elastic": True},
    "set_group_goal": {"rate_per_s": 2.5},
    "administer_host": {"state": "enabled"},
    "administer_device": {"state": "draining", "drain_deadline_s": 3},
    "set_budget": {"slot_s": 3},
    "create_reservation": {"accelerator": "aes", "slots": 2},
    "update_reservation": {"slots": 3},
    "set_quota": {"sessions": 3},
    "get_share": {"project_id": "p2", "session_id": ID},
    "test_slot": {"accelerator": "aes"},
    "create_session": {"accelerator": "aes", "claimed_bytes": 1},
    "get_session": {"wait_s": 3, "revision": 0},
    "reopen_session": {"generation": 4},
}
#: Members of the body that are about the named thing, which has them all.
_BODIES = {
    "create_bitstream": "bitstream",
    "update_bitstream": "bitstream",
    "approve_bitstream": "approve",
    "reject_bitstream": "reject",
    "create_group": "group",
    "update_group": "group",
    "set_group_goal": "goal",
    "attach_group_client": "client",
    "set_budget": "budget",
    "create_reservation": "reservation",
    "update_reservation": "reservation",
    "set_quota": "quota",
    "create_session": "session",
    "reopen_session": "reopen",
    "test_slot": "test",
}
#: No person asks for that.
_FOR_NOVA = "POST /v1/vendordata"


def test_every_operation_has_a_method() -> None:
    assert sorted(CALLS.values()) == sorted(
        f"{route.method} {route.path}"
        for route in routes.ROUTES
        if not route.public and f"{route.method} {route.path}" != _FOR_NOVA
    )


@pytest.mark.parametrize("name", CALLS)
def test_call(pool: Any, service: Service, name: str) -> None:
    method, template = CALLS[name].split()
    words = dict.fromkeys(
        (
            *("host_uuid", "device_id", "slot_id", "session_id"),
            *("bitstream_id", "instance_id", "group_id", "client_id"),
            "reservation_id",
        ),
        ID,
    )
    words.setdefault("project_id", "p2")
    words["name"] = "aes"
    more = _MORE.get(name, {})
    kind = "clients" if "clients" in template else template.split("/")[2]
    if template.endswith("/pool/hosts"):
        kind = "hosts"
    document: Any = {kind: []}
    is_list = method == "GET" and template.endswith("s")
    if not is_list and (
        "{" in template or method == "POST" or kind in ("pool", "share")
    ):
        document = {kind.removesuffix("s"): {}}
    service.answers = [(200, document)]
    named = [words[one] for one in re.findall(r"{(\w+)}", template)]
    found = getattr(pool, name.removesuffix("_of"))(*named, **more)
    if isinstance(found, Iterator):
        next(found, None)
    ((sent_method, sent_url, query, body),) = service.requests
    assert (sent_method, sent_url) == (method, URL + template.format(**words))
    if name in _BODIES:
        assert body == {_BODIES[name]: more}
    else:
        assert body == (more if method == "PATCH" else None)
    assert (query or {}) == (more if method == "GET" else {})
    (options,) = service.options
    assert options["microversion"] == microversions.NEWEST


def test_a_test_with_any_accelerator(pool: Any, service: Service) -> None:
    service.answers = [(202, {"slot": {"id": ID, "failures": 3}})]
    assert pool.test_slot(ID).failures == 3
    assert service.requests[0][3] == {"test": {}}


def test_pages(pool: Any, service: Service) -> None:
    """All of them, with the filters of the first."""
    following = f"{URL}/v1/slots?state=idle&marker=b"
    service.answers = [
        (
            200,
            {
                "slots": [{"id": "a"}, {"id": "b"}],
                "slots_links": [{"rel": "next", "href": following}],
            },
        ),
        (200, {"slots": [{"id": "c"}]}),
    ]
    found = pool.slots(state="idle", host_uuid=ID)
    assert [slot.id for slot in found] == ["a", "b", "c"]
    first, second = service.requests
    assert first[2] == {"state": "idle", "host": ID}
    assert second[2]["marker"] == ["b"]


def test_hosts_by_name(pool: Any, service: Service) -> None:
    """The service has no such filter."""
    members = [
        {"id": "a", "host_name": "h1"},
        {"id": "b", "host_name": "h2"},
    ]
    service.answers = [(200, {"devices": members})]
    assert [one.id for one in pool.devices(host_name="h2")] == ["b"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, exceptions.BadRequestException),
        (403, exceptions.ForbiddenException),
        (404, exceptions.NotFoundException),
        (409, exceptions.ConflictException),
        (503, exceptions.HttpException),
    ],
)
def test_errors(
    pool: Any, service: Service, status: int, kind: type[Exception]
) -> None:
    """What the API says is in them, not only what HTTP says."""
    error = {"code": "CODE", "detail": "the reason", "request_id": "req-1"}
    for call in (
        lambda: pool.get_session(ID),
        lambda: list(pool.sessions()),
        lambda: pool.close_session(ID, ignore_missing=False),
    ):
        service.answers = [(status, {"errors": [error]})]
        with pytest.raises(kind, match=r"^the reason \(CODE\)"):
            call()


def test_closing_what_is_not_there(pool: Any, service: Service) -> None:
    service.answers = [(404, {"errors": []})]
    pool.close_session(ID)


def test_secrets_are_not_logged(pool: Any, service: Service) -> None:
    """keystoneauth logs bodies unless it is told not to."""
    service.answers = [
        (200, {"session": {}}),
        (202, {"client": {"id": ID, "secret": "s"}}),
        (200, {"pool": {}}),
    ]
    pool.get_session(ID)
    assert pool.attach_group_client(ID).secret == "s"
    pool.get_pool()
    assert [options.get("log", True) for options in service.options] == [
        False,
        False,
        True,
    ]


def test_when_to_ask_again() -> None:
    response = fakes.answer(200)
    response._content = b'{"session": {"state": "QUEUED", "connection": null}}'
    response.headers["Retry-After"] = "9"
    session = sessions.Session.new(id=ID)
    session._translate_response(response)
    assert session.retry_after_s == 9
    assert session.connection_info is None


def test_a_dry_run_opens_nothing(pool: Any, service: Service) -> None:
    found = {"state": "QUEUED", "reasons": [], "expected_wait_s": 1.0}
    service.answers.append((200, {"dry_run": found}))
    wanted = {"accelerator": "aes", "claimed_bytes": 1}
    assert pool.dry_run_session(**wanted) == found
    (request,) = service.requests
    assert request == (
        "POST",
        f"{URL}/v1/sessions",
        {"dry_run": "true"},
        {"session": wanted},
    )
    assert service.options[0]["microversion"] == microversions.NEWEST


def test_a_download_that_stops_early_closes_the_connection(
    service: Service, pool: Any
) -> None:
    service.answers.append((200, "file"))
    parts = pool.download_bitstream(ID)
    next(parts)
    (answer,) = service.raw
    parts.close()
    assert answer.closed
