# SPDX-License-Identifier: Apache-2.0

"""Sessions."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

_REQUEST_ID = {
    "type": "string",
    "pattern": f"^{rules.REQUEST_ID}$",
    "description": "The client's name for the request.",
}

_REASON = common.record(
    code=common.described(common.TEXT, "Stable code for programs."),
    message=common.described(common.TEXT, "Human-readable text; may change."),
)

_PLACEMENT = common.record(
    host_uuid=common.UUID,
    host_name=common.TEXT,
    device=common.TEXT,
    slot=common.COUNT,
    local=common.described(
        common.nullable(common.FLAG),
        "Whether the slot is on the client's host.",
    ),
)

_ITS_SLOT = common.described(
    {"oneOf": [_PLACEMENT, {"type": "null"}]},
    "Its slot; null: none. In lists since version 1.2.",
)

_CONNECTION = common.record(
    endpoints=common.described(
        {"type": "array", "items": common.ENDPOINT},
        "Where the slot's worker listens.",
    ),
    secret=common.described(
        common.nullable(common.TEXT),
        "Hexadecimal; valid for one connection; null while it is being"
        " renewed.",
    ),
    certificate_sha256=common.described(
        common.nullable(common.TEXT),
        "SHA-256 of the worker's certificate, for verification; null without"
        " TLS.",
    ),
)

_OWN: dict[fields.Kind, common.Schema] = {
    fields.CODES: {"type": "array", "items": _REASON},
}
_SHOWN = description.FIELDS.shown
_OPTIONS = common.of_options(description.FIELDS.options)

#: A session in a list, without most members that only the conductor has.
LISTED = common.record(
    [*common.newer(_SHOWN), "pending_reasons", "placement"],
    **common.of_fields((one for one in _SHOWN if one.listed), _OWN),
    links=common.LINKS,
    placement=_ITS_SLOT,
)

SESSION = common.record(
    common.newer(_SHOWN),
    **common.of_fields(_SHOWN, _OWN),
    links=common.LINKS,
    placement=_ITS_SLOT,
    connection=common.described(
        {"oneOf": [_CONNECTION, {"type": "null"}]},
        "How to connect; only for members of its project who do not ask for"
        " `connection=false`, and only while it is READY. Since version 1.3"
        " also while it is PREPARING, if it has its slot as soon as the slot's"
        " holder leaves.",
    ),
)

CREATE_QUERY = common.record(
    optional=["dry_run"],
    dry_run=common.described(
        common.FLAG,
        "Open no session: only return the expected outcome, with the status"
        " 200.",
    ),
)

CREATE = common.record(
    session=common.record(
        optional=["request_id", *_OPTIONS],
        accelerator=common.NAME,
        claimed_bytes=common.described(
            {"type": "integer"},
            "Size of the input in bytes; at least 1.",
        ),
        request_id=common.described(
            _REQUEST_ID,
            "Name of the request: another request with the same name gets the"
            " same session. By default the service chooses a name.",
        ),
        **_OPTIONS,
    )
)

SESSIONS = common.listing(
    "sessions",
    LISTED,
    description.FIELDS,
    **{
        "changes-since": common.described(
            common.TIME,
            "Only those changed at this time or later (ISO 8601; UTC by"
            " default), including ended ones.",
        )
    },
    state=common.described(
        {"type": "array", "items": common.one_of(*sorted(states.ALL))},
        "May be repeated.",
    ),
    request_id=common.described(
        _REQUEST_ID, "Only the session of this request."
    ),
    host=common.described(
        common.UUID, "UUID of the host where the client runs."
    ),
    **common.PROJECT_FILTERS,
)

SHOW_QUERY = common.record(
    optional=["wait_s", "revision", "connection"],
    wait_s=common.described(
        {"type": "number", "minimum": 0, "maximum": 86400},
        "Seconds to wait for a change, up to `[api] max_wait_s`.",
    ),
    revision=common.described(
        common.COUNT,
        "The revision that the caller knows; the response is sent when the"
        " revision differs. Default is the revision at the time of the"
        " request.",
    ),
    connection=common.described(
        common.FLAG,
        "Whether to return `connection`, with its secret, to callers who may"
        " have it. Callers who only look want false. Default is true.",
    ),
)
SHOW = common.record(session=SESSION)

#: With these parameters, a client whose worker did not confirm the end of a
#: session reports what it received. It sends all of them or none.
CLOSE_COUNTS = ("generation", "input_bytes", "output_bytes")
DELETE_QUERY = common.record(
    optional=CLOSE_COUNTS,
    generation=common.described(
        common.COUNT,
        "Generation of the last slot that served the session. With it, the"
        " session ends as `CLOSED` even if its worker is lost.",
    ),
    input_bytes=common.described(
        common.COUNT, "Bytes of input that the slots have processed."
    ),
    output_bytes=common.described(
        common.COUNT, "Bytes of output that the client has received."
    ),
)

_DRY_RUN = common.record(
    optional=["expected_wait_low_s", "expected_wait_high_s", "budget_pct"],
    state=common.described(
        common.one_of(states.PREPARING, states.QUEUED, states.REJECTED),
        "State that the session would have: `PREPARING` if it would get a slot"
        " immediately, `QUEUED` if it would wait, and `REJECTED` if it would"
        " be refused.",
    ),
    reasons=common.described(
        {"type": "array", "items": _REASON},
        "Why it would wait, or be refused.",
    ),
    expected_wait_s=common.described(
        {"type": ["number", "null"]},
        "Expected wait in seconds; null: unknown, or the session would be"
        " refused.",
    ),
    expected_wait_low_s=common.described(
        {"type": ["number", "null"]},
        "Lower end of the range in which nine of ten waits lie; since version"
        " 1.1.",
    ),
    expected_wait_high_s=common.described(
        {"type": ["number", "null"]},
        "Upper end of that range; since version 1.1.",
    ),
    budget_pct=common.described(
        {"type": ["number", "null"]},
        "Percentage of what is left of the project's budget that the session"
        " will probably take, of the scarcest resource; more than 100: it is"
        " not enough; null: the project has no budget, or the session would be"
        " refused. Since version 1.3.",
    ),
)
DRY_RUN = common.record(dry_run=_DRY_RUN)

REOPEN = common.record(
    reopen=common.record(
        generation=common.described(
            common.COUNT, "Generation of the lost slot."
        )
    )
)
