# SPDX-License-Identifier: Apache-2.0

"""The members of a session, in one list: :data:`FIELDS`.

Two members are not in it because each interface shows them differently: the
session's slot, and how to connect to it. Options that the client library
offers are also in :class:`Options`, which all its functions accept.
"""

from __future__ import annotations

import functools
from typing import Any
from typing import Protocol
from typing import TypedDict

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

_MAX_PRIORITY = rules.MAX_PRIORITY
_MAX_WAIT_S = 30 * 86400
_MAX_DEADLINE_S = 365 * 86400
_MAX_CONNECT_S = 3600


def _limit(name: str, about: str, most_s: int, **more: Any) -> fields.Option:
    """Return a time limit that a request can set."""
    may_be_zero = name == "resume_grace_s"
    check = functools.partial(
        rules.check_timeout_s, name=name, may_be_zero=may_be_zero
    )
    least = "minimum" if may_be_zero else "exclusiveMinimum"
    limits = {least: 0, "maximum": most_s}
    return fields.Option(
        name, fields.SECONDS, about, check=check, limits=limits, **more
    )


def _of_set(
    name: str, kind: fields.Kind, about: str, **more: Any
) -> fields.Option:
    """Return an option that says of which set a session is.

    No column has it: while the set has not started, the session's ``reason``
    and ``message`` say it, see
    :mod:`fpgapool.conductor.decisions.requests.member_sets`.
    """
    found = {
        "default": None,
        "in_record": False,
        "in_request": 2,
        "in_view": 2,
        "in_notification": None,
        "since": (1, 3),
        "listed": False,
        "column": False,
        "limits_only": True,
    }
    return fields.option(name, kind, about, **{**found, **more})


FIELDS = fields.Fields(
    fields.public(
        "session_id", fields.UUID, length=36, shown="id", column=True
    ),
    fields.public("request_id", fields.TEXT, length=64, column=False),
    fields.public("project_id", fields.TEXT, length=255, column=False),
    fields.public(
        "user_id",
        fields.TEXT,
        "Keystone's ID of the user who opened it, or the number of the system"
        " user whose program did so on a host of the pool; empty: an"
        " instance.",
        default="",
        length=255,
        column=False,
        since=(1, 2),
    ),
    fields.shown(
        "instance_id",
        fields.UUID,
        "Nova's ID of the instance that opened it; null: a user did.",
        default=None,
        since=(1, 2),
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
        "Code that says why it ended, or why it lost its slot (until another"
        " slot is ready), or that its set has not started (`SET_WAITS`);"
        " otherwise empty.",
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
        "Sessions with a higher priority come first within the project;"
        " default is 0.",
        default=0,
        length=32,
        in_notification=0,
        if_omitted=0,
        check=rules.check_priority,
        limits={"minimum": -_MAX_PRIORITY, "maximum": _MAX_PRIORITY},
        help="from -1000 to 1000; sessions with a higher priority come first"
        " within the project; default is 0",
    ),
    fields.Field("skips", fields.COUNT, default=0),
    _limit(
        "wait_timeout_s",
        "Maximum wait for a slot; can only lower the service's limit.",
        _MAX_WAIT_S,
        limits_only=True,
        default=None,
        help="maximum wait for a slot, after which the session ends; can only"
        " lower the service's limit",
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
        "How long its slot is kept after the connection breaks; can only lower"
        " the service's limit.",
        _MAX_CONNECT_S,
        limits_only=True,
    ),
    _limit(
        "deadline_s",
        "Seconds after `queued_at` within which it should end; null: no"
        " deadline.",
        _MAX_DEADLINE_S,
        default=None,
        shown="deadline_s",
        column=False,
        help="time within which the session should end; it is refused if no"
        " slot is fast enough",
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
        " ends the session as soon as no slot can meet it; by default, the"
        " service decides",
    ),
    fields.option(
        "application",
        fields.NAME,
        "Name, chosen by the client, of the application that it belongs to;"
        " null: none. Strategies with affinity keep the sessions of a"
        " project's application on boards that run their accelerator.",
        default=None,
        length=64,
        column=False,
        check=rules.check_application,
        limits={"pattern": f"^{rules.APPLICATION}$"},
        help="name of the application that the session belongs to; use the"
        " same for all its sessions; 1 to 64 of the characters A-Z a-z 0-9 _ ."
        " : -",
    ),
    _of_set(
        "set_id",
        fields.NAME,
        "Name, chosen by the client, of the set that it belongs to, unique in"
        " its project: the sessions of a set get their slots at the same time,"
        " or none. Null: it belongs to none, or its set has its slots"
        " already. In lists only while it waits.",
        check=rules.check_set_id,
        limits={"pattern": f"^{rules.SET_ID}$"},
        listed=True,
        help="name of the set that the session belongs to; all sessions of a"
        " set get their slots at the same time, or none; 1 to 64 of the"
        " characters A-Z a-z 0-9 _ . : -",
    ),
    _of_set(
        "set_size",
        fields.INTEGER,
        "Number of sessions of the set; all must be opened within 30 seconds.",
        check=rules.check_set_size,
        help="number of sessions of the set, 2 to 64; all must be opened"
        " within 30 seconds",
    ),
    _of_set(
        "set_placement",
        fields.NAME,
        "Where the slots of the set must be: on one board (`same_board`), on"
        " one host (`same_host`), or each on another board (`spread`); null:"
        " anywhere.",
        check=rules.check_set_placement,
        help="where the slots of the set must be: same_board, same_host, or"
        " spread, which means each on another board; by default, anywhere",
    ),
    fields.time("deadline_at"),
    fields.public(
        "deadline_met",
        fields.FLAG,
        "Whether it ended in time; null: it has no deadline, has not ended,"
        " was cancelled before its deadline, or can be continued by its"
        " client.",
        default=None,
        column=False,
    ),
    fields.count("generation", "Increases each time it gets a slot."),
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
    # Totals from slots that it held before its current one.
    fields.Field("former_input_bytes", fields.COUNT, default=0),
    fields.Field("former_output_bytes", fields.COUNT, default=0),
    fields.public(
        "energy_j",
        fields.NUMBER,
        "Energy in joules that it used in the slots that it has released:"
        " measured, or derived from the power of the accelerator's platform;"
        " null: unknown.",
        default=None,
        column=False,
    ),
    fields.time("ready_at"),
    fields.time("started_at"),
    fields.time("finished_at"),
    fields.time(
        "updated_at", "Time of its last change.", in_notification=None
    ),
    fields.now(
        "queue_position",
        fields.COUNT,
        "Place in the queue; 0 is served next.",
    ),
    fields.now(
        "expected_wait_s",
        fields.SECONDS,
        "Expected remaining wait, estimated from the work that will probably"
        " be done before; about one session in ten waits more than twice as"
        " long. Null: unknown.",
    ),
    fields.now(
        "expected_wait_low_s",
        fields.SECONDS,
        "Lower end of the range in which nine of ten remaining waits lie;"
        " null: unknown.",
        since=(1, 1),
        in_view=1,
    ),
    fields.now(
        "expected_wait_high_s",
        fields.SECONDS,
        "Upper end of that range; null: unknown.",
        since=(1, 1),
        in_view=1,
    ),
    fields.now(
        "pending_reasons",
        fields.CODES,
        "Why it still waits; in lists since version 1.2.",
        default=(),
        listed=True,
        column=True,
        title="Waiting For",
    ),
    fields.now(
        "chunk_bytes",
        fields.COUNT,
        "Largest piece of input that all workers of the pool accept; null:"
        " unknown.",
    ),
    sort_keys=(
        "queued_at",
        "state",
        "accelerator",
        "claimed_bytes",
        "priority",
        "updated_at",
    ),
    filters={name: name for name in ("accelerator", "user_id", "instance_id")},
)


class Options(TypedDict, total=False):
    """Options of a session that programs may set; see :data:`FIELDS`.

    :param wait_timeout_s: maximum time that the request may stay in the queue;
        can only lower the pool's limit. It also applies, within 2 seconds,
        while the pool cannot report the request's state.
    :param priority: from -1000 to 1000. In pools that share slots between
        projects or limit them, sessions with a higher priority come before
        others of the same project, and may take their slots if the pool
        allows it.
    :param deadline_s: seconds after the request within which the session
        should end. The pool refuses it with ``DEADLINE_IMPOSSIBLE`` if no slot
        is fast enough. ``openstack fpga session show`` shows afterwards
        whether the deadline was met.
    :param deadline_action: what happens at the deadline: ``continue``;
        ``kill``, which ends the session then; or ``early``, which ends it as
        soon as no slot can meet the deadline. Both end it with
        ``DEADLINE_PASSED``. None means the pool's default.
    :param application: a name that is the same for all sessions of an
        application, or None. Strategies that avoid reprogramming boards treat
        these sessions as one: when one of them gets a slot, the others
        restart their wait for boards that run their accelerator.
    :param set_id: a name, new in the project, that is the same for all
        sessions of a set, or None. They get their slots at the same time, or
        none; :func:`fpgapool.client.acc_open_set` opens all sessions of a set.
    :param set_size: the number of sessions of the set, from 2 to 64. All must
        be opened within 30 seconds.
    :param set_placement: where the slots of the set must be: ``same_board``,
        ``same_host``, or ``spread``, which means each on another board. None
        means anywhere.
    """

    wait_timeout_s: float | None
    priority: int
    deadline_s: float | None
    deadline_action: str | None
    application: str | None
    set_id: str | None
    set_size: int | None
    set_placement: str | None


class Waits(Protocol):
    """A view of a session, or a dry run; None: unknown."""

    @property
    def expected_wait_s(self) -> float | None: ...

    @property
    def expected_wait_low_s(self) -> float | None: ...

    @property
    def expected_wait_high_s(self) -> float | None: ...


def wait_text(found: Waits) -> str:
    """Return a wait, such as ``about 40 s (9 of 10: 6 to 110 s)``; empty if
    it is unknown.
    """
    if found.expected_wait_s is None:
        return ""
    about = f"about {_number(found.expected_wait_s)} s"
    low_s, high_s = found.expected_wait_low_s, found.expected_wait_high_s
    if low_s is None or high_s is None:
        return about
    return f"{about} (9 of 10: {_number(low_s)} to {_number(high_s)} s)"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
