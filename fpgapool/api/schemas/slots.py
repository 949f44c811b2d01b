# SPDX-License-Identifier: Apache-2.0

"""Slots: reconfigurable regions of devices."""

from fpgapool.api.schemas import common
from fpgapool.api.schemas import probation
from fpgapool.vocabulary import states

_STATE = common.one_of(*states.SHOWN_SLOT_STATES)

SLOT = common.record(
    id=common.described(
        common.UUID,
        "Derived from the device's identifier and the slot's number.",
    ),
    number=common.COUNT,
    device_id=common.UUID,
    device_name=common.NAME,
    host_uuid=common.UUID,
    host_name=common.NAME,
    shape=common.described(common.TEXT, "Decides which bitstreams fit."),
    state=common.described(
        _STATE, "`down` means that the host does not report."
    ),
    fault_reason=common.described(
        common.TEXT, "Why the slot or its device is out of service."
    ),
    **probation.MEMBERS,
    accelerator=common.described(
        common.nullable(common.NAME), "Accelerator of the slot's session."
    ),
    programmed=common.described(
        common.nullable(common.NAME), "Accelerator in the slot now."
    ),
    session_id=common.described(
        common.nullable(common.UUID),
        "The slot's session, if it is one of the own project.",
    ),
    reserved_for=common.described(
        common.nullable(common.UUID),
        "The instance that has reserved the slot, if it is one of the own"
        " project.",
    ),
    links=common.LINKS,
)

LIST_QUERY = common.list_query(
    ["id", "host_name", "device_name", "number"],
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
