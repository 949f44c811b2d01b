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

"""The stable vocabulary of reasons and errors.

Programs compare these strings; people read the messages that come with
them. Do not change a value once released, do not reuse one, and keep one
symbol per value. Add new codes to the group where a reader would look.
"""

# All is well.
OK = "OK"

# The request itself is wrong: repeating it unchanged cannot help.
UNKNOWN_ACCELERATOR = "UNKNOWN_ACCELERATOR"
UNKNOWN_HOST = "UNKNOWN_HOST"
INVALID_SIZE = "INVALID_SIZE"
SIZE_TOO_LARGE = "SIZE_TOO_LARGE"
INVALID_REQUEST = "INVALID_REQUEST"
INVALID_REQUEST_ID = "INVALID_REQUEST_ID"
REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
INVALID_PARAMS = "INVALID_PARAMS"
INVALID_TIMEOUT = "INVALID_TIMEOUT"
UNKNOWN_OPERATION = "UNKNOWN_OPERATION"

# The caller may not do this.
UNAUTHORIZED = "UNAUTHORIZED"
FORBIDDEN = "FORBIDDEN"

# A limit was met: the same request may pass later.
QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
QUEUE_FULL = "QUEUE_FULL"
TOO_MANY_CONNECTIONS = "TOO_MANY_CONNECTIONS"

# Why a job still waits (Status reasons).
NO_HOST_UP = "NO_HOST_UP"
NO_COMPATIBLE_SLOT = "NO_COMPATIBLE_SLOT"
NO_HEALTHY_SLOT = "NO_HEALTHY_SLOT"
NO_IDLE_SLOT = "NO_IDLE_SLOT"
REMOTE_LIMIT = "REMOTE_LIMIT"
WAITING_FOR_LOCAL = "WAITING_FOR_LOCAL"
WAITING_FOR_PASS = "WAITING_FOR_PASS"
UNKNOWN_JOB = "UNKNOWN_JOB"

# A time limit ran out.
WAIT_TIMEOUT = "WAIT_TIMEOUT"
REQUEST_EXPIRED = "REQUEST_EXPIRED"
PREPARE_TIMEOUT = "PREPARE_TIMEOUT"
CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
RESUME_TIMEOUT = "RESUME_TIMEOUT"
IDLE_TIMEOUT = "IDLE_TIMEOUT"
HOLD_TIMEOUT = "HOLD_TIMEOUT"
TOO_SLOW = "TOO_SLOW"

# The client ended it.
CANCELLED_BY_CLIENT = "CANCELLED_BY_CLIENT"
CLIENT_GONE = "CLIENT_GONE"

# The claim in acc_open was not kept.
CLAIM_EXCEEDED = "CLAIM_EXCEEDED"

# Boards and their workers.
PREPARE_FAILED = "PREPARE_FAILED"
PROGRAM_FAILED = "PROGRAM_FAILED"
CORE_FAILED = "CORE_FAILED"
CORE_UNAVAILABLE = "CORE_UNAVAILABLE"
WORKER_DIED = "WORKER_DIED"
WORKER_LOST = "WORKER_LOST"
SLOT_FAULTY = "SLOT_FAULTY"
DEVICE_FAILED = "DEVICE_FAILED"
HOST_LOST = "HOST_LOST"
SUPERSEDED = "SUPERSEDED"
# What a worker says to an agent that gives it the next session too early.
RECYCLE = "RECYCLE"
SLOT_BUSY = "SLOT_BUSY"
# The pool took the slot back for others; the session can go on in another.
YIELDED = "YIELDED"
MOVED = "MOVED"

#: Ends of an assignment after which a stateless session can be reopened:
#: none of them is the client's doing.
REOPENABLE = frozenset(
    {
        DEVICE_FAILED,
        HOST_LOST,
        RESUME_TIMEOUT,
        SLOT_FAULTY,
        WORKER_DIED,
        WORKER_LOST,
        YIELDED,
    }
)

# Services behind the front door.
CONDUCTOR_UNAVAILABLE = "CONDUCTOR_UNAVAILABLE"
DATABASE_UNAVAILABLE = "DATABASE_UNAVAILABLE"
DATABASE_ERROR = "DATABASE_ERROR"
DATABASE_SCHEMA_MISMATCH = "DATABASE_SCHEMA_MISMATCH"
AGENT_UNAVAILABLE = "AGENT_UNAVAILABLE"
NOT_LEADER = "NOT_LEADER"
STALE_EPOCH = "STALE_EPOCH"
STALE_GENERATION = "STALE_GENERATION"
INTERNAL_ERROR = "INTERNAL_ERROR"

# What an operator gave us.
INVALID_CONFIGURATION = "INVALID_CONFIGURATION"
INVALID_PROFILE = "INVALID_PROFILE"

# Sessions as the front door and the API know them.
SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
SESSION_CLOSED = "SESSION_CLOSED"
SESSION_NOT_READY = "SESSION_NOT_READY"

# The data plane.
PROTOCOL_ERROR = "PROTOCOL_ERROR"
BAD_OFFSET = "BAD_OFFSET"
STREAM_LIMIT = "STREAM_LIMIT"
FRAME_TOO_LARGE = "FRAME_TOO_LARGE"
HELLO_TIMEOUT = "HELLO_TIMEOUT"
CREDIT_EXCEEDED = "CREDIT_EXCEEDED"
INVALID_INPUT = "INVALID_INPUT"
CONNECTION_LOST = "CONNECTION_LOST"
CHECKSUM_MISMATCH = "CHECKSUM_MISMATCH"
CHECKSUM_UNAVAILABLE = "CHECKSUM_UNAVAILABLE"
