# SPDX-License-Identifier: Apache-2.0

"""Quotas, usage and shares of projects."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import fields

_LIMIT: common.Schema = {
    "type": "integer",
    "minimum": accounting.UNLIMITED,
    "maximum": accounting.MAX_LIMIT,
    "description": "-1 means unlimited.",
}
_SHOWN_LIMIT: common.Schema = {
    **common.nullable(_LIMIT),
    "description": "-1 means unlimited. Null: the limit is in Keystone, and is"
    " unknown while no conductor answers.",
}
_SOURCE = common.described(
    common.one_of("default", "project", "keystone"),
    "Where the limit was set: in the service's configuration (`default`), for"
    " the project through this API (`project`), or in Keystone's unified"
    " limits (`keystone`).",
)


def _described(schema: common.Schema) -> dict[str, common.Schema]:
    return {
        resource: common.described(schema, meaning)
        for resource, meaning in accounting.QUOTAS.items()
    }


SHOW_QUOTA = common.record(
    quota=common.record(
        optional=accounting.QUOTAS_SINCE,
        project_id=common.NAME,
        **_described(
            common.record(
                limit=_SHOWN_LIMIT, in_use=common.COUNT, source=_SOURCE
            )
        ),
        links=common.LINKS,
    )
)
SHOW_DEFAULTS = common.record(
    quota=common.record(
        optional=accounting.QUOTAS_SINCE,
        **_described(common.record(limit=_SHOWN_LIMIT, source=_SOURCE)),
    )
)
_SWITCH: common.Schema = {
    **_LIMIT,
    "maximum": 1,
    "description": "-1 counts as 0.",
}
UPDATE_QUOTA = common.record(
    quota={
        **common.record(
            optional=accounting.QUOTAS,
            **_described(common.nullable(_LIMIT))
            | {
                resource: common.described(
                    common.nullable(_SWITCH), accounting.QUOTAS[resource]
                )
                for resource in accounting.SWITCHES
            },
        ),
        "minProperties": 1,
        "description": "Omitted limits do not change; null resets a limit to"
        " its default.",
    }
)

_USAGE_FILTERS = {
    "project_id": common.described(
        common.NAME, "Only this project; default is your project."
    ),
    "all_projects": common.described(
        common.FLAG,
        "Return the usage of `project_id` or, if that is omitted, of all"
        " projects.",
    ),
    "accelerator": common.described(
        common.NAME, "Only usage by sessions with this accelerator."
    ),
    "start": common.described(common.DAY, "The first day, in UTC."),
    "end": common.described(common.DAY, "The last day, in UTC; inclusive."),
    "group_by": common.described(
        common.one_of("day", "project", "accelerator"),
        "Sum the usage of each day, project or accelerator. Without it, the"
        " list has a member for each combination of the three.",
    ),
    "limit": common.LIMIT,
    "marker": common.described(
        {"type": "string", "minLength": 1, "maxLength": 2000},
        "Identifier of the last member of the previous page.",
    ),
}
USAGE = {
    "query": common.record(optional=_USAGE_FILTERS, **_USAGE_FILTERS),
    "response": common.page_of(
        "usage", common.record(**common.of_fields(accounting.USAGE.shown))
    ),
}

_SHARE_FILTERS = {
    "project_id": common.described(
        common.NAME, "Show this project; default is your project."
    ),
    "session_id": common.described(
        common.UUID,
        "Also show what is before this session, which waits.",
    ),
}
_BEFORE = common.record(**common.of_fields(accounting.BEFORE.shown))
_PATH = {
    "type": "array",
    "items": common.record(**common.of_fields(accounting.PART.shown)),
}
SHARE = {
    "query": common.record(optional=_SHARE_FILTERS, **_SHARE_FILTERS),
    "response": common.record(
        share=common.record(
            **common.of_fields(
                accounting.SHARE.shown,
                {fields.OBJECT: _BEFORE, fields.OBJECTS: _PATH},
            )
        )
    ),
}
