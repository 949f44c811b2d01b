# SPDX-License-Identifier: Apache-2.0

"""Quotas of projects."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import accounting

RESOURCES = tuple(accounting.QUOTAS)

_LIMIT: common.Schema = {
    "type": "integer",
    "minimum": accounting.UNLIMITED,
    "maximum": accounting.MAX_LIMIT,
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
        for resource, meaning in accounting.QUOTAS.items()
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
