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

_MAX_PRIORITY = rules.MAX_PRIORITY
_MAX_WAIT_S = 30 * 86400
_MAX_CONNECT_S = 3600


def _limit(name: str, about: str, most_s: int, **more: Any) -> fields.Option:
    """Return a time limit of the service that a request can lower."""
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
        "Code of why it ended; empty if it has not.",
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
        "Default is 0.",
        default=0,
        length=32,
        noted=0,
        unsaid=0,
        check=rules.check_priority,
        limits={"minimum": -_MAX_PRIORITY, "maximum": _MAX_PRIORITY},
        help="from -1000 to 1000; default is 0",
    ),
    fields.Field("skips", fields.COUNT, default=0),
    _limit(
        "wait_timeout_s",
        "How long it may wait for a slot; lowers the service's limit.",
        _MAX_WAIT_S,
        default=None,
        help="how long the session may wait for a slot, before it ends; lowers"
        " the service's limit",
    ),
    _limit(
        "connect_timeout_s",
        "How long its slot waits for the client; lowers the service's limit.",
        _MAX_CONNECT_S,
    ),
    _limit(
        "resume_grace_s",
        "How long its slot is kept after its connection broke; lowers the"
        " service's limit.",
        _MAX_CONNECT_S,
    ),
    fields.count("generation", "Grows when it gets another slot."),
    fields.count("revision", "Grows with every change.", noted=None),
    fields.Field("slot_id", fields.COUNT, default=None),
    fields.Field("local", fields.FLAG, default=None, told=0, noted=0),
    fields.public("queued_at", fields.TIME, column=True),
    # In pool time; None: from an earlier release, which used the wall clock.
    fields.Field("arrival_s", fields.SECONDS, default=None),
    fields.count("input_bytes", column=False),
    fields.count("output_bytes", column=False),
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
