# SPDX-License-Identifier: Apache-2.0

"""Hosts of the pool."""

from fpgapool.api.schemas import administration
from fpgapool.api.schemas import common
from fpgapool.api.schemas import probation

HOST = common.record(
    uuid=common.UUID,
    name=common.NAME,
    up=common.described(common.FLAG, "Whether its agent reports."),
    nic_bytes_per_s=common.described(
        common.NUMBER, "Rate of its network card, in each direction."
    ),
    admin_state=administration.STATE,
    admin_reason=administration.REASON,
    drain_deadline_at=administration.DEADLINE,
    devices=common.described(common.COUNT, "Number of its boards."),
    slots=common.described(common.COUNT, "Number of their slots."),
    sessions=common.described(
        common.COUNT, "Number of slots that sessions have."
    ),
    faulty_accelerators=probation.ACCELERATORS,
    links=common.LINKS,
)

LIST_QUERY = common.list_query(
    ["name", "uuid"], name=common.NAME, up=common.FLAG
)
LIST = common.page_of("hosts", HOST)
SHOW = common.record(host=common.described(HOST, "The host."))
CHANGE = administration.CHANGE
