# SPDX-License-Identifier: Apache-2.0

"""Instances that have, or had, a token of their own."""

from fpgapool.api.schemas import common

INSTANCE = common.record(
    id=common.UUID,
    project_id=common.TEXT,
    name=common.TEXT,
    host_uuid=common.described(
        common.nullable(common.UUID),
        "Of the compute node that it runs on; only with `all_projects`.",
    ),
    max_sessions=common.described(
        common.nullable(common.COUNT),
        "How many sessions its flavor allows at a time; null: any number.",
    ),
    token=common.described(
        common.one_of("valid", "revoked"), "What its token is."
    ),
    created_at=common.described(common.TIME, "When it got its token."),
)

LIST_QUERY = common.list_query(
    ["created_at"],
    all_projects=common.described(
        common.FLAG, "Whether those of other projects are shown, too."
    ),
    project_id=common.described(
        common.NAME,
        "Of this project only; another one's need `all_projects`.",
    ),
)
LIST = common.page_of("instances", INSTANCE)
