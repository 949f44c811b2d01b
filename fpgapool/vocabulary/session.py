# SPDX-License-Identifier: Apache-2.0

"""The members of a session, in one list: :data:`FIELDS`.

Two members have forms of their own: the session's slot, and how to connect to
it.
"""

from __future__ import annotations

import functools
from typing import Any

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

_MAX_PRIORITY = rules.MAX_PRIORITY
_MAX_WAIT_S = 30 * 86400
_MAX_DEADLINE_S = 365 * 86400
_MAX_CONNECT_S = 3600


def _limit(name: str, about: str, most_s: int, **more: Any) -> fields.Option:
    """Return a time that a request can set."""
    may_be_zero = name == "resume_grace_s"
    check = functools.partial(
        rules.check_timeout_s, name=name, may_be_zero=may_be_zero
    )
    least = "minimum" if may_be_zero else "exclusiveMinimum"
    limits = {least: 0, "maximum": most_s}
    return fields.Option(
        name, fields.SECONDS, about, check=check, limits=limits, **more
    )


FIELDS = fields.Fields(
    fields.public(
        "session_id", fields.UUID, length=36, shown="id", column=True
    ),
    fields.public("request_id", fields.TEXT, length=64, column=False),
    fields.public("project_id", fields.TEXT, length=255, column=False),
    fields.Field(
        "user_id", fields.TEXT, default="", length=255, told=0, noted=0
    ),
    fields.Field("host_id", fields.COUNT, default=None),
    fields.public(
        "host_uuid",
        fields.UUID,
        "UUID of the host where the client runs, if it is one of the pool's.",
        default=None,
        kept=False,
        shown="host",
        column=False,
    ),
    fields.public("accelerator", fields.NAME, length=255, column=True),
    fields.public("state", fields.STATE, length=16, column=True),
    fields.public(
        "reason",
        fields.TEXT,
        "Code of why it ended, or of why it lost a slot while it has no other"
        " that is ready; else empty.",
        default="",
        length=64,
        column=True,
    ),
    fields.public(
        "message",
        fields.TEXT,
        "Says more about the reason.",
        default="",
        column=False,
    ),
    fields.public("claimed_bytes", fields.COUNT, column=True),
    fields.Option(
        "priority",
        fields.COUNT,
        "Higher ones come first within the project; default is 0.",
        default=0,
        length=32,
        noted=0,
        unsaid=0,
        check=rules.check_priority,
        limits={"minimum": -_MAX_PRIORITY, "maximum": _MAX_PRIORITY},
        help="from -1000 to 1000; higher ones come first within the project;"
        " default is 0",
    ),
    fields.Field("skips", fields.COUNT, default=0),
    _limit(
        "wait_timeout_s",
        "How long it may wait for a slot; lowers the service's limit.",
        _MAX_WAIT_S,
        limits_only=True,
        default=None,
        help="how long the session may wait for a slot, before it ends; lowers"
        " the service's limit",
    ),
    _limit(
        "connect_timeout_s",
        "How long its slot waits for the client; lowers the service's limit.",
        _MAX_CONNECT_S,
        limits_only=True,
    ),
    _limit(
        "resume_grace_s",
        "How long its slot is kept after its connection broke; lowers the"
        " service's limit.",
        _MAX_CONNECT_S,
        limits_only=True,
    ),
    _limit(
        "deadline_s",
        "Time after queued_at in which it should end; null: it has no"
        " deadline.",
        _MAX_DEADLINE_S,
        default=None,
        shown="deadline_s",
        column=False,
        help="time in which the session should end; it is refused if no slot"
        " could be so fast",
        told=0,
        noted=0,
    ),
    fields.Option(
        "deadline_action",
        fields.NAME,
        "What happens at its deadline: it goes on (continue), it ends (kill),"
        " or it ends as soon as no slot could keep the deadline any more"
        " (early).",
        default=None,
        length=16,
        shown="deadline_action",
        column=False,
        check=rules.check_deadline_action,
        limits={"enum": list(states.DEADLINE_ACTIONS)},
        help="what happens at the deadline: continue, kill, or early, which"
        " ends the session as soon as no slot could keep it; default is the"
        " service's",
        told=0,
        noted=0,
    ),
    fields.Option(
        "application",
        fields.NAME,
        "The application that it belongs to, by a name of the client's choice"
        " within the project; null: none. Strategies with affinity keep the"
        " sessions of an application on boards that run their accelerator.",
        default=None,
        length=64,
        shown="application",
        column=False,
        told=0,
        noted=0,
        check=rules.check_application,
        limits={"pattern": f"^{rules.APPLICATION}$"},
        help="name of the application that the session belongs to, the same"
        " for all its sessions; 1 to 64 of the characters A-Z a-z 0-9 _ . : -",
    ),
    fields.time("deadline_at"),
    fields.public(
        "deadline_met",
        fields.FLAG,
        "Whether it ended in time; null: it has no deadline, has not ended,"
        " was cancelled before, or its client may continue it.",
        default=None,
        column=False,
    ),
    fields.count("generation", "Grows when it gets another slot."),
    fields.count("revision", "Grows with every change.", noted=None),
    fields.Field("slot_id", fields.COUNT, default=None),
    fields.Field("local", fields.FLAG, default=None, told=0, noted=0),
    fields.public("queued_at", fields.TIME, column=True),
    # In pool time.
    fields.Field("arrival_s", fields.SECONDS, default=None),
    fields.count("input_bytes", column=False),
    fields.count("output_bytes", column=False),
    # In slots that it has left to others.
    fields.Field("former_input_bytes", fields.COUNT, default=0),
    fields.Field("former_output_bytes", fields.COUNT, default=0),
    fields.public(
        "energy_j",
        fields.NUMBER,
        "Energy of the slots that it has left, in joules: measured, or by the"
        " power of the accelerator's platform; null: not known.",
        default=None,
        column=False,
    ),
    fields.time("ready_at"),
    fields.time("started_at"),
    fields.time("finished_at"),
    fields.time("updated_at", "When it was changed last.", noted=None),
    fields.now("queue_position", fields.COUNT, "0 is the next to be served."),
    fields.now(
        "expected_wait_s",
        fields.SECONDS,
        "How long it will probably still wait, judged by how fast slots were"
        " given out lately; null if too little is known.",
    ),
    fields.now(
        "pending_reasons", fields.CODES, "Why it still waits.", default=()
    ),
    fields.now(
        "chunk_bytes",
        fields.COUNT,
        "The longest piece that all workers of the pool take; null: not"
        " known.",
    ),
)

#: Members to sort lists by; the first is the default.
SORT_KEYS = (
    "queued_at",
    "state",
    "accelerator",
    "claimed_bytes",
    "priority",
    "updated_at",
)
