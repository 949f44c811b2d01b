# SPDX-License-Identifier: Apache-2.0

"""Sessions."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

_STATE = common.one_of(*sorted(states.ALL))

_REQUEST_ID = {
    "type": "string",
    "pattern": f"^{rules.REQUEST_ID}$",
    "description": "The client's name of the request.",
}

_MAX_WAIT_S = 30 * 86400
_MAX_CONNECT_S = 3600

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

_MEMBERS = {
    "id": common.UUID,
    "request_id": common.TEXT,
    "project_id": common.TEXT,
    "state": _STATE,
    "reason": common.described(
        common.TEXT, "Code of why it ended; empty if it has not."
    ),
    "message": common.described(common.TEXT, "Says more about the reason."),
    "accelerator": common.NAME,
    "claimed_bytes": common.COUNT,
    "host": common.described(
        common.nullable(common.UUID),
        "UUID of the host where the client runs, if it is one of the pool's.",
    ),
    "generation": common.described(
        common.COUNT, "Grows when it gets another slot."
    ),
    "revision": common.described(common.COUNT, "Grows with every change."),
    "queued_at": common.nullable(common.TIME),
    "ready_at": common.nullable(common.TIME),
    "started_at": common.nullable(common.TIME),
    "finished_at": common.nullable(common.TIME),
    "updated_at": common.described(
        common.nullable(common.TIME), "When it was changed last."
    ),
    "input_bytes": common.COUNT,
    "output_bytes": common.COUNT,
    "links": common.LINKS,
}

#: As a list shows it: without what only the conductor knows.
LISTED = common.record(**_MEMBERS)

SESSION = common.record(
    **_MEMBERS,
    queue_position=common.described(
        common.nullable(common.COUNT), "0 is the next to be served."
    ),
    expected_wait_s=common.described(
        common.nullable(common.NUMBER),
        "How long it will probably still wait, judged by how fast slots were"
        " given out lately; null if too little is known.",
    ),
    pending_reasons=common.described(
        {"type": "array", "items": _REASON}, "Why it still waits."
    ),
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
        optional=[
            "request_id",
            "priority",
            "wait_timeout_s",
            "connect_timeout_s",
            "resume_grace_s",
        ],
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
        priority=common.described(
            {
                "type": "integer",
                "minimum": -rules.MAX_PRIORITY,
                "maximum": rules.MAX_PRIORITY,
            },
            "Default is 0.",
        ),
        wait_timeout_s=common.described(
            {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": _MAX_WAIT_S,
            },
            "How long it may wait for a slot; lowers the service's limit.",
        ),
        connect_timeout_s=common.described(
            {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": _MAX_CONNECT_S,
            },
            "How long its slot waits for the client; lowers the service's"
            " limit.",
        ),
        resume_grace_s=common.described(
            {"type": "number", "minimum": 0, "maximum": _MAX_CONNECT_S},
            "How long its slot is kept after its connection broke; lowers"
            " the service's limit.",
        ),
    )
)

LIST_QUERY = common.list_query(
    [
        "queued_at",
        "state",
        "accelerator",
        "claimed_bytes",
        "priority",
        "updated_at",
    ],
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
