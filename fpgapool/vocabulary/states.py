# SPDX-License-Identifier: Apache-2.0

"""The states of sessions, slots, devices and groups in all interfaces.

Do not change a value once it is released.
"""

from collections.abc import Set

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
#: The states in which the client cannot have connected yet.
UNCONNECTED = frozenset({QUEUED, PREPARING, READY})
CONNECTED = frozenset({ACTIVE, DETACHED})
TERMINAL = frozenset({CLOSED, REJECTED, CANCELLED, FAILED, EXPIRED, LOST})
ALL = LIVE | TERMINAL

_ENDS: dict[str, Set[str]] = {"end": TERMINAL - {REJECTED}}
# The worker may report late that the session had been served before its end.
_MAY_BE_SERVED: dict[str, Set[str]] = {"end": {CLOSED}, "reopen": {QUEUED}}
_REQUEUE: dict[str, Set[str]] = {"requeue": {QUEUED}}
#: A session's state -> event -> the states that may follow. Events that are
#: missing for a state cannot happen in it. A code says why a session ended.
SESSION_MOVES: dict[str, dict[str, Set[str]]] = {
    QUEUED: {"assign": {PREPARING}, "end": TERMINAL},
    PREPARING: {
        "prepare": {READY},
        "attach": {ACTIVE},
        "detach": {DETACHED},
        "end": TERMINAL,
        **_REQUEUE,
    },
    READY: {"attach": {ACTIVE}, "detach": {DETACHED}, **_ENDS, **_REQUEUE},
    ACTIVE: {"detach": {DETACHED}, **_ENDS, **_REQUEUE},
    DETACHED: {"attach": {ACTIVE}, **_ENDS, **_REQUEUE},
    CANCELLED: _MAY_BE_SERVED,
    FAILED: _MAY_BE_SERVED,
    EXPIRED: _MAY_BE_SERVED,
    LOST: _MAY_BE_SERVED,
}

# Not a session's state, but a worker's result if it could not prepare the
# slot. The conductor then requeues the session.
PREPARE_FAILED = "PREPARE_FAILED"
RESULTS = frozenset({CLOSED, FAILED, EXPIRED, CANCELLED, PREPARE_FAILED})

SLOT_STARTING = "starting"
SLOT_IDLE = "idle"
SLOT_PREPARING = "preparing"
SLOT_READY = "ready"
SLOT_ACTIVE = "active"
SLOT_DETACHED = "detached"
SLOT_FAULTY = "faulty"

# Events of a slot that has a worker.
ASSIGN = "assign"
SELF_TEST = "self-test"
PROGRAMMED = "programmed"
ATTACHED = "attached"
LOST_CLIENT = "lost client"
SCRUBBED = "scrubbed"
SOILED = "soiled"

_CLEANED = {SCRUBBED: SLOT_IDLE, SOILED: SLOT_FAULTY}
#: A slot's state -> event -> its next state. A slot without a worker is
#: ``SLOT_STARTING``.
SLOT_MOVES = {
    SLOT_IDLE: {ASSIGN: SLOT_PREPARING, SELF_TEST: SLOT_PREPARING},
    SLOT_PREPARING: {PROGRAMMED: SLOT_READY, **_CLEANED},
    SLOT_READY: {ATTACHED: SLOT_ACTIVE, **_CLEANED},
    SLOT_ACTIVE: {
        ATTACHED: SLOT_ACTIVE,
        LOST_CLIENT: SLOT_DETACHED,
        **_CLEANED,
    },
    SLOT_DETACHED: {ATTACHED: SLOT_ACTIVE, **_CLEANED},
    SLOT_FAULTY: {SELF_TEST: SLOT_PREPARING},
}
SLOT_STATES = frozenset({SLOT_STARTING, *SLOT_MOVES})

#: What happens to a session at its deadline, with the default first: it
#: continues, it ends, or it ends as soon as no slot can meet the deadline.
CONTINUE = "continue"
KILL = "kill"
EARLY = "early"
DEADLINE_ACTIONS = (CONTINUE, KILL, EARLY)

# Where the slots of a set of sessions must be: all on one board, all on one
# host, or each on another board.
SAME_BOARD = "same_board"
SAME_HOST = "same_host"
SPREAD = "spread"
PLACEMENTS = (SAME_BOARD, SAME_HOST, SPREAD)

# What can hold a slot.
HELD_BY_SESSION = "session"
HELD_BY_SELF_TEST = "self_test"
HELD_BY_GROUP = "group"

# States of a group. A deleted group's row is removed, and so is a revoked
# client's.
GROUP_CREATING = "CREATING"
GROUP_ACTIVE = "ACTIVE"
GROUP_RESIZING = "RESIZING"
GROUP_DEGRADED = "DEGRADED"
GROUP_DRAINING = "DRAINING"
GROUP_DELETED = "DELETED"
#: It was to get its first slots at once, and did not. Only its owner ends it.
GROUP_FAILED = "FAILED"

# Events of a group.
FILLED = "filled"
MOVING = "moving"
SETTLED = "settled"
SHORT = "short"
DELETE = "delete"
EMPTIED = "emptied"
REJECT = "reject"

_DELETE = {DELETE: GROUP_DRAINING}
#: A group's state -> event -> its next state. It is filled when it has its
#: minimum number of members, moving while it has more or fewer slots than it
#: should, and short while it is below its minimum. It is rejected if it does
#: not get its first slots all at once.
GROUP_MOVES = {
    GROUP_CREATING: {
        FILLED: GROUP_ACTIVE,
        REJECT: GROUP_FAILED,
        **_DELETE,
    },
    GROUP_ACTIVE: {MOVING: GROUP_RESIZING, SHORT: GROUP_DEGRADED, **_DELETE},
    GROUP_RESIZING: {SETTLED: GROUP_ACTIVE, SHORT: GROUP_DEGRADED, **_DELETE},
    GROUP_DEGRADED: {FILLED: GROUP_ACTIVE, **_DELETE},
    GROUP_DRAINING: {EMPTIED: GROUP_DELETED},
    GROUP_FAILED: {DELETE: GROUP_DELETED},
}

GROUP_STATES = (*GROUP_MOVES, GROUP_DELETED)

CLIENT_ATTACHED = "ATTACHED"
CLIENT_REVOKED = "REVOKED"
#: The client's program closed it or disappeared.
CLIENT_ENDED = "ENDED"

CLIENT_STATES = (CLIENT_ATTACHED, CLIENT_REVOKED, CLIENT_ENDED)

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
