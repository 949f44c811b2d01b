# SPDX-License-Identifier: Apache-2.0

"""The client of the pool's API."""

from __future__ import annotations

import copy
import json
import typing
import urllib.parse

from tempest.lib import exceptions
from tempest.lib.common import rest_client

_VERSION = "/v1"


class PoolClient(rest_client.RestClient):
    """Sends requests; their paths name the resources.

    All methods return the document with its ``response``, and raise the
    exceptions of ``tempest.lib.exceptions``, whose ``resp_body`` is the list
    of errors.
    """

    #: Microversion of the requests; None: without the header.
    api_microversion: str | None = "1.1"
    #: Sent in the place of the user's token; empty: no token at all.
    own_token: str | None = None

    def show(self, *path: str, **query: object) -> typing.Any:
        return self.send("GET", *path, **query)

    def list(self, *path: str, **query: object) -> typing.Any:
        """Return the members of a list."""
        return self.send("GET", *path, **query)[path[-1]]

    def create(
        self, *path: str, expected: int = 202, **body: object
    ) -> typing.Any:
        return self.send("POST", *path, expected=expected, body=body)

    def update(self, *path: str, **body: object) -> typing.Any:
        return self.send("PATCH", *path, body=body)

    def replace(self, *path: str, **body: object) -> typing.Any:
        return self.send("PUT", *path, body=body)

    def delete(self, *path: str, **query: object) -> typing.Any:
        return self.send("DELETE", *path, expected=204, **query)

    def send(
        self,
        method: str,
        *path: str,
        expected: int = 200,
        body: object = None,
        headers: dict[str, str] | None = None,
        **query: object,
    ) -> rest_client.ResponseBody:
        """Send a request.

        :param expected: the status.
        :param body: what JSON is made of, or bytes.
        """
        url = self._root() + "".join(f"/{part}" for part in path)
        if query:
            url += "?" + urllib.parse.urlencode(_plain(query), doseq=True)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
        response, text = self.request(
            method,
            url,
            headers={**self.get_headers(), **(headers or {})},
            body=body,
        )
        self.expected_success(expected, response.status)
        return rest_client.ResponseBody(
            response, json.loads(text) if text else {}
        )

    def with_token(self, token: str) -> PoolClient:
        """Return a client that sends this token; none if it is empty."""
        other = copy.copy(self)
        other.own_token = token
        return other

    def at_version(self, version: str | None) -> PoolClient:
        """Return a client of another microversion."""
        other = copy.copy(self)
        other.api_microversion = version
        return other

    @property
    def url(self) -> str:
        """The API's address, with the version."""
        return f"{self.base_url.rstrip('/')}{self._root()}"

    @property
    def user_token(self) -> str:
        return str(self.auth_provider.get_token())

    def get_headers(
        self, accept_type: str | None = None, send_type: str | None = None
    ) -> dict[str, str]:
        headers: dict[str, str] = super().get_headers(accept_type, send_type)
        if self.api_microversion is not None:
            headers["OpenStack-API-Version"] = (
                f"fpgapool {self.api_microversion}"
            )
        return headers

    def _root(self) -> str:
        # An endpoint in the catalog may have it.
        has_version = self.base_url.rstrip("/").endswith(_VERSION)
        return "" if has_version else _VERSION

    def _request(self, method, url, headers=None, body=None, chunked=False):
        if self.own_token is None:
            return super()._request(method, url, headers, body, chunked)
        if self.own_token:
            headers = {**headers, "X-Auth-Token": self.own_token}
        return self.raw_request(
            f"{self.base_url.rstrip('/')}{url}", method, headers, body
        )

    def _error_checker(self, resp, resp_body):
        try:
            super()._error_checker(resp, resp_body)
        except exceptions.UnexpectedResponseCode as error:
            # It has no body for the statuses that it does not expect.
            error.resp_body = self._parse_resp(resp_body)
            raise


def _plain(query: dict[str, object]) -> dict[str, object]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
    }
