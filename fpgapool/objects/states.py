#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
