# SPDX-License-Identifier: Apache-2.0

"""Services: the leading conductor, and the agents."""

from fpgapool.api.schemas import common

SERVICE = common.record(
    id=common.described(
        common.NAME, "Name of the conductor, UUID of an agent's host."
    ),
    binary=common.one_of("fpgapool-conductor", "fpgapool-agent"),
    host=common.described(common.TEXT, "Name of its host."),
    up=common.FLAG,
    last_report_at=common.described(
        common.nullable(common.TIME), "Time of an agent's last report."
    ),
    message=common.described(
        common.TEXT, "A problem that an operator should know of."
    ),
)

LIST_QUERY = common.list_query(
    ["id", "binary", "host"],
    binary=common.one_of("fpgapool-conductor", "fpgapool-agent"),
    up=common.FLAG,
)
LIST = common.page_of("services", SERVICE)
