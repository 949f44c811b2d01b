# SPDX-License-Identifier: Apache-2.0

"""Common parts of schemas."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from fpgapool.vocabulary import fields

Schema = Mapping[str, Any]

UUID: Schema = {
    "type": "string",
    "format": "uuid",
    "pattern": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
#: A name that a database takes, on one line.
LINE: Schema = {**NAME, "pattern": r"^[^\x00-\x1f\x7f\ud800-\udfff]+$"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
TIME: Schema = {"type": "string", "format": "date-time"}

LINKS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"rel": TEXT, "href": TEXT},
        "required": ["rel", "href"],
        "additionalProperties": False,
    },
}

#: The query of operations without parameters.
NO_QUERY: Schema = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}

ERROR: Schema = {
    "type": "object",
    "properties": {
        "errors": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "status": {"type": "integer"},
                    "code": {
                        **TEXT,
                        "description": "Never changes; for programs.",
                    },
                    "title": TEXT,
                    "detail": {
                        **TEXT,
                        "description": "For people; may change.",
                    },
                    "request_id": TEXT,
                },
                "required": [
                    "status",
                    "code",
                    "title",
                    "detail",
                    "request_id",
                ],
                "additionalProperties": False,
            },
        }
    },
    "required": ["errors"],
    "additionalProperties": False,
}


def described(schema: Schema, description: str) -> Schema:
    """Return a schema with a description."""
    return {**schema, "description": description}


def nullable(schema: Schema) -> Schema:
    """Return a schema that allows null, too."""
    return {**schema, "type": [schema["type"], "null"]}


def one_of(*values: str) -> Schema:
    """Return the schema of one of these texts."""
    return {"type": "string", "enum": list(values)}


def record(optional: Sequence[str] = (), **members: Schema) -> Schema:
    """Return the schema of an object with these members and no others.

    :param optional: members that may be missing.
    """
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


ENDPOINT = record(
    network=described(TEXT, "The operator's name of a network."),
    address=TEXT,
    port=COUNT,
)

_KINDS: Mapping[fields.Kind, Schema] = {
    fields.UUID: UUID,
    fields.NAME: NAME,
    fields.NAMES: {"type": "array", "items": LINE},
    fields.TEXT: TEXT,
    fields.COUNT: COUNT,
    fields.INTEGER: {"type": "integer"},
    fields.NUMBER: NUMBER,
    fields.SECONDS: NUMBER,
    fields.TIME: TIME,
    fields.FLAG: FLAG,
}


def of_fields(
    shown: Iterable[fields.Field], own: Mapping[fields.Kind, Schema]
) -> dict[str, Schema]:
    """Return the schemas of members, by the names that users see.

    :param own: schemas of kinds that differ between things, such as states.
    """
    kinds = {**_KINDS, **own}
    members = {}
    for field in shown:
        schema = kinds[field.kind]
        if field.nullable:
            schema = nullable(schema)
        if field.about:
            schema = described(schema, field.about)
        members[str(field.shown)] = schema
    return members


def of_options(
    options: Iterable[fields.Option],
) -> dict[str, Schema]:
    """Return the schemas of the options that a request may have."""
    return {
        option.name: described(
            {**_KINDS[option.kind], **option.limits}, option.about
        )
        for option in options
    }


def newer(shown: Iterable[fields.Field]) -> list[str]:
    """Return the members that answers of older versions lack."""
    return [str(one.shown) for one in shown if one.since > (1, 0)]


def list_query(sort_keys: Sequence[str], **filters: Schema) -> Schema:
    """Return the schema of a list's query.

    :param sort_keys: keys of the order; the first is the default.
    :param filters: further parameters.
    """
    paging: dict[str, Schema] = {
        "limit": described(
            {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
            "Maximum number of members; the service has a limit of its own.",
        ),
        "marker": described(
            NAME, "Identifier of the last member of the previous page."
        ),
        "sort_key": described(
            _several(one_of(*sort_keys), len(sort_keys)),
            f"May be repeated; default is `{sort_keys[0]}`.",
        ),
        "sort_dir": described(
            _several(one_of("asc", "desc"), len(sort_keys)),
            "One for each `sort_key`, in the same order; a missing one is that"
            " of the key before.",
        ),
    }
    members = {**filters, **paging}
    return record(optional=list(members), **members)


def _several(item: Schema, most: int) -> Schema:
    return {"type": "array", "items": item, "maxItems": most}


def page_of(name: str, member: Schema) -> Schema:
    """Return the schema of a page of a list.

    :param name: of the list.
    :param member: schema of a member.
    """
    members = {
        name: {"type": "array", "items": member},
        f"{name}_links": described(
            LINKS, "Address of the next page, unless this is the last."
        ),
    }
    return record(optional=[f"{name}_links"], **members)
