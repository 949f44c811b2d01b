# SPDX-License-Identifier: Apache-2.0

"""What every answer of the API must be like."""

import re
from collections.abc import Mapping
from typing import Any

import jsonschema

from fpgapool.api import routes
from fpgapool.api.http import errors
from fpgapool.api.http import microversion
from fpgapool.api.schemas import common
from fpgapool.vocabulary import codes

_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def route_of(method: str, path: str) -> routes.Route | None:
    """Return the route of a request.

    :param path: with or without a query.
    """
    plain = path.partition("?")[0].rstrip("/") or "/"
    for route in routes.ROUTES:
        pattern = re.sub(r"\{\w+\}", "[^/]+", route.path)
        if route.method == method and re.fullmatch(pattern, plain):
            return route
    return None


def check(
    method: str,
    path: str,
    status: int,
    headers: Mapping[str, str],
    document: Any,
) -> None:
    """Check an answer against the schemas and what all have in common.

    :param headers: whose names have lower-case letters.
    """
    assert _REQUEST_ID.fullmatch(headers["x-openstack-request-id"])
    route = route_of(method, path)
    if status >= 400:
        _check_error(status, headers, document)
    else:
        assert route is not None
        assert status in (route.status, *route.other_responses)
        response = route.other_responses.get(status, route.response)
        if response is None:
            assert document is None
        else:
            _validate(document, response)
    if not _refused_before(status, document) or route is None:
        assert headers["openstack-api-version"].startswith("fpgapool 1.")
        assert microversion.HEADER in headers["vary"]


def _refused_before(status: int, document: Any) -> bool:
    """Whether nobody may have looked at the version."""
    if status == 503:
        return document["errors"][0]["code"] == codes.KEYSTONE_UNAVAILABLE
    return status in (401, 403, 500)


def _check_error(
    status: int, headers: Mapping[str, str], document: Any
) -> None:
    _validate(document, common.ERROR)
    (error,) = document["errors"]
    assert error["status"] == status
    assert errors.STATUSES.get(error["code"], 500) == status
    assert error["request_id"] == headers["x-openstack-request-id"]
    if status in (429, 503):
        assert int(headers["retry-after"]) > 0
    if status == 405:
        assert headers["allow"]


def _validate(document: Any, schema: Mapping[str, Any]) -> None:
    # Whether the schemas are valid is for another test.
    jsonschema.Draft202012Validator(schema).validate(document)
