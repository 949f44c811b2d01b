# SPDX-License-Identifier: Apache-2.0

"""The reference of the REST API as pages, from its routes.

A page for each resource, and one that lists all operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

_HEAD = """\
.. SPDX-License-Identifier: Apache-2.0

.. Written by 'make docs' from fpgapool/api/routes.py; do not edit.
"""

_INDEX = f"""\
{_HEAD}
=============
API reference
=============

The same reference as OpenAPI: ``/v1/openapi.json``. :doc:`/user/api` describes
the rules common to all operations. A page for each resource has their queries,
requests and answers:
"""

#: Of routes that belong to another resource than the one in their path.
_RESOURCES = {"": "versions", "openapi.json": "versions"}


def reference(routes: Iterable[Any]) -> dict[str, str]:
    """Return pages of reStructuredText by their names.

    The page ``api-ref`` lists all operations; the others are in ``api``.
    """
    resources: dict[str, list[Any]] = {}
    for route in routes:
        resources.setdefault(_resource(route.path), []).append(route)
    pages = {"api-ref": "\n".join(_index(resources)).rstrip() + "\n"}
    for name, members in resources.items():
        title = f"API: {name}"
        parts = [_HEAD, "=" * len(title), title, "=" * len(title), ""]
        for route in members:
            parts += _section(route)
        pages[f"api/{name}"] = "\n".join(parts).rstrip() + "\n"
    return pages


def _resource(path: str) -> str:
    name = path.removeprefix("/v1").removeprefix("/").partition("/")[0]
    return _RESOURCES.get(name, name)


def _index(resources: Mapping[str, list[Any]]) -> Iterator[str]:
    yield _INDEX
    yield ".. toctree::\n   :hidden:\n"
    for name in resources:
        yield f"   api/{name}"
    for name, members in resources.items():
        yield f"\n.. rubric:: :doc:`api/{name}`\n"
        for route in members:
            yield f"| ``{route.method} {route.path}``: {route.summary}"


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
            yield (
                f"The body of the {what} is a file,"
                " ``application/octet-stream``.\n"
            )
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
