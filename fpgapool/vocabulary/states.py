# SPDX-License-Identifier: Apache-2.0

"""The states of sessions, slots and devices, as all interfaces spell them.

Do not change a value once it is released.
"""

# A session that waits for a slot or has one.
QUEUED = "QUEUED"
PREPARING = "PREPARING"
READY = "READY"
ACTIVE = "ACTIVE"
DETACHED = "DETACHED"

# A session that has ended.
CLOSED = "CLOSED"
REJECTED = "REJECTED"
CANCELLED = "CANCELLED"
FAILED = "FAILED"
EXPIRED = "EXPIRED"
LOST = "LOST"

LIVE = frozenset({QUEUED, PREPARING, READY, ACTIVE, DETACHED})
ASSIGNED = LIVE - {QUEUED}
#: In these states the client cannot have connected yet.
UNCONNECTED = frozenset({QUEUED, PREPARING, READY})
CONNECTED = frozenset({ACTIVE, DETACHED})
TERMINAL = frozenset({CLOSED, REJECTED, CANCELLED, FAILED, EXPIRED, LOST})
ALL = LIVE | TERMINAL

#: How a session goes on: what happens to it in a state, and the next state.
#: Of a session that ends, the code says why, see :mod:`.codes`.
SESSION_MOVES = {
    (QUEUED, "assign"): {PREPARING},
    (PREPARING, "prepare"): {READY},
    **{(state, "attach"): {ACTIVE} for state in (PREPARING, READY, DETACHED)},
    **{(state, "detach"): {DETACHED} for state in (PREPARING, READY, ACTIVE)},
    **{(state, "requeue"): {QUEUED} for state in sorted(LIVE - {QUEUED})},
    (QUEUED, "end"): TERMINAL,
    (PREPARING, "end"): TERMINAL,
    **{
        (state, "end"): TERMINAL - {REJECTED}
        for state in (READY, ACTIVE, DETACHED)
    },
    # Its worker says that it was served when its client cancelled it.
    (CANCELLED, "end"): {CLOSED},
    # Its client has lost the slot, and may have another one.
    **{
        (state, "reopen"): {QUEUED}
        for state in (CANCELLED, FAILED, EXPIRED, LOST)
    },
}

# Not a session's state, but the end of an assignment in a worker's result. The
# conductor then requeues the session.
PREPARE_FAILED = "PREPARE_FAILED"
RESULTS = frozenset({CLOSED, FAILED, EXPIRED, CANCELLED, PREPARE_FAILED})

SLOT_STARTING = "starting"
SLOT_IDLE = "idle"
SLOT_PREPARING = "preparing"
SLOT_READY = "ready"
SLOT_ACTIVE = "active"
SLOT_DETACHED = "detached"
SLOT_FAULTY = "faulty"

SLOT_STATES = frozenset(
    {
        SLOT_STARTING,
        SLOT_IDLE,
        SLOT_PREPARING,
        SLOT_READY,
        SLOT_ACTIVE,
        SLOT_DETACHED,
        SLOT_FAULTY,
    }
)

# States of slots and devices.
UP = "up"
DOWN = "down"
FAULTY = SLOT_FAULTY
ENABLED = "enabled"
DRAINING = "draining"
DISABLED = "disabled"

#: States of a slot in the API.
SHOWN_SLOT_STATES = (
    SLOT_IDLE,
    SLOT_PREPARING,
    SLOT_READY,
    SLOT_ACTIVE,
    SLOT_DETACHED,
    FAULTY,
    DISABLED,
    DOWN,
)
#: States of a device in the API.
SHOWN_DEVICE_STATES = (UP, DOWN, FAULTY, DRAINING, DISABLED)
