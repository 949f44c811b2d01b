# SPDX-License-Identifier: Apache-2.0

"""Slots: reconfigurable regions of devices."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import states

_STATE = common.one_of(*states.SHOWN_SLOT_STATES)
SLOT = common.resource(inventory.SLOT, {fields.STATE: _STATE})

LIST_QUERY = common.list_query(
    inventory.SLOT.sort_keys,
    host=common.described(common.UUID, "UUID of the host."),
    device=common.described(common.UUID, "Identifier of the device."),
    accelerator=common.described(
        common.NAME, "Accelerator of the slot's session."
    ),
    state=_STATE,
)

LIST = common.page_of("slots", SLOT)

SHOW = common.record(slot=common.described(SLOT, "The slot."))

TEST = common.record(
    test=common.record(
        optional=["accelerator"],
        accelerator=common.described(
            common.NAME,
            "Public accelerator for the test; if the pool does not run it on"
            " the host, a passed test brings it back. By default the slot's"
            " accelerators take turns.",
        ),
    )
)
