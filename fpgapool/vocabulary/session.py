# SPDX-License-Identifier: Apache-2.0

"""The members of a session, in one list: :data:`FIELDS`.

Two members have forms of their own: the session's slot, and how to connect to
it. An option that the client offers is in :class:`Options`, too; all functions
of the client then have it.
"""

from __future__ import annotations

import functools
from typing import Any
from typing import TypedDict

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
        "user_id",
        fields.TEXT,
        default="",
        length=255,
        in_view=0,
        in_notification=0,
    ),
    fields.Field("host_id", fields.COUNT, default=None),
    fields.public(
        "host_uuid",
        fields.UUID,
        "UUID of the client's host, if it belongs to the pool.",
        default=None,
        in_record=False,
        shown="host",
        column=False,
    ),
    fields.public("accelerator", fields.NAME, length=255, column=True),
    fields.public(
        "state",
        fields.STATE,
        length=16,
        column=True,
        limits={"enum": sorted(states.ALL)},
    ),
    fields.public(
        "reason",
        fields.TEXT,
        "Code of why it ended, or of why it lost its slot, until another slot"
        " is ready; otherwise empty.",
        default="",
        length=64,
        column=True,
    ),
    fields.public(
        "message",
        fields.TEXT,
        "Details of the reason.",
        default="",
        column=False,
    ),
    fields.public("claimed_bytes", fields.COUNT, column=True),
    fields.Option(
        "priority",
        fields.COUNT,
        "Sessions of higher priority come first within the project; default"
        " is 0.",
        default=0,
        length=32,
        in_notification=0,
        if_omitted=0,
        check=rules.check_priority,
        limits={"minimum": -_MAX_PRIORITY, "maximum": _MAX_PRIORITY},
        help="from -1000 to 1000; sessions of higher priority come first"
        " within the project; default is 0",
    ),
    fields.Field("skips", fields.COUNT, default=0),
    _limit(
        "wait_timeout_s",
        "How long it may wait for a slot; can only lower the service's limit.",
        _MAX_WAIT_S,
        limits_only=True,
        default=None,
        help="how long the session may wait for a slot before it ends; can"
        " only lower the service's limit",
    ),
    _limit(
        "connect_timeout_s",
        "How long its slot waits for the client; can only lower the service's"
        " limit.",
        _MAX_CONNECT_S,
        limits_only=True,
    ),
    _limit(
        "resume_grace_s",
        "How long its slot is kept after a broken connection; can only lower"
        " the service's limit.",
        _MAX_CONNECT_S,
        limits_only=True,
    ),
    _limit(
        "deadline_s",
        "Seconds from `queued_at` within which it should end; null: no"
        " deadline.",
        _MAX_DEADLINE_S,
        default=None,
        shown="deadline_s",
        column=False,
        help="time in which the session should end; it is refused if no slot"
        " is fast enough",
        in_view=0,
        in_notification=0,
    ),
    fields.option(
        "deadline_action",
        fields.NAME,
        "What happens at its deadline: it continues (`continue`), it ends"
        " (`kill`), or it ends as soon as no slot can meet the deadline"
        " (`early`).",
        default=None,
        length=16,
        column=False,
        check=rules.check_deadline_action,
        limits={"enum": list(states.DEADLINE_ACTIONS)},
        help="what happens at the deadline: continue, kill, or early, which"
        " ends the session as soon as no slot can meet it; default is the"
        " service's",
    ),
    fields.option(
        "application",
        fields.NAME,
        "Name of the application that it belongs to, which the client chooses;"
        " null: none. Strategies with affinity keep the sessions of an"
        " application of a project on boards that run their accelerator.",
        default=None,
        length=64,
        column=False,
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
    fields.count("generation", "Increases with every slot that it gets."),
    fields.count(
        "revision", "Increases with every change.", in_notification=None
    ),
    fields.Field("slot_id", fields.COUNT, default=None),
    fields.Field(
        "local", fields.FLAG, default=None, in_view=0, in_notification=0
    ),
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
        "Energy of the slots that it has left, in joules: measured, or derived"
        " from the power of the accelerator's platform; null: unknown.",
        default=None,
        column=False,
    ),
    fields.time("ready_at"),
    fields.time("started_at"),
    fields.time("finished_at"),
    fields.time(
        "updated_at", "When it was last changed.", in_notification=None
    ),
    fields.now(
        "queue_position",
        fields.COUNT,
        "Place in the queue; 0 is served next.",
    ),
    fields.now(
        "expected_wait_s",
        fields.SECONDS,
        "Expected remaining wait, from the recent rate at which slots were"
        " assigned; null: unknown.",
    ),
    fields.now(
        "pending_reasons", fields.CODES, "Why it still waits.", default=()
    ),
    fields.now(
        "chunk_bytes",
        fields.COUNT,
        "Longest piece that all workers of the pool accept; null: unknown.",
    ),
    sort_keys=(
        "queued_at",
        "state",
        "accelerator",
        "claimed_bytes",
        "priority",
        "updated_at",
    ),
    filters={"accelerator": "accelerator"},
)


class Options(TypedDict, total=False):
    """Options of a session that programs may set; see :data:`FIELDS`.

    :param wait_timeout_s: how long the request may stay in the queue; can
        only lower the pool's limit. It also applies while the pool cannot
        report the request's state, to within 2 seconds.
    :param priority: -1000 to 1000. In pools that share slots between
        projects or limit them, sessions of a higher priority come before
        others of the same project, and may take their slots if the pool
        allows it.
    :param deadline_s: seconds from the request within which the session
        should end. The pool refuses it with ``DEADLINE_IMPOSSIBLE`` if no slot
        is fast enough. ``openstack fpga session show`` shows in the end
        whether it was met.
    :param deadline_action: what happens at the deadline: ``continue``;
        ``kill``; or ``early``, which ends the session as soon as no slot can
        meet the deadline. Both end it with ``DEADLINE_PASSED``. None: the
        pool's default.
    :param application: the same name for all sessions of an application.
        Strategies that avoid reprogramming boards treat them as one: when one
        of them gets a slot, the others restart their wait for boards that run
        their accelerator. None: none.
    """

    wait_timeout_s: float | None
    priority: int
    deadline_s: float | None
    deadline_action: str | None
    application: str | None
