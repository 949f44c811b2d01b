# SPDX-License-Identifier: Apache-2.0

"""Instances that have, or had, a token of their own."""

from fpgapool.api.schemas import common

INSTANCE = common.record(
    id=common.UUID,
    project_id=common.TEXT,
    name=common.TEXT,
    host_uuid=common.described(
        common.nullable(common.UUID),
        "UUID of its compute node; only with `all_projects`.",
    ),
    max_sessions=common.described(
        common.nullable(common.COUNT),
        "Sessions that its flavor allows at a time; null: unlimited.",
    ),
    token=common.described(
        common.one_of("valid", "revoked"), "State of its token."
    ),
    created_at=common.described(common.TIME, "When it got its token."),
)

LIST_QUERY = common.list_query(
    ["created_at"],
    all_projects=common.described(
        common.FLAG, "Also show those of other projects."
    ),
    project_id=common.described(
        common.NAME,
        "Only those of this project; another project needs `all_projects`.",
    ),
)
LIST = common.page_of("instances", INSTANCE)
