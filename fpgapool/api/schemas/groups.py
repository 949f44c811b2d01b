# SPDX-License-Identifier: Apache-2.0

"""Groups, their goals and their clients."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import group as description

_GOAL = description.GROUP.part(description.GOAL)
_OPTIONS = common.of_options(description.GROUP.options)
_CHANGEABLE = common.of_options(description.GROUP.changeable)

#: A goal without the members that only the conductor knows.
_RECORDED_GOAL = common.record(
    **common.of_fields(one for one in _GOAL if one.in_record)
)
_SHOWN_GOAL = common.record(**common.of_fields(_GOAL))

_MEMBER = common.record(
    host_uuid=common.UUID,
    host_name=common.TEXT,
    device=common.TEXT,
    slot=common.COUNT,
    state=common.TEXT,
)

_NO_GOAL = {"type": "null"}
_GROUP = common.of_fields(
    one for one in description.GROUP.shown if one.in_record
)
#: What only the conductor knows, which may not respond.
_NOW = common.of_fields(
    one for one in description.GROUP.shown if not one.in_record
)

#: A group in a list.
LISTED = common.record(
    **_GROUP, goal={"oneOf": [_RECORDED_GOAL, _NO_GOAL]}, links=common.LINKS
)
GROUP = common.record(
    optional=["members_total", *_NOW],
    **_GROUP,
    **_NOW,
    goal=common.described(
        {"oneOf": [_SHOWN_GOAL, _NO_GOAL]}, "Its goal; null: none."
    ),
    members=common.described(
        {"type": "array", "items": _MEMBER},
        "Its slots, as many as fit; only the group's owner sees them.",
    ),
    members_total=common.described(
        common.COUNT, "How many slots it has; since version 1.1."
    ),
    links=common.LINKS,
)

_WANTED_GOAL = common.record(
    optional=["deadline_at", "rate_per_s", "actions"],
    deadline_at=common.described(
        common.TIME,
        "When all tasks must have completed (ISO 8601; UTC by default).",
    ),
    rate_per_s=common.described(
        common.NUMBER,
        "Tasks to complete per second; not allowed with `deadline_at`.",
    ),
    actions=common.described(
        {"type": "integer"},
        "Number of tasks after which the goal ends; required with"
        " `deadline_at`.",
    ),
)

CREATE = common.record(
    group=common.record(
        optional=[
            "goal",
            *(name for name in _OPTIONS if name not in ("name", "size")),
        ],
        accelerator=common.LINE,
        **_OPTIONS,
        goal=_WANTED_GOAL,
    )
)
UPDATE = common.record(
    group={
        **common.record(optional=list(_CHANGEABLE), **_CHANGEABLE),
        "minProperties": 1,
        "description": "Omitted members do not change.",
    }
)
SET_GOAL = common.record(goal=_WANTED_GOAL)

GROUPS = common.listing(
    "groups", LISTED, description.GROUP, **common.PROJECT_FILTERS
)
SHOW = common.record(group=GROUP)

_HOST = common.record(
    host_uuid=common.UUID,
    members=common.described(
        common.COUNT, "Number of slots that serve the group there."
    ),
    endpoints=common.described(
        {"type": "array", "items": common.ENDPOINT},
        "Where the host's desk listens; empty until the desk has started.",
    ),
    certificate_sha256=common.described(
        common.nullable(common.TEXT),
        "SHA-256 of the desk's certificate, for verification; null without"
        " TLS.",
    ),
)
CLIENT = common.record(
    optional=["hosts_total"],
    **common.of_fields(description.CLIENT.shown),
    hosts=common.described(
        {"type": "array", "items": _HOST},
        "Where the client connects, as many as fit; empty until the group has"
        " a slot.",
    ),
    hosts_total=common.described(
        common.COUNT, "How many hosts the group has; since version 1.1."
    ),
    hosts_revision=common.described(
        common.COUNT, "Increases with every change of `hosts`."
    ),
)
SHOW_CLIENT = common.record(client=CLIENT)
REVOKE_QUERY = common.record(
    optional=["ended"],
    ended=common.described(
        common.FLAG,
        "Whether the client's own program ends it, in which case no revocation"
        " is reported. Only for clients of the caller's project.",
    ),
)
CLIENTS = common.listing("clients", CLIENT, description.CLIENT)
ATTACHED = common.record(
    client=common.record(
        **CLIENT["properties"],
        secret=common.described(
            common.TEXT,
            "Hexadecimal; valid for one connection. Only this response"
            " contains it, because the service stores only its hash.",
        ),
    )
)
