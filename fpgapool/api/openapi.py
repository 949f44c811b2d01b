# SPDX-License-Identifier: Apache-2.0

"""The API's description as an OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from fpgapool.api.http import microversion
from fpgapool.api.schemas import common

_VARIABLE = re.compile(r"\{(\w+)\}")

_JSON = "application/json"
_OCTETS = "application/octet-stream"
_BYTES = {"type": "string", "format": "binary"}


def document(routes: Iterable[Any]) -> dict[str, Any]:
    """Return the API's description in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operations = paths.setdefault(route.path, {})
        operations[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fpgapool",
            "version": str(microversion.NEWEST),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Auth-Token",
                }
            },
            "schemas": {"Error": common.ERROR},
            "responses": {
                "Error": {
                    "description": "An error.",
                    "content": {
                        _JSON: {
                            "schema": {"$ref": "#/components/schemas/Error"}
                        }
                    },
                }
            },
        },
    }


def _operation(route: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.handler.__module__.rpartition('.')[2]}"
        f"_{route.handler.__name__}",
        "summary": route.summary,
        "x-policy": route.policy,
        "x-since": route.since,
        "parameters": list(_parameters(route)),
        "responses": {
            str(route.status): _response(route),
            **{
                str(status): {
                    "description": route.summary,
                    "content": {_JSON: {"schema": schema}},
                }
                for status, schema in route.other_responses.items()
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if route.public:
        operation["security"] = []
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {_JSON: {"schema": route.body}},
        }
    if route.upload:
        operation["requestBody"] = {
            "required": True,
            "content": {_OCTETS: {"schema": _BYTES}},
        }
    return operation


def _parameters(route: Any) -> Iterator[dict[str, Any]]:
    for name in _VARIABLE.findall(route.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": common.TEXT,
        }
    for name, schema in route.query["properties"].items():
        yield {
            "name": name,
            "in": "query",
            "description": schema.get("description", ""),
            "schema": schema,
        }


def _response(route: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"description": route.summary}
    if route.download:
        response["content"] = {_OCTETS: {"schema": _BYTES}}
    if route.response is not None:
        response["content"] = {_JSON: {"schema": route.response}}
    return response
