# SPDX-License-Identifier: Apache-2.0

"""Devices: FPGA boards of hosts."""

from fpgapool.api.schemas import administration
from fpgapool.api.schemas import common
from fpgapool.api.schemas import probation
from fpgapool.vocabulary import states

_STATE = common.one_of(*states.SHOWN_DEVICE_STATES)

DEVICE = common.record(
    id=common.described(
        common.UUID, "Derived from the host's UUID and the board's name."
    ),
    name=common.NAME,
    host_uuid=common.UUID,
    host_name=common.NAME,
    model=common.TEXT,
    dma_bytes_per_s=common.described(
        common.NUMBER, "Rate that all its slots share."
    ),
    state=common.described(
        _STATE,
        "`down` means that the host does not report. The host's setting also"
        " applies to the device.",
    ),
    fault_reason=common.described(
        common.TEXT, "Message of its driver, or why it is out of service."
    ),
    **probation.MEMBERS,
    admin_state=administration.STATE,
    admin_reason=administration.REASON,
    drain_deadline_at=administration.DEADLINE,
    slots=common.described(common.COUNT, "Number of its slots."),
    sessions=common.described(
        common.COUNT, "Number of its slots that sessions have."
    ),
    reservable_slots=common.described(
        common.COUNT, "Number of its slots that instances can reserve."
    ),
    reserved_slots=common.described(
        common.COUNT, "Number of its slots that instances have reserved."
    ),
    pending_reservations=common.described(
        common.COUNT,
        "Number of reservations that have no working slot without another"
        " session.",
    ),
    links=common.LINKS,
)

LIST_QUERY = common.list_query(
    ["name", "id", "host_name"],
    host=common.described(common.UUID, "UUID of the host."),
    state=_STATE,
)
LIST = common.page_of("devices", DEVICE)
SHOW = common.record(device=common.described(DEVICE, "The board."))
_WISH = administration.CHANGE["properties"]
CHANGE = common.record(
    optional=["reservable_slots", *_WISH],
    reservable_slots=common.described(
        common.COUNT,
        "Number of slots that instances can reserve, by flavors with"
        " `resources:CUSTOM_FPGAPOOL_SLOT`. The pool gives as many slots as"
        " are not reserved yet to no session of a stateful accelerator.",
    ),
    **_WISH,
) | {
    "anyOf": [{"required": ["state"]}, {"required": ["reservable_slots"]}],
    "dependentRequired": {
        name: ["state"] for name in administration.CHANGE_OPTIONS
    },
}
