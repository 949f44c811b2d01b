# SPDX-License-Identifier: Apache-2.0

"""Hosts, devices, slots, services and instances."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import inventory

_FAULTS = {
    "type": "array",
    "items": common.record(
        optional=["shape"], **common.of_fields(inventory.FAULT)
    ),
}

# The state that an operator can set.
_STATE = common.described(
    common.one_of("enabled", "draining", "disabled"),
    "`disabled`: it gets no new sessions. `draining`: it gets no new sessions,"
    " and becomes `disabled` when the last session has ended. `enabled`: it is"
    " in use again, even if it was faulty.",
)
#: Members that may accompany a state.
_WITH_STATE = {
    "reason": common.described(
        {"type": "string", "maxLength": 255},
        "Human-readable reason. Without one, hardware that stays out of use"
        " keeps its reason.",
    ),
    "drain_deadline_s": common.described(
        {"type": "number", "minimum": 0, "maximum": 366 * 86400},
        "Only with `draining`: seconds that sessions may stay. After that,"
        " sessions whose clients have not connected return to their places in"
        " the queue, sessions of stateless accelerators continue in other"
        " slots, and all others end.",
    ),
}

HOST = common.resource(inventory.HOST, {fields.OBJECTS: _FAULTS})
HOSTS = common.listing("hosts", HOST, inventory.HOST)
SHOW_HOST = common.record(host=common.described(HOST, "The host."))
CHANGE_HOST = common.record(optional=_WITH_STATE, state=_STATE, **_WITH_STATE)

DEVICE = common.resource(inventory.DEVICE)
DEVICES = common.listing("devices", DEVICE, inventory.DEVICE)
SHOW_DEVICE = common.record(device=common.described(DEVICE, "The board."))
CHANGE_DEVICE = common.record(
    optional=["reservable_slots", "state", *_WITH_STATE],
    reservable_slots=common.described(
        common.COUNT,
        "Number of slots that instances can reserve, through flavors with"
        " `resources:CUSTOM_FPGAPOOL_SLOT`. Those that are not reserved yet"
        " are not assigned to sessions of stateful accelerators.",
    ),
    state=_STATE,
    **_WITH_STATE,
) | {
    "anyOf": [{"required": ["state"]}, {"required": ["reservable_slots"]}],
    "dependentRequired": {name: ["state"] for name in _WITH_STATE},
}

SLOT = common.resource(inventory.SLOT)
SLOTS = common.listing("slots", SLOT, inventory.SLOT)
SHOW_SLOT = common.record(slot=common.described(SLOT, "The slot."))
TEST_SLOT = common.record(
    test=common.record(
        optional=["accelerator"],
        accelerator=common.described(
            common.NAME,
            "Public accelerator for the test. If it is out of service on the"
            " host, a passed test returns it to service. By default, each test"
            " of a slot uses the next of its accelerators.",
        ),
    )
)

SERVICES = common.listing(
    "services",
    common.record(
        common.newer(inventory.SERVICE.shown),
        **common.of_fields(inventory.SERVICE.shown),
    ),
    inventory.SERVICE,
)

INSTANCES = common.listing(
    "instances",
    common.record(**common.of_fields(inventory.INSTANCE.shown)),
    inventory.INSTANCE,
    **common.PROJECT_FILTERS,
)
