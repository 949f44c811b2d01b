# SPDX-License-Identifier: Apache-2.0

"""Inconsistencies in a pool."""

import dataclasses

from fpgapool.objects import base

SESSION_WITHOUT_SLOT = "session_without_slot"
SLOT_WITHOUT_SESSION = "slot_without_session"
SESSION_UNKNOWN = "session_unknown"
SESSION_DIFFERS = "session_differs"
SESSION_NOT_RECORDED = "session_not_recorded"
WORKER_WITHOUT_SESSION = "worker_without_session"
SESSION_WITHOUT_WORKER = "session_without_worker"
ORDER_NOT_FOLLOWED = "order_not_followed"
WORKER_WITHOUT_AGENT = "worker_without_agent"
DEVICES_OF_SILENT_HOST = "devices_of_silent_host"
RESERVATION_WITHOUT_INSTANCE = "reservation_without_instance"
USAGE_LACKS_SESSIONS = "usage_lacks_sessions"
FILE_WITHOUT_ROW = "file_without_row"
ROW_WITHOUT_FILE = "row_without_file"
LEASE_OF_OTHER = "lease_of_other"
NO_LEADER = "no_leader"

#: The leader repairs these by writing its in-memory state to the database
#: again.
RECORDABLE = frozenset(
    {
        SESSION_WITHOUT_SLOT,
        SLOT_WITHOUT_SESSION,
        SESSION_DIFFERS,
        SESSION_NOT_RECORDED,
    }
)
#: The leader repairs these when it handles the agent's next report.
RECONCILABLE = frozenset(
    {WORKER_WITHOUT_SESSION, SESSION_WITHOUT_WORKER, ORDER_NOT_FOLLOWED}
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding(base.Payload):
    """A difference between the states of a pool's parts.

    :param session_id: the session to repair; ``slot_id`` and ``host_uuid``
        likewise name the slot and the host.
    """

    kind: str
    subject: str
    detail: str
    session_id: str | None = None
    slot_id: int | None = None
    host_uuid: str | None = None
