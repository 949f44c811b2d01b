# SPDX-License-Identifier: Apache-2.0

"""Descriptions of the API for programs and for people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool.api.http import microversion
from fpgapool.api.schemas import common

_VARIABLE = re.compile(r"\{(\w+)\}")

_JSON = "application/json"
_OCTETS = "application/octet-stream"
_BYTES = {"type": "string", "format": "binary"}

_HEADING = """\
.. SPDX-License-Identifier: Apache-2.0

.. Written by 'make docs' from fpgapool/api/routes.py; do not edit.

=============
API reference
=============

The same reference as OpenAPI: ``/v1/openapi.json``. :doc:`/user/api` describes
the rules common to all operations.
"""


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


# For people.


def reference(routes: Iterable[Any]) -> str:
    """Return the API's reference as a page of reStructuredText."""
    parts = [_HEADING]
    for route in routes:
        parts += _section(route)
    return "\n".join(parts).rstrip() + "\n"


def _section(route: Any) -> Iterator[str]:
    title = f"{route.method} {route.path}"
    yield title
    yield "=" * len(title)
    yield f"\n{route.summary}.\n"
    yield f"| Policy: ``{route.policy}``" + (
        ", no token is needed" if route.public else ""
    )
    yield f"| Since: {route.since}"
    yield f"| Answer: {route.status}\n"
    for is_file, what in (
        (route.upload, "request"),
        (route.download, "answer"),
    ):
        if is_file:
            yield f"The body of the {what} is a file, ``{_OCTETS}``.\n"
    for heading, schema in (
        ("Query", route.query),
        ("Request", route.body),
        ("Response", route.response),
        *(
            (f"Response {status}", schema)
            for status, schema in route.other_responses.items()
        ),
    ):
        rows = list(_rows(schema or {}))
        if rows:
            yield from _table(heading, rows)


def _table(heading: str, rows: list[tuple[str, str, str]]) -> Iterator[str]:
    yield f".. list-table:: {heading}"
    yield "   :header-rows: 1"
    yield "   :widths: 30 25 45\n"
    yield "   * - Name\n     - Type\n     - Meaning"
    for name, type_, meaning in rows:
        yield f"   * - ``{name}``"
        yield f"     - {type_}"
        yield f"     - {meaning}".rstrip()
    yield ""


def _rows(
    schema: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of all members, also of inner ones."""
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        type_ = _type(member)
        if name not in required:
            type_ += ", optional"
        # OpenAPI's Markdown quotes are a role in reStructuredText.
        meaning = member.get("description", "").replace("`", "``")
        yield f"{prefix}{name}", type_, meaning
        yield from _rows(_inner(member), f"{prefix}{name}.")


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of the object in a member, if any."""
    if "oneOf" in schema:
        return _inner(schema["oneOf"][0])
    if "items" in schema:
        return _inner(schema["items"])
    return schema


def _type(schema: Mapping[str, Any]) -> str:
    if "oneOf" in schema:
        return " or ".join(_type(one) for one in schema["oneOf"])
    if "enum" in schema:
        return ", ".join(f"``{value}``" for value in schema["enum"])
    if schema["type"] == "array":
        return f"array of {_type(schema['items'])}"
    types = schema["type"]
    text = types if isinstance(types, str) else " or ".join(types)
    return f"{text} ({schema['format']})" if "format" in schema else text
