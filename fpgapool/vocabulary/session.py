# SPDX-License-Identifier: Apache-2.0

"""The members of a session, in one list: :data:`FIELDS`.

Table, record, conductor, remote calls, notifications, REST API, SDK, commands
and clients take their members from it. Two members have forms of their own:
the session's slot, and how to connect to it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeVar

from fpgapool.vocabulary import rules

#: The default of a member that every session has.
REQUIRED: Any = object()

#: Name, type and default of a dataclass's member.
Member = tuple[str, Any, Any]

_T = TypeVar("_T", bound=type)

_MAX_PRIORITY = rules.MAX_PRIORITY
_MAX_WAIT_S = 30 * 86400
_MAX_CONNECT_S = 3600


class Kind(NamedTuple):
    """Return the meaning of a value."""

    name: str
    type: Any


UUID = Kind("uuid", str)
NAME = Kind("name", str)
TEXT = Kind("text", str)
STATE = Kind("state", str)
CODES = Kind("codes", tuple[str, ...])
COUNT = Kind("count", int)
SECONDS = Kind("seconds", float)
TIME = Kind("time", float)
FLAG = Kind("flag", bool)


@dataclasses.dataclass(frozen=True)
class Field:
    """One member of a session.

    :ivar about: for people, if the name does not say enough.
    :ivar default: None: the value may be unknown.
    :ivar kept: whether the table has it.
    :ivar length: characters of a text, or bits of a number, in its column;
        0: any number of characters, and 64 bits.
    :ivar told: minor version of the first ``SessionView`` that has it.
    :ivar noted: the same of ``SessionPayload``, for notifications.
    :ivar shown: its name for users; None: they do not see it.
    :ivar since: microversion of the REST API that introduced it.
    :ivar listed: whether lists show it, and not only single sessions.
    :ivar column: whether the command's list has it; False: with ``--long``.
    """

    name: str
    kind: Kind
    about: str = ""
    _: dataclasses.KW_ONLY
    default: Any = REQUIRED
    kept: bool = True
    length: int = 0
    told: int | None = None
    noted: int | None = None
    shown: str | None = None
    since: tuple[int, int] = (1, 0)
    listed: bool = True
    column: bool | None = None

    @property
    def nullable(self) -> bool:
        """Whether messages may give it as unknown."""
        # A request that was refused has never been queued.
        return self.default is None or self.kind is TIME

    @property
    def member(self) -> Member:
        """The dataclass member for it."""
        type_ = self.kind.type
        if self.default is None:
            type_ |= None
        return self.name, type_, self.default


@dataclasses.dataclass(frozen=True)
class Option(Field):
    """A member that a client may set when it requests a session.

    :ivar unsaid: the meaning of leaving it out.
    :ivar check: returns the meaning of a value; raises RequestError.
    :ivar limits: keywords of JSON schema.
    :ivar asked: minor version of the first ``OpenRequest`` that has it.
    :ivar help: of the command's option; empty: it has none.
    """

    _: dataclasses.KW_ONLY
    unsaid: Any = None
    check: Callable[[object], Any]
    limits: Mapping[str, Any]
    asked: int = 0
    help: str = ""


def _shown(name: str, kind: Kind, about: str = "", **more: Any) -> Field:
    public = {"told": 0, "noted": 0, "shown": name}
    return Field(name, kind, about, **{**public, **more})


def _count(name: str, about: str = "", **more: Any) -> Field:
    return _shown(name, COUNT, about, default=0, **more)


def _time(name: str, about: str = "", **more: Any) -> Field:
    return _shown(name, TIME, about, default=None, column=False, **more)


def _now(name: str, kind: Kind, about: str, **more: Any) -> Field:
    """Return a member that only the leader knows."""
    now = {"default": None, "kept": False, "noted": None, "listed": False}
    return _shown(name, kind, about, **{**now, **more})


def _limit(name: str, about: str, most_s: int, **more: Any) -> Option:
    """Return a time limit of the service that a request can lower."""
    may_be_zero = name == "resume_grace_s"
    check = functools.partial(
        rules.check_timeout_s, name=name, may_be_zero=may_be_zero
    )
    least = "minimum" if may_be_zero else "exclusiveMinimum"
    limits = {least: 0, "maximum": most_s}
    return Option(name, SECONDS, about, check=check, limits=limits, **more)


FIELDS = (
    _shown("session_id", UUID, length=36, shown="id", column=True),
    _shown("request_id", TEXT, length=64, column=False),
    _shown("project_id", TEXT, length=255, column=False),
    Field("user_id", TEXT, default="", length=255, told=0, noted=0),
    Field("host_id", COUNT, default=None),
    _shown(
        "host_uuid",
        UUID,
        "UUID of the host where the client runs, if it is one of the pool's.",
        default=None,
        kept=False,
        shown="host",
        column=False,
    ),
    _shown("accelerator", NAME, length=255, column=True),
    _shown("state", STATE, length=16, column=True),
    _shown(
        "reason",
        TEXT,
        "Code of why it ended; empty if it has not.",
        default="",
        length=64,
        column=True,
    ),
    _shown(
        "message",
        TEXT,
        "Says more about the reason.",
        default="",
        column=False,
    ),
    _shown("claimed_bytes", COUNT, column=True),
    Option(
        "priority",
        COUNT,
        "Default is 0.",
        default=0,
        length=32,
        noted=0,
        unsaid=0,
        check=rules.check_priority,
        limits={"minimum": -_MAX_PRIORITY, "maximum": _MAX_PRIORITY},
        help="from -1000 to 1000; default is 0",
    ),
    Field("skips", COUNT, default=0),
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
    _count("generation", "Grows when it gets another slot."),
    _count("revision", "Grows with every change.", noted=None),
    Field("slot_id", COUNT, default=None),
    Field("local", FLAG, default=None, told=0, noted=0),
    _shown("queued_at", TIME, column=True),
    # In pool time; None: from an earlier release, which used the wall clock.
    Field("arrival_s", SECONDS, default=None),
    _count("input_bytes", column=False),
    _count("output_bytes", column=False),
    _time("ready_at"),
    _time("started_at"),
    _time("finished_at"),
    _time("updated_at", "When it was changed last.", noted=None),
    _now("queue_position", COUNT, "0 is the next to be served."),
    _now(
        "expected_wait_s",
        SECONDS,
        "How long it will probably still wait, judged by how fast slots were"
        " given out lately; null if too little is known.",
    ),
    _now("pending_reasons", CODES, "Why it still waits.", default=()),
)

#: Members in the table.
KEPT = tuple(field for field in FIELDS if field.kept)
#: Members in the conductors' messages.
TOLD = tuple(field for field in FIELDS if field.told is not None)
#: Members in notifications.
NOTED = tuple(field for field in FIELDS if field.noted is not None)
#: Members that users see.
SHOWN = tuple(field for field in FIELDS if field.shown is not None)
#: Members that a client may set when it requests a session.
OPTIONS = tuple(field for field in FIELDS if isinstance(field, Option))
#: Members to sort lists by; the first is the default.
SORT_KEYS = (
    "queued_at",
    "state",
    "accelerator",
    "claimed_bytes",
    "priority",
    "updated_at",
)


def checked(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the options that a client gives.

    :param given: by their names; may have other members.
    :raises RequestError: for the first that is wrong.
    """
    return {
        option.name: option.check(given[option.name])
        for option in OPTIONS
        if option.name in given
    }


def copier(members: Iterable[str]) -> Callable[[Any], dict[str, Any]]:
    """Return a function that returns these members of an object, by name."""
    names = tuple(members)
    values = operator.attrgetter(*names)
    return lambda one: dict(zip(names, values(one), strict=True))


def with_members(members: Iterable[Member]) -> Callable[[_T], _T]:
    """Return a decorator that gives a class members, below ``dataclass``.

    Those that the class declares itself stay as they are.
    """

    def decorate(cls: _T) -> _T:
        for name, type_, default in members:
            if name not in cls.__annotations__:
                cls.__annotations__[name] = type_
                if default is not REQUIRED:
                    setattr(cls, name, default)
        return cls

    return decorate
