# SPDX-License-Identifier: Apache-2.0

"""Common parts of schemas."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules

Schema = Mapping[str, Any]

#: Descriptions of members that have the same meaning everywhere.
_MEANINGS = {
    "accelerator": "Name of the accelerator.",
    "accelerators": "The accelerators.",
    "address": "IP address or host name.",
    "approve": "The approval.",
    "binary": "Name of the service.",
    "bitstream": "The bitstream.",
    "bitstreams": "The bitstreams.",
    "checksum_sha256": "SHA-256 of the file, hexadecimal; null until there is"
    " a file.",
    "claimed_bytes": "Bytes of input that the client announced.",
    "client": "The client of the group.",
    "clients": "The clients of the group.",
    "created_at": "When it was created.",
    "deadline_at": "When it should have ended; null: no deadline.",
    "decided_at": "When it was approved or rejected; null: not yet.",
    "description": "A description, for people.",
    "device": "Name of the board on its host.",
    "device_id": "Identifier of the board.",
    "device_name": "Name of the board on its host.",
    "devices": "The boards.",
    "dry_run": "What would happen to the session.",
    "finished_at": "When it ended; null: not yet.",
    "generated_at": "When the snapshot was made.",
    "goal": "The goal: a rate or a deadline; null: none.",
    "group": "The group.",
    "groups": "The groups.",
    "healthy": "Whether the board works.",
    "host_name": "Name of the host.",
    "host_uuid": "UUID of the host.",
    "hosts": "The hosts.",
    "href": "The address.",
    "id": "Identifier; it never changes.",
    "in_use": "Current use of the project.",
    "input_bytes": "Bytes of input processed.",
    "instances": "The instances.",
    "links": "Links to this and related resources.",
    "max_version": "Newest microversion of the API that the service knows.",
    "min_version": "Oldest microversion of the API that the service knows.",
    "model": "Model of the board, as its driver names it.",
    "name": "Name, for people.",
    "number": "Number of the slot on its board, from 0.",
    "output_bytes": "Bytes of output produced.",
    "pending_reservations": "Number of reservations without a working slot.",
    "pool": "The pool.",
    "port": "TCP port.",
    "profile": "The accelerator's profile.",
    "programmed": "Accelerator in the slot now; null: none.",
    "project_id": "Identifier of the project that owns it.",
    "properties": "Further properties, by the names of Cyborg's"
    " specification.",
    "queued_at": "When the pool accepted it; waiting starts then.",
    "quota": "The limits.",
    "ready_at": "When its slot was ready; null: not yet.",
    "reason": "The reason, for people.",
    "reject": "The rejection.",
    "rel": "Relation: `self` or `next` (page).",
    "reopen": "The slot that the client has lost.",
    "request_id": "Name of the request, chosen by the client.",
    "reservable_slots": "Number of slots that instances can reserve.",
    "reserved_slots": "Number of slots that instances have reserved.",
    "services": "The services.",
    "session": "The session.",
    "sessions": "The sessions.",
    "shape": "Shape of the slot; determines which bitstreams fit.",
    "slot": "Number of the slot on its board, from 0.",
    "slots": "The slots.",
    "snapshot": "The snapshot.",
    "started_at": "When a client first connected; null: not yet.",
    "state": "Its state in its life cycle.",
    "status": "`CURRENT`: the version is in use.",
    "test": "The test.",
    "up": "Whether it reports to the pool.",
    "updated_at": "When it was last changed.",
    "uploaded_at": "When its file was complete; null: not yet.",
    "usage": "The sums.",
    "uuid": "UUID of the host.",
    "version": "Newest microversion of the API that the service knows.",
    "versions": "The API's versions.",
    "visibility": "Who may use it: its project (`private`), chosen projects"
    " (`shared`) or all (`public`).",
}

#: Descriptions of text patterns, for refusals.
WORDS = {
    f"^{rules.REQUEST_ID}$": rules.REQUEST_ID_WORDS,
    f"^{rules.GROUP_NAME}$": rules.GROUP_NAME_WORDS,
}


def matching(pattern: str, words: str) -> Schema:
    """Return the part of a schema that requires texts of a pattern.

    :param pattern: a regular expression for the whole text.
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
#: A name that a database takes, on one line.
LINE: Schema = {
    **NAME,
    **matching(
        r"^[^\x00-\x1f\x7f\ud800-\udfff]+$",
        "a text on one line, without control characters",
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
    return {**schema, "description": description}


def nullable(schema: Schema) -> Schema:
    """Return a schema that allows null, too."""
    return {**schema, "type": [schema["type"], "null"]}


def one_of(*values: str) -> Schema:
    """Return the schema of one of these texts."""
    return {"type": "string", "enum": list(values)}


def record(optional: Sequence[str] = (), **members: Schema) -> Schema:
    """Return the schema of an object with these members and no others.

    Members without a description get the one that their name has everywhere.
    """
    return {
        "type": "object",
        "properties": {
            name: schema
            if "description" in schema or name not in _MEANINGS
            else described(schema, _MEANINGS[name])
            for name, schema in members.items()
        },
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


ENDPOINT = record(
    network=described(TEXT, "The operator's name of a network."),
    address=TEXT,
    port=COUNT,
)

_NAMES: Schema = {"type": "array", "items": TEXT}
_KINDS: Mapping[fields.Kind, Schema] = {
    fields.UUID: UUID,
    fields.NAME: NAME,
    fields.NAMES: {"type": "array", "items": LINE},
    fields.TEXT: TEXT,
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
    shown: Iterable[fields.Field], own: Mapping[fields.Kind, Schema]
) -> dict[str, Schema]:
    """Return the schemas of members, by the names that users see.

    :param own: schemas of kinds that differ between things, such as states.
    """
    kinds = {**_KINDS, fields.NAMES: _NAMES, **own}
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
    own: Mapping[fields.Kind, Schema],
    *,
    optional: Sequence[str] = (),
) -> Schema:
    """Return the schema of a described resource with its links."""
    members = of_fields(described.shown, own)
    return record(optional=optional, **members, links=LINKS)


def newer(shown: Iterable[fields.Field]) -> list[str]:
    """Return the members that answers of older versions lack."""
    return [str(one.shown) for one in shown if one.since > (1, 0)]


#: Filters for lists of what projects own.
PROJECT_FILTERS = {
    "all_projects": described(FLAG, "Also show those of other projects."),
    "project_id": described(
        NAME,
        "Only those of this project; another project needs `all_projects`.",
    ),
}
LIMIT = described(
    {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    "Maximum number of members; the service has a limit of its own.",
)


def list_query(sort_keys: Sequence[str], **filters: Schema) -> Schema:
    """Return the schema of a list's query.

    :param sort_keys: keys of the order; the first is the default.
    :param filters: further parameters; one without a description compares
        the member of its name.
    """
    filters = {
        name: schema
        if "description" in schema
        else described(schema, f"Only those with this `{name}`.")
        for name, schema in filters.items()
    }
    paging: dict[str, Schema] = {
        "limit": LIMIT,
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
    """Return the schema of a page of a list."""
    members = {
        name: {"type": "array", "items": member},
        f"{name}_links": described(
            LINKS, "Address of the next page, unless this is the last."
        ),
    }
    return record(optional=[f"{name}_links"], **members)
