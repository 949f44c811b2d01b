# SPDX-License-Identifier: Apache-2.0

"""Commands with a proxy that asks nobody, and answers of the API."""

from __future__ import annotations

import argparse
import functools
import io
import json
import types
from typing import Any
from unittest import mock

import requests
from keystoneauth1 import identity as keystone
from openstack import exceptions
from openstack.test import fakes
from osc_lib.command import command

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy
from fpgapool.osc.sdk import session as sessions

SESSION_ID = "0a0a0a0a-0000-4000-8000-000000000001"
SECRET = "5ec7e7" * 8
#: Connected to nothing: it has the signatures.
_REAL = object.__new__(proxy.Proxy)


@functools.cache
def _whole() -> Any:
    """Return a proxy with all methods; making them takes long."""
    return fakes.generate_fake_proxy(fpgapool_service.FpgapoolService)


class Client:
    """The methods of the SDK's proxy, each made when it is asked for.

    A call that the real one would not take is an error, too.
    """

    def __init__(self) -> None:
        self._calls = mock.Mock()

    @property
    def mock_calls(self) -> Any:
        """All calls of all methods."""
        return self._calls.mock_calls

    def __getattr__(self, name: str) -> Any:
        default = getattr(_whole(), name).side_effect
        double = mock.create_autospec(getattr(_REAL, name))
        double.side_effect = default
        self._calls.attach_mock(double, name)
        setattr(self, name, double)
        return double


class App:
    """What a command sees of the shell.

    :ivar client: a proxy with the methods of the real one.
    :ivar identity: stands for Keystone, which knows no project.
    """

    def __init__(self) -> None:
        self.client: Any = Client()
        self.identity = mock.Mock()
        self.client_manager = types.SimpleNamespace(
            fpgapool=self.client,
            sdk_connection=types.SimpleNamespace(
                identity=self.identity,
                session=types.SimpleNamespace(
                    auth=keystone.Password("http://k")
                ),
            ),
        )
        self.know_projects({})
        self.stdout = io.StringIO()
        self.stderr = io.StringIO()
        self.options = argparse.Namespace(debug=False)

    def know_projects(self, projects: dict[str, str]) -> None:
        """Have Keystone know projects."""

        def find_project(name: str, **_: Any) -> Any:
            found = name if name in projects.values() else projects.get(name)
            return found and types.SimpleNamespace(id=found)

        self.identity.find_project.side_effect = find_project

    def run(self, class_: type[command.Command], *arguments: str) -> int:
        """Run a command."""
        made = class_(self, None)
        return made.run(made.get_parser("fpga test").parse_args(arguments))

    def rows(self, class_: type[command.Command], *arguments: str) -> Any:
        """Run a command and return what it writes as JSON."""
        assert self.run(class_, *arguments, "-f", "json") == 0
        return json.loads(self.stdout.getvalue())


def session(**members: Any) -> sessions.Session:
    """Return a session that is READY."""
    values: dict[str, Any] = {
        "id": SESSION_ID,
        "state": "READY",
        "reason": "",
        "message": "",
        "revision": 3,
        "queue_position": None,
        "expected_wait_s": None,
        "expected_wait_low_s": None,
        "expected_wait_high_s": None,
        "pending_reasons": [],
        "placement": {"device": "board0", "slot": 1},
        "connection_info": {"endpoints": [], "secret": SECRET},
    }
    return fakes.generate_fake_resource(
        sessions.Session, **{**values, **members}
    )


def refusal(
    status: int,
    code: str = "",
    detail: str = "",
    retry_after: str | None = None,
) -> exceptions.HttpException:
    """Return what is raised when the API refuses.

    :param code: of the API; without one, the answer is another server's.
    """
    response = answer(status, code, detail)
    if retry_after is not None:
        response.headers["Retry-After"] = retry_after
    try:
        exceptions.raise_from_response(response)
    except exceptions.HttpException as error:
        return error
    raise AssertionError("it is no refusal")


def answer(status: int, code: str = "", detail: str = "") -> requests.Response:
    """Return an answer of HTTP."""
    response = requests.Response()
    response.status_code = status
    response.url = "http://api.example/v1/sessions"
    response.request = requests.Request("GET", response.url).prepare()
    response.headers["Content-Type"] = "application/json"
    response._content = b"<html>Bad Gateway</html>"
    if code:
        error = {"code": code, "detail": detail, "request_id": "req-7"}
        response._content = json.dumps({"errors": [error]}).encode()
    return response
