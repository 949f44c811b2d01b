# SPDX-License-Identifier: Apache-2.0

"""Devices: FPGA boards of hosts."""

from fpgapool.api.schemas import administration
from fpgapool.api.schemas import common
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import states

_STATE = common.one_of(*states.SHOWN_DEVICE_STATES)
DEVICE = common.resource(inventory.DEVICE, {fields.STATE: _STATE})

LIST_QUERY = common.list_query(
    inventory.DEVICE.sort_keys,
    host=common.described(common.UUID, "UUID of the host."),
    state=_STATE,
)

LIST = common.page_of("devices", DEVICE)

SHOW = common.record(device=common.described(DEVICE, "The board."))

_ADMINISTRATION = administration.CHANGE["properties"]
CHANGE = common.record(
    optional=["reservable_slots", *_ADMINISTRATION],
    reservable_slots=common.described(
        common.COUNT,
        "Number of slots that instances can reserve, by flavors with"
        " `resources:CUSTOM_FPGAPOOL_SLOT`. The pool gives as many slots as"
        " are not reserved yet to no session of a stateful accelerator.",
    ),
    **_ADMINISTRATION,
) | {
    "anyOf": [{"required": ["state"]}, {"required": ["reservable_slots"]}],
    "dependentRequired": {
        name: ["state"] for name in administration.CHANGE_OPTIONS
    },
}
