# SPDX-License-Identifier: Apache-2.0

"""Sessions."""

from collections.abc import Iterable

from fpgapool.api.schemas import common
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

_STATE = common.one_of(*sorted(states.ALL))

_REQUEST_ID = {
    "type": "string",
    "pattern": f"^{rules.REQUEST_ID}$",
    "description": "The client's name of the request.",
}

_REASON = common.record(
    code=common.described(common.TEXT, "Never changes; for programs."),
    message=common.described(common.TEXT, "For people; may change."),
)

_PLACEMENT = common.record(
    host_uuid=common.UUID,
    host_name=common.TEXT,
    device=common.TEXT,
    slot=common.COUNT,
    local=common.described(
        common.nullable(common.FLAG),
        "Whether the data stays on the requester's host.",
    ),
)

_ENDPOINT = common.record(
    network=common.described(common.TEXT, "The operator's name of a network."),
    address=common.TEXT,
    port=common.COUNT,
)

_CONNECTION = common.record(
    endpoints=common.described(
        {"type": "array", "items": _ENDPOINT},
        "Where the slot's worker listens.",
    ),
    secret=common.described(
        common.nullable(common.TEXT),
        "For one connection, hexadecimal. Null while it is being renewed.",
    ),
    certificate_sha256=common.described(
        common.nullable(common.TEXT),
        "Of the worker's certificate, to be compared; null without TLS.",
    ),
)

_SCHEMAS: dict[description.Kind, common.Schema] = {
    description.UUID: common.UUID,
    description.NAME: common.NAME,
    description.TEXT: common.TEXT,
    description.STATE: _STATE,
    description.CODES: {"type": "array", "items": _REASON},
    description.COUNT: common.COUNT,
    description.SECONDS: common.NUMBER,
    description.TIME: common.TIME,
}


def _members(fields: Iterable[description.Field]) -> dict[str, common.Schema]:
    members = {}
    for field in fields:
        schema = _SCHEMAS[field.kind]
        if field.nullable:
            schema = common.nullable(schema)
        if field.about:
            schema = common.described(schema, field.about)
        members[str(field.shown)] = schema
    return members


_OPTIONS = {
    option.name: common.described(
        {**_SCHEMAS[option.kind], **option.limits}, option.about
    )
    for option in description.OPTIONS
}

# Answers to those who ask for an older version lack them.
_NEWER = [str(one.shown) for one in description.SHOWN if one.since > (1, 0)]

#: As a list shows it: without what only the conductor knows.
LISTED = common.record(
    _NEWER,
    **_members(field for field in description.SHOWN if field.listed),
    links=common.LINKS,
)

SESSION = common.record(
    _NEWER,
    **_members(description.SHOWN),
    links=common.LINKS,
    placement=common.described(
        {"oneOf": [_PLACEMENT, {"type": "null"}]}, "The slot that it has."
    ),
    connection=common.described(
        {"oneOf": [_CONNECTION, {"type": "null"}]},
        "How to connect; only while it is READY, and only for members of its"
        " project.",
    ),
)

CREATE = common.record(
    session=common.record(
        optional=["request_id", *_OPTIONS],
        accelerator=common.NAME,
        claimed_bytes=common.described(
            {"type": "integer"},
            "How many bytes of input there will be; at least 1.",
        ),
        request_id=common.described(
            _REQUEST_ID,
            "The client's name of the request: a repeat of it is the same"
            " session. Without it, one is made up.",
        ),
        **_OPTIONS,
    )
)

LIST_QUERY = common.list_query(
    description.SORT_KEYS,
    **{
        "changes-since": common.described(
            common.TIME,
            "Those that were changed at this time or later (ISO 8601; UTC,"
            " unless it says), also those that have ended since.",
        )
    },
    state=common.described(
        {"type": "array", "items": _STATE}, "May be repeated."
    ),
    accelerator=common.NAME,
    request_id=common.described(_REQUEST_ID, "What the client named it by."),
    host=common.described(
        common.UUID, "UUID of the host where the client runs."
    ),
    all_projects=common.described(
        common.FLAG, "Whether those of other projects are shown, too."
    ),
    project_id=common.described(
        common.NAME,
        "Of this project only; another one's need `all_projects`.",
    ),
)
LIST = common.page_of("sessions", LISTED)

SHOW_QUERY = common.record(
    optional=["wait_s", "revision"],
    wait_s=common.described(
        {"type": "number", "minimum": 0, "maximum": 86400},
        "How long to wait for a change; the service has a limit of its own.",
    ),
    revision=common.described(
        common.COUNT,
        "The revision that is known: the answer comes when there is another."
        " Without it, that of the time of the request.",
    ),
)
SHOW = common.record(session=SESSION)

REOPEN = common.record(
    reopen=common.record(
        generation=common.described(
            common.COUNT, "That of the slot that is lost."
        )
    )
)
