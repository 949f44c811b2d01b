# SPDX-License-Identifier: Apache-2.0

"""Common parts of schemas."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules

Schema = Mapping[str, Any]

#: Descriptions of members that have the same meaning everywhere.
_MEANINGS = {
    "accelerator": "Name of the accelerator.",
    "address": "IP address or host name.",
    "approve": "The approval.",
    "binary": "Name of the service.",
    "checksum_sha256": "SHA-256 of the file, hexadecimal; null until there is"
    " a file.",
    "claimed_bytes": "Bytes of input that the client announced.",
    "client": "The client of the group.",
    "clients": "The clients of the group.",
    "created_at": "Time of its creation.",
    "deadline_at": "Time by which it should end; null: no deadline.",
    "decided_at": "Time of its approval or rejection; null: not decided yet.",
    "description": "Human-readable description.",
    "device": "Name of the board on its host.",
    "device_id": "Identifier of the board.",
    "device_name": "Name of the board on its host.",
    "dry_run": "The expected outcome.",
    "finished_at": "Time when it ended; null: not ended yet.",
    "generated_at": "Time when the snapshot was made.",
    "goal": "The goal: a rate or a deadline; null: none.",
    "healthy": "Whether the board works.",
    "host_name": "Name of the host.",
    "host_uuid": "UUID of the host.",
    "href": "The address.",
    "id": "Identifier; it never changes.",
    "in_use": "The project's current usage.",
    "input_bytes": "Bytes of input processed.",
    "links": "Links to this and related resources.",
    "max_version": "Newest microversion that the service supports.",
    "min_version": "Oldest microversion that the service supports.",
    "model": "Model of the board, as reported by its driver.",
    "name": "Human-readable name.",
    "number": "Number of the slot on its board, from 0.",
    "output_bytes": "Bytes of output produced.",
    "pending_reservations": "Number of reservations without a working slot.",
    "port": "TCP port.",
    "profile": "The accelerator's profile.",
    "programmed": "Accelerator in the slot now; null: none.",
    "project_id": "Identifier of the project that owns it.",
    "properties": "Further properties, with the names from Cyborg's"
    " specification.",
    "queued_at": "Time when the pool accepted it and its wait started.",
    "quota": "The limits.",
    "ready_at": "Time when its slot was ready; null: not ready yet.",
    "reason": "Human-readable reason.",
    "reject": "The rejection.",
    "rel": "Relation: `self` or `next` (page).",
    "reopen": "The slot that the client lost.",
    "request_id": "Name of the request, chosen by the client.",
    "reservable_slots": "Number of slots that instances can reserve.",
    "reserved_slots": "Number of slots that instances have reserved.",
    "shape": "Shape of the slot; determines which bitstreams fit.",
    "slot": "Number of the slot on its board, from 0.",
    "started_at": "Time when a client first connected; null: not connected"
    " yet.",
    "state": "Its state in its life cycle.",
    "status": "`CURRENT`: the version is in use.",
    "up": "Whether it reports to the pool.",
    "updated_at": "Time of its last change.",
    "uploaded_at": "Time when its upload was complete; null: not uploaded"
    " yet.",
    "uuid": "UUID of the host.",
    "version": "Newest microversion that the service supports.",
    "versions": "The API's versions.",
    "visibility": "Who may use it: its project (`private`), chosen projects"
    " (`shared`) or all (`public`).",
}

#: Descriptions of the strings that match a pattern, for error messages.
WORDS = {
    f"^{rules.REQUEST_ID}$": rules.REQUEST_ID_WORDS,
    f"^{rules.GROUP_NAME}$": rules.GROUP_NAME_WORDS,
}


def matching(pattern: str, words: str) -> Schema:
    """Return the part of a schema that requires strings to match a pattern.

    :param pattern: a regular expression for the whole string.
    :param words: description of such a string, for error messages.
    """
    WORDS[pattern] = words
    return {"pattern": pattern}


UUID: Schema = {
    "type": "string",
    "format": "uuid",
    **matching(
        "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", "a UUID"
    ),
}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
#: A name on one line that databases can store.
LINE: Schema = {
    **NAME,
    **matching(
        r"^[^\x00-\x1f\x7f\ud800-\udfff]+$",
        "one line without control characters",
    ),
}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
TIME: Schema = {"type": "string", "format": "date-time"}

DAY: Schema = {
    "type": "string",
    "format": "date",
    **matching("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "a day such as 2026-01-31"),
}
LINKS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            name: {**TEXT, "description": _MEANINGS[name]}
            for name in ("rel", "href")
        },
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
                        "description": "Stable code for programs.",
                    },
                    "title": TEXT,
                    "detail": {
                        **TEXT,
                        "description": "Human-readable text; may change.",
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
    return {**schema, "description": description}


def nullable(schema: Schema) -> Schema:
    """Return a schema that also allows null."""
    return {**schema, "type": [schema["type"], "null"]}


def one_of(*values: str) -> Schema:
    """Return the schema of strings that are one of these values."""
    return {"type": "string", "enum": list(values)}


def _meaning(name: str, schema: Schema) -> Schema:
    if name in _MEANINGS:
        return {"description": _MEANINGS[name]}
    is_resource = schema.get("type") in ("object", "array")
    return {"description": f"The {name}."} if is_resource else {}


def record(optional: Collection[str] = (), **members: Schema) -> Schema:
    """Return the schema of an object with these members and no others.

    Members without a description get the common description for their name.
    """
    return {
        "type": "object",
        "properties": {
            name: {**_meaning(name, schema), **schema}
            for name, schema in members.items()
        },
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


ENDPOINT = record(
    network=described(TEXT, "The operator's name for the network."),
    address=TEXT,
    port=COUNT,
)

_NAMES: Schema = {"type": "array", "items": TEXT}
_KINDS: Mapping[fields.Kind, Schema] = {
    fields.UUID: UUID,
    fields.NAME: NAME,
    fields.NAMES: {"type": "array", "items": LINE},
    fields.TEXT: TEXT,
    fields.STATE: TEXT,
    fields.COUNT: COUNT,
    fields.INTEGER: {"type": "integer"},
    fields.NUMBER: NUMBER,
    fields.RATE: NUMBER,
    fields.SECONDS: NUMBER,
    fields.TIME: TIME,
    fields.MOMENT: TIME,
    fields.DAY: DAY,
    fields.FLAG: FLAG,
    fields.OBJECT: {"type": "object"},
}


def of_fields(
    shown: Iterable[fields.Field],
    own: Mapping[fields.Kind, Schema] | None = None,
) -> dict[str, Schema]:
    """Return the schemas of members, by the names that users see.

    :param own: schemas for kinds whose schema differs between resources.
    """
    kinds = {**_KINDS, fields.NAMES: _NAMES, **(own or {})}
    members = {}
    for field in shown:
        schema = kinds[field.kind]
        # Limits of options apply to requests only.
        if not isinstance(field, fields.Option):
            schema = {**schema, **field.limits}
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


def resource(
    described: fields.Fields,
    own: Mapping[fields.Kind, Schema] | None = None,
    *,
    optional: Collection[str] = (),
) -> Schema:
    """Return the schema of a described resource with its links."""
    members = of_fields(described.shown, own)
    optional = [*optional, *newer(described.shown)]
    return record(optional, **members, links=LINKS)


def newer(shown: Iterable[fields.Field]) -> list[str]:
    """Return the members that are missing in responses of older versions."""
    return [str(one.shown) for one in shown if one.since > (1, 0)]


#: Filters for lists of resources that belong to projects.
PROJECT_FILTERS = {
    "all_projects": described(
        FLAG, "Also list the resources of other projects."
    ),
    "project_id": described(
        NAME,
        "Only the resources of this project; for a project other than your"
        " own, `all_projects` is required.",
    ),
}
LIMIT = described(
    {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    "Maximum number of members, up to `[api] max_page_length`.",
)


def listing(
    name: str, member: Schema, listed: fields.Fields, **filters: Schema
) -> dict[str, Schema]:
    """Return the schemas of a list, as arguments of its route.

    :param listed: description of the resource, with the sort keys and the
        filters that compare a member.
    :param filters: schemas of further parameters.
    """
    most = len(listed.sort_keys)
    query = {
        **dict(_comparisons(listed)),
        **filters,
        "limit": LIMIT,
        "marker": described(
            NAME, "Identifier of the last member of the previous page."
        ),
        "sort_key": described(
            _several(one_of(*listed.sort_keys), most),
            f"May be repeated; default is `{listed.sort_keys[0]}`.",
        ),
        "sort_dir": described(
            _several(one_of("asc", "desc"), most),
            "One for each `sort_key`, in the same order; if one is missing,"
            " that of the previous key applies.",
        ),
    }
    return {
        "query": record(optional=query, **query),
        "response": page_of(name, member),
    }


def _comparisons(listed: fields.Fields) -> Iterator[tuple[str, Schema]]:
    shown = {field.shown: field for field in listed.shown}
    for parameter, member in listed.filters.items():
        field = shown[member]
        # Text in a query must not be empty, and has a maximum length.
        kind = fields.NAME if field.kind is fields.TEXT else field.kind
        limits = {} if isinstance(field, fields.Option) else field.limits
        yield (
            parameter,
            described(
                {**_KINDS[kind], **limits}, f"Only those with this `{member}`."
            ),
        )


def _several(item: Schema, most: int) -> Schema:
    return {"type": "array", "items": item, "maxItems": most}


def page_of(name: str, member: Schema, **others: Schema) -> Schema:
    """Return the schema of a page of a list.

    :param others: schemas of further members of the page.
    """
    members = {
        **others,
        name: {"type": "array", "items": member},
        f"{name}_links": described(
            LINKS, "Link to the next page; missing on the last page."
        ),
    }
    return record(optional=[f"{name}_links"], **members)
