# SPDX-License-Identifier: Apache-2.0

"""The pool's summary and snapshot."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import states

_SLOT = common.record(
    slot=common.COUNT,
    shape=common.TEXT,
    state=common.TEXT,
    accelerator=common.described(
        common.nullable(common.NAME),
        "Accelerator of the slot's session; null: no session.",
    ),
    programmed=common.nullable(common.NAME),
)
_DEVICE = common.record(
    name=common.NAME,
    healthy=common.FLAG,
    reservable_slots=common.COUNT,
    reserved_slots=common.COUNT,
    pending_reservations=common.COUNT,
    slots={"type": "array", "items": _SLOT},
)
_HOST = common.record(
    uuid=common.UUID,
    name=common.NAME,
    up=common.FLAG,
    devices={"type": "array", "items": _DEVICE},
)

_SLOTS = common.described(
    {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": common.COUNT,
        },
    },
    "Number of slots by shape, and in it by state.",
)

SHOW = common.record(
    pool=common.record(
        optional=["counts", "hosts"],
        strategy=common.described(
            common.nullable(common.NAME),
            "The scheduling strategy; null while no conductor answers.",
        ),
        waiting=common.described(
            common.COUNT, "Number of sessions that are waiting for a slot."
        ),
        sessions=common.described(
            {"type": "object", "additionalProperties": common.COUNT},
            "Number of sessions of all projects in each state, including"
            " those that ended recently.",
        ),
        counts=common.described(
            common.record(
                hosts=common.described(common.COUNT, "Number of hosts."),
                hosts_up=common.described(
                    common.COUNT, "Number of hosts that report."
                ),
                devices=common.described(common.COUNT, "Number of boards."),
                devices_healthy=common.described(
                    common.COUNT, "Number of boards that work."
                ),
                slots=_SLOTS,
            ),
            "The hardware in numbers; since version 1.1.",
        ),
        hosts=common.described(
            {"type": "array", "items": _HOST},
            "All hosts; only in version 1.0.",
        ),
    )
)

HOSTS = common.listing(
    "hosts",
    _HOST,
    inventory.POOL_HOST,
    name_part=common.described(
        common.NAME, "Only those whose name contains this text."
    ),
    slot_state=common.described(
        common.one_of(*states.SHOWN_SLOT_STATES),
        "Only those with a slot in this state.",
    ),
) | {
    "response": common.page_of(
        "hosts",
        _HOST,
        total=common.described(
            common.COUNT, "Number of hosts on all pages together."
        ),
    )
}

_COUNTS = common.record(
    usable=common.described(
        common.COUNT,
        "Slots on hosts that are up, except faulty and disabled slots.",
    ),
    free=common.described(
        common.COUNT, "Usable slots without a session or reservation."
    ),
)
_SNAPSHOT_HOST = common.record(
    name=common.NAME,
    up=common.FLAG,
    nic_bytes_per_s=common.described(
        common.NUMBER, "Rate of its network card, in each direction."
    ),
    nic_load=common.described(
        {"type": "number", "minimum": 0, "maximum": 1},
        "Share of the network card's rate that the pool's streams to and from"
        " other hosts use, in the busier direction.",
    ),
    queued=common.described(
        common.COUNT, "Number of waiting sessions from this host."
    ),
    slots=common.record(
        total=common.COUNT, usable=common.COUNT, free=common.COUNT
    ),
    accelerators=common.described(
        {"type": "object", "additionalProperties": _COUNTS},
        "Slots by accelerator; accelerators without slots on this host are"
        " omitted.",
    ),
)

SNAPSHOT = common.record(
    snapshot=common.record(
        generated_at=common.TIME,
        generation=common.described(
            common.TEXT,
            "Changes whenever the other data changes; also the `ETag`.",
        ),
        hosts=common.described(
            {"type": "object", "additionalProperties": _SNAPSHOT_HOST},
            "Hosts by the UUID of their resource provider.",
        ),
        queued=common.described(
            {"type": "object", "additionalProperties": common.COUNT},
            "Number of sessions that are waiting for each accelerator.",
        ),
    )
)
