# SPDX-License-Identifier: Apache-2.0

"""The stable codes of all errors, ends of sessions, and reasons to wait.

Programs compare the codes; people read the messages that accompany them. Each
code is one row: its name, a sentence, the HTTP status with which the REST API
returns it, and how the pool treats it. Sets of codes and the tables in the
documentation are derived from the rows. Never change or reuse a name once it
is released.
"""

import typing


class Error(typing.NamedTuple):
    """What a code means and how the pool treats it.

    :ivar sentence: meaning of the code; may contain RST literals.
    :ivar status: HTTP status of the REST API's response; None: the API never
        returns the code, and reports INTERNAL_ERROR instead.
    :ivar reopens: whether a stateless session that ended with the code may be
        reopened, because its client did not cause the end.
    :ivar slot_fault: whether a session that ends with the code counts as a
        failure of its slot.
    :ivar device_fault: whether a driver's error with the code ends a session;
        a driver's errors with other codes are only for operators.
    :ivar bitstream_fault: whether a preparation that fails with the code is
        the fault of the bitstream, not of the slot or its board.
    :ivar waits: whether the code explains why a session has no slot yet.
    """

    sentence: str
    status: int | None = None
    reopens: bool = False
    slot_fault: bool = False
    device_fault: bool = False
    bitstream_fault: bool = False
    waits: bool = False


#: All codes, in the order of this module.
ERRORS: dict[str, Error] = {}


def _code(
    name: str, sentence: str, status: int | None = None, **treated: bool
) -> str:
    ERRORS[name] = Error(sentence, status, **treated)
    return name


# Success.
OK = _code("OK", "The client closed the session.")

# The request itself is wrong: repeating it unchanged cannot help.
UNKNOWN_ACCELERATOR = _code(
    "UNKNOWN_ACCELERATOR",
    "The project has no such accelerator, or it is unknown on the slot's "
    "host.",
    400,
)
UNKNOWN_HOST = _code(
    "UNKNOWN_HOST", "The client's host has never reported to the pool.", 400
)
INVALID_SIZE = _code(
    "INVALID_SIZE",
    "The size is not a positive integer, or is out of range.",
    400,
)
SIZE_TOO_LARGE = _code(
    "SIZE_TOO_LARGE", "The claimed size exceeds the pool's limit.", 413
)
INVALID_REQUEST = _code(
    "INVALID_REQUEST", "A member of the request is invalid or missing.", 400
)
INVALID_REQUEST_ID = _code(
    "INVALID_REQUEST_ID",
    "The request_id has invalid characters or is too long.",
    400,
)
REQUEST_ID_REUSED = _code(
    "REQUEST_ID_REUSED",
    "The request_id was already used for a different request.",
    409,
)
INVALID_PARAMS = _code(
    "INVALID_PARAMS", "The parameters are not valid for the accelerator."
)
INVALID_TIMEOUT = _code(
    "INVALID_TIMEOUT", "A time limit is out of range.", 400
)
UNKNOWN_OPERATION = _code(
    "UNKNOWN_OPERATION",
    "The front door or the worker does not support the operation.",
)
DEADLINE_IMPOSSIBLE = _code(
    "DEADLINE_IMPOSSIBLE",
    "No slot of the pool can process the input before the deadline.",
)
INVALID_SET = _code(
    "INVALID_SET",
    "The size or placement of a set of sessions is invalid, or differs from "
    "that of its other sessions, or the set has all its sessions already.",
    400,
)
SET_IMPOSSIBLE = _code(
    "SET_IMPOSSIBLE",
    "The pool, or the project's quota, can never hold all sessions of the "
    "set, or the first slots of the group, at the same time.",
    409,
)
INVALID_GROUP_SIZE = _code(
    "INVALID_GROUP_SIZE",
    "The sizes of a group contradict each other or are out of range.",
    400,
)
INVALID_BUDGET = _code(
    "INVALID_BUDGET",
    "The limits, the period or the action of a budget are invalid or out of "
    "range.",
    400,
)
INVALID_RESERVATION = _code(
    "INVALID_RESERVATION",
    "The times, the number of slots or another member of a reservation make "
    "no sense, or cannot change any more.",
    400,
)
INVALID_GOAL = _code(
    "INVALID_GOAL",
    "The goal of a group must be a rate, or a deadline and a number of "
    "tasks, and within the allowed range.",
    400,
)

# Bitstreams and their uploads.
BITSTREAM_NOT_FOUND = _code(
    "BITSTREAM_NOT_FOUND",
    "The bitstream does not exist or belongs to another project.",
    404,
)
BITSTREAM_REFUSED = _code(
    "BITSTREAM_REFUSED", "The bitstream cannot be changed in this way.", 400
)
BITSTREAM_IN_USE = _code(
    "BITSTREAM_IN_USE",
    "A slot runs the bitstream, so it cannot be deleted.",
    409,
)
BITSTREAM_HAS_FILE = _code(
    "BITSTREAM_HAS_FILE", "The bitstream already has a file.", 409
)
BITSTREAM_HAS_NO_FILE = _code(
    "BITSTREAM_HAS_NO_FILE", "The bitstream's file has not been uploaded.", 409
)
BITSTREAM_TOO_LARGE = _code(
    "BITSTREAM_TOO_LARGE",
    "The bitstream's file is larger than the limit.",
    413,
)
CHECKSUM_MISMATCH = _code(
    "CHECKSUM_MISMATCH",
    "An upload does not match its announced checksum, or the data that the "
    "board received differs from what the client sent.",
    400,
)
SIGNATURE_REQUIRED = _code(
    "SIGNATURE_REQUIRED", "The pool requires signed bitstreams.", 400
)
INVALID_SIGNATURE = _code(
    "INVALID_SIGNATURE", "The signature was not made with a trusted key.", 400
)
INVALID_DECLARATION = _code(
    "INVALID_DECLARATION",
    "The declaration for emulated boards is invalid.",
    400,
)
LENGTH_REQUIRED = _code(
    "LENGTH_REQUIRED", "The upload does not state its length.", 411
)
UPLOAD_INCOMPLETE = _code(
    "UPLOAD_INCOMPLETE", "The upload was interrupted or took too long.", 400
)
TOO_MANY_UPLOADS = _code(
    "TOO_MANY_UPLOADS", "Too many uploads are in progress.", 503
)
STORE_UNAVAILABLE = _code(
    "STORE_UNAVAILABLE", "The bitstream store does not answer.", 503
)
STORE_FAILED = _code(
    "STORE_FAILED",
    "The bitstream store rejected a request or lost a file.",
    502,
)

# The caller may not do this.
UNAUTHORIZED = _code(
    "UNAUTHORIZED",
    "The token, credential or session secret is missing, wrong, already used "
    "or expired.",
    401,
)
FORBIDDEN = _code("FORBIDDEN", "A policy denies the request.", 403)
HOST_NOT_LOOPBACK = _code(
    "HOST_NOT_LOOPBACK",
    "The API runs without Keystone, and the request's ``Host`` header does "
    "not name this machine.",
    403,
)
RATE_LIMITED = _code(
    "RATE_LIMITED",
    "The caller sends requests faster than allowed, or the service is "
    "overloaded.",
    429,
)
MESSAGE_REFUSED = _code(
    "MESSAGE_REFUSED",
    "A message between services has no valid signature, was received before, "
    "or its sender may not send it.",
    503,
)
MESSAGE_STALE = _code(
    "MESSAGE_STALE",
    "A message between services came too late, or was for another leader.",
    503,
)

# A limit has been reached: the same request may succeed later.
QUOTA_EXCEEDED = _code(
    "QUOTA_EXCEEDED",
    "The project has reached a quota or its limit of connections to a group.",
    429,
)
BUDGET_EXHAUSTED = _code(
    "BUDGET_EXHAUSTED",
    "The project has used up its budget of this period.",
    429,
    waits=True,
)
RESERVATION_CONFLICT = _code(
    "RESERVATION_CONFLICT",
    "Fewer slots than the reservation wants are left beside all earlier "
    "promises; the message has the next time that fits.",
    409,
)
TOO_MANY_RESERVATIONS = _code(
    "TOO_MANY_RESERVATIONS",
    "The pool has as many reservations as it can keep.",
    503,
)
QUOTAS_IN_KEYSTONE = _code(
    "QUOTAS_IN_KEYSTONE",
    "The quotas of this pool are set in Keystone, not through the API.",
    409,
)
QUEUE_FULL = _code("QUEUE_FULL", "The pool's queue is full.", 503)
ACCELERATOR_OUT_OF_USE = _code(
    "ACCELERATOR_OUT_OF_USE",
    "The accelerator is out of service after failures on every host that "
    "could run it.",
    503,
)
TOO_MANY_CONNECTIONS = _code(
    "TOO_MANY_CONNECTIONS",
    "Too many programs are connected to the host's front door.",
)
INSTANCE_SESSION_LIMIT = _code(
    "INSTANCE_SESSION_LIMIT",
    "The instance has as many sessions as its flavor allows.",
    429,
)
GOAL_INFEASIBLE = _code(
    "GOAL_INFEASIBLE",
    "The pool has too few slots for the group's goal in addition to the "
    "goals of other groups.",
    409,
)

# Dry runs: the pool is too large for them, or its strategy cannot be copied.
DRY_RUN_UNSUPPORTED = _code(
    "DRY_RUN_UNSUPPORTED",
    "The conductor cannot copy the scheduler's state for a dry run.",
    501,
)

# Why a session still waits; the API shows these sentences.
NO_HOST_UP = _code("NO_HOST_UP", "All hosts of the pool are down.", waits=True)
NO_COMPATIBLE_SLOT = _code(
    "NO_COMPATIBLE_SLOT",
    "The pool has no slot that fits the session.",
    409,
    waits=True,
)
NO_HEALTHY_SLOT = _code(
    "NO_HEALTHY_SLOT", "All slots that fit are faulty.", waits=True
)
NO_ENABLED_SLOT = _code(
    "NO_ENABLED_SLOT",
    "An operator has disabled all working slots that fit.",
    waits=True,
)
NO_IDLE_SLOT = _code(
    "NO_IDLE_SLOT", "All slots that fit are in use.", waits=True
)
SLOTS_RESERVED = _code(
    "SLOTS_RESERVED",
    "Slots that fit are reserved by instances or by calendar, or kept free "
    "for reservations.",
    waits=True,
)
REMOTE_LIMIT = _code(
    "REMOTE_LIMIT",
    "The hosts with idle slots already serve the maximum number of remote "
    "sessions.",
    waits=True,
)
WAITING_FOR_LOCAL = _code(
    "WAITING_FOR_LOCAL",
    "The session is waiting for a slot on its own host.",
    waits=True,
)
WAITING_FOR_PASS = _code(
    "WAITING_FOR_PASS",
    "The session has just arrived, or is the next to be served.",
    waits=True,
)
SET_WAITS = _code(
    "SET_WAITS",
    "The session waits for the others of its set, or for slots for all of "
    "them.",
    waits=True,
)
WAITING_FOR_AFFINITY = _code(
    "WAITING_FOR_AFFINITY",
    "The session is waiting for a board that already runs its accelerator, or "
    "for an idle board.",
    waits=True,
)
POWER_CAP = _code(
    "POWER_CAP",
    "Slots that fit are idle, but using one would exceed the operator's "
    "power cap.",
    waits=True,
)
PROJECT_SESSION_LIMIT = _code(
    "PROJECT_SESSION_LIMIT",
    "The project holds as many slots as its quota allows.",
    waits=True,
)
UNKNOWN_JOB = _code(
    "UNKNOWN_JOB", "The scheduler does not know the session yet.", waits=True
)

# A time limit was exceeded.
WAIT_TIMEOUT = _code("WAIT_TIMEOUT", "No slot became free in time.")
PREPARE_TIMEOUT = _code(
    "PREPARE_TIMEOUT", "A slot was not prepared in time.", reopens=True
)
CONNECT_TIMEOUT = _code(
    "CONNECT_TIMEOUT",
    "The slot was ready, but the client did not connect in time.",
)
RESUME_TIMEOUT = _code(
    "RESUME_TIMEOUT",
    "The connection broke, and the client did not reconnect in time.",
    reopens=True,
)
IDLE_TIMEOUT = _code(
    "IDLE_TIMEOUT",
    "The connected client neither sent input nor received output for too "
    "long.",
)
HOLD_TIMEOUT = _code(
    "HOLD_TIMEOUT", "The session has held its slot for the maximum time."
)
TOO_SLOW = _code(
    "TOO_SLOW", "The client sent input more slowly than required."
)
DEADLINE_PASSED = _code(
    "DEADLINE_PASSED",
    "The session could not meet its deadline, and its deadline action ended "
    "it.",
)

# The client ended the session.
CANCELLED_BY_CLIENT = _code(
    "CANCELLED_BY_CLIENT",
    "The client cancelled its request, or closed the session before it was "
    "served.",
)
CLIENT_GONE = _code(
    "CLIENT_GONE",
    "The client disconnected from the front door or aborted the session.",
)

# Errors of the client library itself.
CANCELLED = _code("CANCELLED", "The program cancelled the call.")
CERTIFICATE_MISMATCH = _code(
    "CERTIFICATE_MISMATCH",
    "The certificate at the worker's address is not the worker's.",
)
FILE_ERROR = _code(
    "FILE_ERROR",
    "A command cannot read or write the file that the message names.",
)
FRONT_DOOR_UNAVAILABLE = _code(
    "FRONT_DOOR_UNAVAILABLE", "The client library cannot reach the pool."
)
INCOMPATIBLE_SLOT = _code(
    "INCOMPATIBLE_SLOT", "The session moved to a worker with smaller buffers."
)
INVALID_USAGE = _code(
    "INVALID_USAGE",
    "The command line of ``fpgapool-run`` or ``fpgapool-dev`` is invalid.",
)
SESSION_BUSY = _code(
    "SESSION_BUSY", "Another call is using the session at the same time."
)
SESSION_FORKED = _code(
    "SESSION_FORKED",
    "The program forked after it had opened the session, and the child "
    "process tried to use it.",
)
SESSION_LOST = _code(
    "SESSION_LOST", "The connection broke and could not be resumed."
)
SIZE_MISMATCH = _code(
    "SIZE_MISMATCH",
    "The size of the input or output differs from the announced size.",
)
TIMEOUT = _code("TIMEOUT", "The program's own time limit was exceeded.")
TLS_REQUIRED = _code(
    "TLS_REQUIRED",
    "The program requires TLS, and the slot's host or the API does not "
    "offer it.",
)
TOO_MANY_OPEN_FILES = _code(
    "TOO_MANY_OPEN_FILES",
    "The program or its machine has run out of file descriptors.",
)

# The client sent more than it claimed when it opened the session.
CLAIM_EXCEEDED = _code(
    "CLAIM_EXCEEDED",
    "The session of a stateful accelerator sent more than it had claimed "
    "while other sessions waited.",
)

# Boards and their workers.
PREPARE_FAILED = _code("PREPARE_FAILED", "A slot could not be prepared.")
PROGRAM_FAILED = _code("PROGRAM_FAILED", "The board could not be programmed.")
CORE_FAILED = _code(
    "CORE_FAILED",
    "The accelerator failed or did not return a result in time.",
    slot_fault=True,
)
CORE_UNAVAILABLE = _code(
    "CORE_UNAVAILABLE",
    "The accelerator's software core is not installed on this machine.",
)
WORKER_DIED = _code(
    "WORKER_DIED",
    "The slot's worker process ended, or was killed because it did not "
    "answer.",
    reopens=True,
    slot_fault=True,
)
WORKER_LOST = _code(
    "WORKER_LOST",
    "The session's worker process can no longer be found or reached.",
    reopens=True,
)
SLOT_FAULTY = _code(
    "SLOT_FAULTY", "The slot is faulty or cannot be scrubbed.", reopens=True
)
SELF_TEST_FAILED = _code(
    "SELF_TEST_FAILED", "A self-test in the slot computed a wrong result."
)
DEVICE_FAILED = _code(
    "DEVICE_FAILED",
    "The driver reports that the board does not work.",
    reopens=True,
    slot_fault=True,
    device_fault=True,
)
HOST_LOST = _code(
    "HOST_LOST", "The host has not reported for too long.", reopens=True
)
SUPERSEDED = _code(
    "SUPERSEDED",
    "A newer assignment replaced this one, or the pool had already given up "
    "the session.",
)
HOST_OUT_OF_MEMORY = _code(
    "HOST_OUT_OF_MEMORY",
    "The slot's worker ran out of memory or file descriptors for its "
    "client's buffers.",
    reopens=True,
)
OUT_OF_MEMORY = _code(
    "OUT_OF_MEMORY",
    "The session or task needs more memory than its slot's worker may use.",
)
# Errors of programming a bitstream into a slot.
BITSTREAM_UNAVAILABLE = _code(
    "BITSTREAM_UNAVAILABLE",
    "An agent could not fetch the bitstream's file.",
    bitstream_fault=True,
)
BITSTREAM_DAMAGED = _code(
    "BITSTREAM_DAMAGED",
    "The file in the agent's cache or in the store differs from the upload.",
    bitstream_fault=True,
)
BITSTREAM_UNKNOWN = _code(
    "BITSTREAM_UNKNOWN",
    "The driver cannot use the bitstream.",
    bitstream_fault=True,
)
BITSTREAM_UNFIT = _code(
    "BITSTREAM_UNFIT",
    "The slot has the wrong shape or is too small for the bitstream.",
    bitstream_fault=True,
)
BITSTREAM_UNTRUSTED = _code(
    "BITSTREAM_UNTRUSTED",
    "The bitstream is not signed with a key that the slot's host trusts.",
    bitstream_fault=True,
)
# OpenCL: a bitstream's package, manifest, source or xclbin.
INVALID_PACKAGE = _code(
    "INVALID_PACKAGE",
    "The file is not a package with a manifest and a payload, or is damaged.",
    400,
    bitstream_fault=True,
)
INVALID_MANIFEST = _code(
    "INVALID_MANIFEST",
    "The manifest of an OpenCL bitstream is invalid or does not match its "
    "kernels.",
    400,
    bitstream_fault=True,
)
SOURCE_REFUSED = _code(
    "SOURCE_REFUSED",
    "A source contains what could let it leave its device, or a binary was to "
    "be signed.",
)
KERNEL_BUILD_FAILED = _code(
    "KERNEL_BUILD_FAILED",
    "The device's compiler rejects the source, or the device rejects the "
    "binary.",
    bitstream_fault=True,
)
DEVICE_OUT_OF_MEMORY = _code(
    "DEVICE_OUT_OF_MEMORY",
    "An OpenCL device has too little memory for the session's buffers.",
    device_fault=True,
)
INVALID_CHECKPOINT = _code(
    "INVALID_CHECKPOINT",
    "The checkpoint that the client restored is damaged or belongs to "
    "another accelerator.",
)
KERNEL_HUNG = _code(
    "KERNEL_HUNG",
    "An OpenCL kernel took far longer than the accelerator's rate suggests.",
    slot_fault=True,
    device_fault=True,
)
INVALID_XCLBIN = _code(
    "INVALID_XCLBIN",
    "The file is not an xclbin, or is damaged.",
    400,
    bitstream_fault=True,
)
XCLBIN_TRUNCATED = _code(
    "XCLBIN_TRUNCATED",
    "The xclbin ends before its last section.",
    400,
    bitstream_fault=True,
)
XCLBIN_OTHER_PLATFORM = _code(
    "XCLBIN_OTHER_PLATFORM",
    "The xclbin is for a different platform, not for the board's.",
    400,
    bitstream_fault=True,
)
XCLBIN_OTHER_SHELL = _code(
    "XCLBIN_OTHER_SHELL",
    "The xclbin is for a different version of the board's shell.",
    bitstream_fault=True,
)
# Codes that drivers report to workers, in addition to those above.
DRIVER_UNKNOWN = _code(
    "DRIVER_UNKNOWN", "No driver with the configured name is installed."
)
INVALID_SETTINGS = _code(
    "INVALID_SETTINGS",
    "The settings of a driver or worker, or the boards file, are invalid.",
)
NO_SUCH_SLOT = _code("NO_SUCH_SLOT", "The driver has no such device or slot.")
NOT_PROGRAMMED = _code("NOT_PROGRAMMED", "The slot runs no accelerator.")
PROGRAMMING_FAILED = _code(
    "PROGRAMMING_FAILED", "The driver could not program the slot."
)
SCRUB_FAILED = _code(
    "SCRUB_FAILED",
    "The driver could not remove a session's data from the slot.",
)
PROCESS_SPENT = _code(
    "PROCESS_SPENT",
    "The slot cannot be used again until its worker process is replaced.",
)
# A worker's answer if its agent assigns it the next session too early.
RECYCLE = _code(
    "RECYCLE",
    "The worker exits, because the next session belongs to another project "
    "and gets a new worker.",
)
SLOT_BUSY = _code(
    "SLOT_BUSY",
    "The worker was told to start a session while it still had one.",
)
# The pool took the slot for others; the session can continue in another slot.
YIELDED = _code(
    "YIELDED",
    "The session sent more than it claimed while other sessions waited.",
    reopens=True,
)
PREEMPTED = _code(
    "PREEMPTED",
    "A session of higher priority or with a more urgent deadline took the "
    "slot.",
    reopens=True,
)
DRAINED = _code(
    "DRAINED",
    "An operator drained the device, and the session did not end before the "
    "drain's deadline.",
    reopens=True,
)
RESERVED = _code(
    "RESERVED",
    "The slot was taken back for the instance that has reserved it.",
    reopens=True,
)
MOVED = _code(
    "MOVED",
    "The slot was released because its session continues in another slot.",
)
SET_INCOMPLETE = _code(
    "SET_INCOMPLETE",
    "Another session of the set was not opened in time, or ended before all "
    "had their slots.",
)
# A group has more slots than it should have.
RESIZED = _code(
    "RESIZED",
    "The group had more slots than it should, and released this one.",
)

# The connection broke before the client had received what it needs to resume.
CONNECTION_LOST = _code(
    "CONNECTION_LOST",
    "The connection broke before the session began.",
    reopens=True,
)

# Services behind the front door.
CONDUCTOR_UNAVAILABLE = _code(
    "CONDUCTOR_UNAVAILABLE", "No conductor answers.", 503
)
DATABASE_UNAVAILABLE = _code(
    "DATABASE_UNAVAILABLE",
    "The database is unreachable, full, read-only or too busy.",
    503,
)
DATABASE_ERROR = _code("DATABASE_ERROR", "The database rejected a statement.")
DATABASE_SCHEMA_MISMATCH = _code(
    "DATABASE_SCHEMA_MISMATCH",
    "The database tables are older or newer than the service.",
    503,
)
KEYSTONE_UNAVAILABLE = _code(
    "KEYSTONE_UNAVAILABLE",
    "Keystone does not answer, or the API cannot authenticate to it.",
    503,
)
NOT_LEADER = _code("NOT_LEADER", "Another conductor has taken over.", 503)
STALE_GENERATION = _code(
    "STALE_GENERATION",
    "The client refers to an assignment that has ended.",
    409,
)
INTERNAL_ERROR = _code(
    "INTERNAL_ERROR", "The service failed; its log has the details."
)

# The operator's configuration and files.
INVALID_CONFIGURATION = _code(
    "INVALID_CONFIGURATION",
    "A configuration option or a command-line option is invalid.",
)
INVALID_PROFILE = _code(
    "INVALID_PROFILE", "The profile of an accelerator is invalid."
)

# Instances with their own tokens, and the services that report on instances.
INSTANCE_NOT_FOUND = _code(
    "INSTANCE_NOT_FOUND", "The instance does not exist or has no token.", 404
)
INSTANCE_DELETED = _code(
    "INSTANCE_DELETED",
    "The instance was deleted, and its sessions with it.",
    409,
)
NOVA_UNAVAILABLE = _code(
    "NOVA_UNAVAILABLE", "Nova does not answer, or its answer is invalid."
)
PLACEMENT_UNAVAILABLE = _code(
    "PLACEMENT_UNAVAILABLE",
    "Placement does not answer, or its answer is invalid.",
)
PLACEMENT_REFUSED = _code("PLACEMENT_REFUSED", "Placement rejected a change.")

# Sessions at the front door and the API.
SESSION_NOT_FOUND = _code(
    "SESSION_NOT_FOUND",
    "The session does not exist, belongs to another project, or ended so "
    "long ago that its record was deleted.",
    404,
)
SESSION_CLOSED = _code("SESSION_CLOSED", "The session has ended.", 409)
SESSION_NOT_READY = _code(
    "SESSION_NOT_READY", "The session has no slot to connect to.", 409
)

# Groups and their clients.
GROUP_NOT_FOUND = _code(
    "GROUP_NOT_FOUND",
    "The group does not exist, is being deleted, or belongs to another "
    "project.",
    404,
)
GROUP_CLIENT_NOT_FOUND = _code(
    "GROUP_CLIENT_NOT_FOUND",
    "The group never had this client, or its access was revoked.",
    404,
)
GROUP_NAME_TAKEN = _code(
    "GROUP_NAME_TAKEN", "The project already has a group of this name.", 409
)
GROUP_WAITS = _code(
    "GROUP_WAITS",
    "The first slots of the group come all at once, and it waits for them: "
    "until then its sizes cannot change.",
    409,
)
GROUP_FAILED = _code(
    "GROUP_FAILED",
    "The group did not get its first slots; its ``reason`` says why. It can "
    "only be deleted.",
    409,
)
GROUP_NOT_ELASTIC = _code(
    "GROUP_NOT_ELASTIC", "Only an elastic group can have a goal.", 409
)
GROUP_NOT_SHARED = _code(
    "GROUP_NOT_SHARED",
    "Only a shared group can be restricted to certain projects.",
    409,
)
ACCELERATOR_NOT_STATELESS = _code(
    "ACCELERATOR_NOT_STATELESS",
    "The accelerator is stateful, so its groups cannot be shared and a file "
    "cannot be divided into tasks.",
    409,
)
WRONG_ACCELERATOR = _code(
    "WRONG_ACCELERATOR",
    "The group's accelerator is not the one that the program expects.",
)

# Requests to the REST API.
PATH_NOT_FOUND = _code("PATH_NOT_FOUND", "The API has no such path.", 404)
METHOD_NOT_ALLOWED = _code(
    "METHOD_NOT_ALLOWED", "The path does not support this method.", 405
)
VERSION_NOT_ACCEPTABLE = _code(
    "VERSION_NOT_ACCEPTABLE", "The service does not support this version.", 406
)
NOT_ACCEPTABLE = _code(
    "NOT_ACCEPTABLE",
    "The ``Accept`` header excludes the format of the response.",
    406,
)
BODY_TOO_LARGE = _code(
    "BODY_TOO_LARGE", "The body of the request is too large.", 413
)
UNSUPPORTED_MEDIA_TYPE = _code(
    "UNSUPPORTED_MEDIA_TYPE",
    "The request's ``Content-Type`` is not the required one.",
    415,
)
PROJECT_NOT_FOUND = _code(
    "PROJECT_NOT_FOUND",
    "The quota or budget belongs to another project, and only "
    "administrators can see it.",
    404,
)
RESERVATION_NOT_FOUND = _code(
    "RESERVATION_NOT_FOUND",
    "The reservation does not exist or belongs to another project.",
    404,
)
BUDGET_NOT_FOUND = _code(
    "BUDGET_NOT_FOUND",
    "The project has no budget of its own, and there is no default.",
    404,
)
ACCELERATOR_NOT_FOUND = _code(
    "ACCELERATOR_NOT_FOUND",
    "The accelerator does not exist or belongs to another project.",
    404,
)
HOST_NOT_FOUND = _code("HOST_NOT_FOUND", "The host does not exist.", 404)
DEVICE_NOT_FOUND = _code("DEVICE_NOT_FOUND", "The device does not exist.", 404)
SLOT_NOT_FOUND = _code("SLOT_NOT_FOUND", "The slot does not exist.", 404)
FEWER_THAN_RESERVED = _code(
    "FEWER_THAN_RESERVED",
    "A device cannot have fewer reservable slots than instances have "
    "reserved on it.",
    409,
)
# Why a slot cannot be tested now.
SLOT_IN_USE = _code(
    "SLOT_IN_USE",
    "The slot cannot be tested now: it has a session, is reserved, or is "
    "being tested.",
    409,
)
SLOT_NOT_TESTABLE = _code(
    "SLOT_NOT_TESTABLE",
    "The slot cannot be tested: it is being drained, or its driver or "
    "agent reports that it is unusable.",
    409,
)
HOST_DOWN = _code(
    "HOST_DOWN", "The slot cannot be tested: its host is not reporting.", 409
)

# Tasks of groups.
ACCESS_REVOKED = _code(
    "ACCESS_REVOKED",
    "An operator or the group's owner has revoked the client's access to "
    "the group.",
)
LOCK_LIMIT = _code("LOCK_LIMIT", "The group has reached its limit of locks.")
LOCK_LOST = _code(
    "LOCK_LOST",
    "The task's lock ended before the task was complete; the core's state is "
    "lost.",
)
TASK_LOST = _code(
    "TASK_LOST",
    "The member of the group that had the task's input failed; the input must "
    "be sent again.",
)
TASK_TOO_LARGE = _code(
    "TASK_TOO_LARGE",
    "The parameters and input of a task, or its output, exceed the desk's "
    "limit.",
)

# The data plane.
PROTOCOL_ERROR = _code("PROTOCOL_ERROR", "The peer violated the protocol.")
BAD_OFFSET = _code(
    "BAD_OFFSET", "Data starts, or a transfer resumes, at an invalid offset."
)
STREAM_LIMIT = _code("STREAM_LIMIT", "A connection can have only one stream.")
FRAME_TOO_LARGE = _code(
    "FRAME_TOO_LARGE", "A frame is larger than the limit that was agreed."
)
HELLO_TIMEOUT = _code(
    "HELLO_TIMEOUT",
    "A client connected to the data port but did not send HELLO in time.",
)
CREDIT_EXCEEDED = _code(
    "CREDIT_EXCEEDED", "The client sent more than its credit."
)
INVALID_INPUT = _code(
    "INVALID_INPUT", "The accelerator does not accept the data."
)
INVALID_ARGUMENT = _code(
    "INVALID_ARGUMENT",
    "The data that applies to the whole input, such as a model, is missing "
    "or unsuitable.",
)
CHECKSUM_UNAVAILABLE = _code(
    "CHECKSUM_UNAVAILABLE",
    "The slot's board does not support end-to-end checksums.",
)
BLOCK_DAMAGED = _code(
    "BLOCK_DAMAGED", "A block's data does not match its reference."
)

# Chains of accelerators. The first ones are errors of the program; nothing was
# requested.
CHAIN_LENGTH = _code(
    "CHAIN_LENGTH", "A chain has fewer than 2 or more than 8 stages."
)
CHAIN_PARAMS = _code(
    "CHAIN_PARAMS", "Parameters are for a stage that the chain does not have."
)
CHAIN_NO_OUTPUT = _code(
    "CHAIN_NO_OUTPUT",
    "A stage before the last one has no output that the next stage could "
    "take.",
)
CHAIN_OPTION = _code("CHAIN_OPTION", "The option is not possible for chains.")
CHAIN_UNAVAILABLE = _code(
    "CHAIN_UNAVAILABLE",
    "The slot's worker is of a release that does not know chains.",
)
CHAIN_LINK_LOST = _code(
    "CHAIN_LINK_LOST",
    "The worker of a stage cannot reach the worker of the next stage.",
)
CHAIN_STALLED = _code(
    "CHAIN_STALLED",
    "A stage has so little output that all input in flight does not fill one "
    "piece of the next stage.",
)


def _those(treated: str) -> frozenset[str]:
    return frozenset(c for c, row in ERRORS.items() if getattr(row, treated))


#: The REST API's HTTP status of each code that it returns.
STATUSES = {c: row.status for c, row in ERRORS.items() if row.status}

#: See the attributes of :class:`Error`.
REOPENABLE = _those("reopens")
SLOT_FAULTS = _those("slot_fault")
DEVICE_FAULTS = _those("device_fault")
BITSTREAM_FAULTS = _those("bitstream_fault")
WAITING = _those("waits")

#: End codes of sessions that ended as their clients wanted.
AS_WANTED = frozenset({OK, CANCELLED_BY_CLIENT})

#: Why a holder must release its slot, although it may get another one.
ROOM_IS_MADE = frozenset({DRAINED, RESERVED, RESIZED})

#: Why the pool takes a slot from a session that may continue in another one.
TAKEN_BACK = ROOM_IS_MADE | {PREEMPTED, YIELDED}

#: A worker's responses to a client whose session has lost the slot. A
#: stateless session has, or waits for, another slot.
SLOT_LOST = REOPENABLE | {SUPERSEDED}

#: End codes of sessions that a slot may have served without the leader's
#: knowledge, because the agent, the worker or their reports were lost.
UNSEEN = REOPENABLE | {CLIENT_GONE, CONNECT_TIMEOUT, WAIT_TIMEOUT}
