# SPDX-License-Identifier: Apache-2.0

"""Quotas of projects."""

from fpgapool.api.schemas import common

#: The resources and their descriptions.
_MEANINGS = {
    "sessions": "Sessions with a slot. Further ones wait.",
    "queued": "Requests that wait. Further ones are refused.",
    "queued_bytes": "Total bytes that these requests claim.",
    "bitstream_bytes": "Total bytes of the project's bitstreams.",
    "groups": "Groups. Further ones are refused.",
    "group_slots": "Slots that these groups may grow to.",
    "group_clients": "Clients that the project has attached to groups.",
    "max_priority": "Highest priority that counts against other projects,"
    " whose sessions may have to leave their slots; `in_use` is 0.",
}
RESOURCES = tuple(_MEANINGS)

_LIMIT: common.Schema = {
    "type": "integer",
    "minimum": -1,
    "maximum": 2**63 - 1,
    "description": "-1 means unlimited.",
}
_SHOWN_LIMIT: common.Schema = {
    **common.nullable(_LIMIT),
    "description": "-1 means unlimited; null that it is Keystone's limit,"
    " which is unknown while no conductor answers.",
}
_SOURCE = common.described(
    common.one_of("default", "project", "keystone"),
    "Source of the limit: `default` is the service's configuration, `project`"
    " was set for the project through this API, and `keystone` is one of"
    " Keystone's unified limits.",
)


def _described(schema: common.Schema) -> dict[str, common.Schema]:
    return {
        resource: common.described(schema, meaning)
        for resource, meaning in _MEANINGS.items()
    }


SHOW = common.record(
    quota=common.record(
        project_id=common.NAME,
        **_described(
            common.record(
                limit=_SHOWN_LIMIT, in_use=common.COUNT, source=_SOURCE
            )
        ),
        links=common.LINKS,
    )
)

DEFAULTS = common.record(
    quota=common.record(
        **_described(common.record(limit=_SHOWN_LIMIT, source=_SOURCE)),
    )
)

UPDATE = common.record(
    quota={
        **common.record(
            optional=RESOURCES, **_described(common.nullable(_LIMIT))
        ),
        "minProperties": 1,
        "description": "Missing limits stay as they are; null resets one to"
        " the default.",
    }
)
