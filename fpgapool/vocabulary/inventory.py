# SPDX-License-Identifier: Apache-2.0

"""The members of hosts, devices, slots, services and instances.

Records, tables, notifications, schemas, SDK and commands are derived from
these lists. Commands show the columns in the order of these lists.
"""

from __future__ import annotations

import functools

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import states

# A stored member that notifications also contain.
_noted = functools.partial(fields.stored, in_notification=0)

# Members of devices and hosts that the operator sets.
_ADMIN_STATE = _noted(
    "admin_state",
    fields.TEXT,
    "The operator's setting. `draining` becomes `disabled` when the last"
    " session has ended.",
    limits={"enum": ["enabled", "draining", "disabled"]},
    default="enabled",
    length=16,
)
_ADMINISTRATION = (
    _noted(
        "admin_reason",
        fields.TEXT,
        "The operator's reason.",
        default="",
        length=255,
    ),
    _noted(
        "drain_deadline_at",
        fields.TIME,
        "When the remaining sessions lose their slots.",
        title="Drain Deadline",
        default=None,
    ),
)
# Members of devices and slots that describe a fault.
_FAULT_REASON = "fault_reason"
_PROBATION = (
    fields.shown(
        "failures",
        fields.COUNT,
        "Consecutive failures that made it faulty; 0 if it works.",
    ),
    fields.shown(
        "self_tests",
        fields.COUNT,
        "Failed self-tests since it became faulty.",
        title="Self-tests",
    ),
    fields.shown(
        "last_self_test",
        fields.TEXT,
        "Result of the last self-test; empty if the caller may not see all"
        " projects.",
        title="Last Self-test",
    ),
    fields.shown(
        "next_self_test_at",
        fields.TIME,
        "Time of the next self-test. If it is in the past, the test is running"
        " or starts as soon as possible, for example when the slot is idle.",
        title="Next Self-test",
    ),
)
#: Members of the fault of an accelerator that failed on a host.
FAULT = fields.Fields(
    fields.shown("accelerator", fields.NAME),
    fields.shown(
        "shape",
        fields.TEXT,
        "Shape of the host's slots in which it failed; empty: all slots.",
    ),
    fields.shown("reason", fields.TEXT),
    *_PROBATION,
)

HOST = fields.Fields(
    fields.stored("uuid", fields.UUID, column=True, length=36),
    fields.stored("name", fields.NAME, column=True, length=255),
    fields.Field("up", fields.FLAG, default=False, in_notification=0),
    fields.shown(
        "is_up",
        fields.FLAG,
        "Whether its agent is reporting.",
        shown="up",
        column=True,
        title="Up",
    ),
    fields.shown(
        "devices", fields.COUNT, "Number of its boards.", column=True
    ),
    fields.shown("slots", fields.COUNT, "Number of their slots.", column=True),
    fields.shown(
        "sessions",
        fields.COUNT,
        "Number of slots with a session.",
        column=True,
    ),
    fields.listed(_ADMIN_STATE),
    *_ADMINISTRATION,
    _noted(
        "nic_bytes_per_s",
        fields.RATE,
        "Rate of its network card, in each direction.",
        title="NIC Bytes/s",
    ),
    fields.shown(
        "faulty_accelerators",
        fields.OBJECTS,
        "Accelerators that failed on the host. The pool does not run them in"
        " the host's slots of the given shape as long as they fit other"
        " slots.",
    ),
    sort_keys=("name", "uuid"),
    filters={"name": "name", "up": "up"},
)

#: What lists of hosts with their devices and slots are ordered by.
POOL_HOST = fields.Fields(sort_keys=("name", "uuid"))

DEVICE = fields.Fields(
    fields.shown(
        "id",
        fields.UUID,
        "Derived from the host's UUID and the board's name.",
        column=True,
    ),
    fields.stored("name", fields.NAME, column=True, length=255),
    fields.shown("host_name", fields.NAME, column=True, title="Host"),
    _noted("model", fields.TEXT, column=True, length=255),
    fields.shown(
        "state",
        fields.STATE,
        "`down` means that the host does not report. The host's setting also"
        " applies to the device.",
        column=True,
        limits={"enum": list(states.SHOWN_DEVICE_STATES)},
    ),
    fields.shown("slots", fields.COUNT, "Number of its slots.", column=True),
    fields.shown(
        "sessions",
        fields.COUNT,
        "Number of its slots with a session.",
        column=True,
    ),
    fields.stored(
        "reservable_slots",
        fields.COUNT,
        "Number of its slots that instances can reserve.",
        default=0,
        length=32,
    ),
    fields.shown(
        "reserved_slots",
        fields.COUNT,
        "Number of its slots that instances have reserved.",
    ),
    fields.shown(
        "pending_reservations",
        fields.COUNT,
        "Number of reservations that still lack a working slot free of other"
        " sessions.",
    ),
    _ADMIN_STATE,
    *_ADMINISTRATION,
    fields.shown("host_uuid", fields.UUID),
    _noted(
        "dma_bytes_per_s",
        fields.RATE,
        "Transfer rate that its slots share.",
        title="DMA Bytes/s",
    ),
    fields.Field("healthy", fields.FLAG, default=True, in_notification=0),
    _noted(
        _FAULT_REASON,
        fields.TEXT,
        "Message from its driver, or the reason why it is out of service.",
        default="",
    ),
    *_PROBATION,
    sort_keys=("name", "id", "host_name"),
    filters={"host": "host_uuid", "state": "state"},
)

SLOT = fields.Fields(
    fields.shown(
        "id",
        fields.UUID,
        "Derived from the device's identifier and the slot's number.",
        column=True,
    ),
    fields.shown("host_name", fields.NAME, column=True, title="Host"),
    fields.shown("device_name", fields.NAME, column=True, title="Device"),
    fields.stored("number", fields.COUNT, column=True, length=32),
    fields.shown(
        "state",
        fields.STATE,
        "`down` means that the host does not report.",
        column=True,
        limits={"enum": list(states.SHOWN_SLOT_STATES)},
    ),
    fields.shown(
        "accelerator",
        fields.NAME,
        "Accelerator of the slot's session.",
        default=None,
        column=True,
    ),
    _noted(
        "shape",
        fields.TEXT,
        "Determines which bitstreams fit.",
        length=255,
    ),
    _noted(
        "programmed",
        fields.NAME,
        "Accelerator in the slot now.",
        default=None,
        length=255,
    ),
    fields.shown(
        "session_id",
        fields.UUID,
        "The slot's session, if it belongs to your project.",
        default=None,
    ),
    fields.stored(
        "reserved_for",
        fields.UUID,
        "The instance that has reserved the slot, if it belongs to your"
        " project.",
        default=None,
        length=36,
    ),
    fields.shown("device_id", fields.UUID),
    fields.shown("host_uuid", fields.UUID),
    fields.Field("faulty", fields.FLAG, default=False, in_notification=0),
    _noted(
        _FAULT_REASON,
        fields.TEXT,
        "Why the slot or its device is out of service.",
        default="",
    ),
    *_PROBATION,
    sort_keys=("id", "host_name", "device_name", "number"),
    filters={
        "host": "host_uuid",
        "device": "device_id",
        "accelerator": "accelerator",
        "state": "state",
    },
)

API, CONDUCTOR, AGENT = BINARIES = (
    "fpgapool-api",
    "fpgapool-conductor",
    "fpgapool-agent",
)
#: The members of services: conductors, agents and processes of the API.
SERVICE = fields.Fields(
    fields.shown(
        "binary",
        fields.TEXT,
        column=True,
        limits={"enum": list(BINARIES)},
    ),
    fields.shown("host", fields.TEXT, "Name of its host.", column=True),
    fields.shown("is_up", fields.FLAG, shown="up", column=True, title="Up"),
    fields.shown(
        "last_report_at",
        fields.TIME,
        "Time of an agent's last report, or of the last sign of life of a"
        " conductor or of a process of the API.",
        column=True,
    ),
    fields.shown(
        "message",
        fields.TEXT,
        "State of the conductor, or a problem that needs attention.",
        column=True,
    ),
    fields.shown(
        "id",
        fields.NAME,
        "Name of the conductor, UUID of the agent's host, or host and number"
        " of the API's process.",
    ),
    fields.shown(
        "version",
        fields.TEXT,
        "Version of fpgapool; empty: unknown, as of release 1.0.0.",
        since=(1, 2),
    ),
    sort_keys=("id", "binary", "host"),
    filters={"binary": "binary", "up": "up"},
)

#: The members of Nova instances that have tokens.
INSTANCE = fields.Fields(
    fields.stored(
        "instance_id", fields.UUID, length=36, shown="id", column=True
    ),
    fields.stored("name", fields.TEXT, column=True, default="", length=255),
    fields.shown(
        "token",
        fields.TEXT,
        "State of its token.",
        column=True,
        limits={"enum": ["valid", "revoked"]},
    ),
    fields.stored(
        "max_sessions",
        fields.COUNT,
        "Maximum number of concurrent sessions, from its flavor; null:"
        " unlimited.",
        default=None,
        column=True,
        length=32,
    ),
    fields.stored(
        "created_at", fields.MOMENT, "When it got its token.", column=True
    ),
    fields.stored("project_id", fields.TEXT, length=255),
    fields.stored(
        "host_uuid",
        fields.UUID,
        "UUID of its compute node; only with `all_projects`.",
        default=None,
        length=36,
    ),
    sort_keys=("created_at",),
)
