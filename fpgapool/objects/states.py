# SPDX-License-Identifier: Apache-2.0

"""The states of a session and of a slot, as the wire and the database say.

Do not change a value once it is released.
"""

# A session that waits for or has a slot.
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
TERMINAL = frozenset({CLOSED, REJECTED, CANCELLED, FAILED, EXPIRED, LOST})
ALL = LIVE | TERMINAL

# Not a session's state: how an assignment can end in a worker's result.
# The conductor then requeues the session.
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
