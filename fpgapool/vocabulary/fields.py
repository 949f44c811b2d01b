# SPDX-License-Identifier: Apache-2.0

"""Descriptions of resources, from which all interfaces are derived.

Tables, records, RPC, notifications, the REST API, the SDK, commands and
clients take a resource's members from its description. The descriptions are in
:mod:`.session`, :mod:`.group`, :mod:`.inventory`, :mod:`.library` and
:mod:`.accounting`.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Annotated
from typing import Any
from typing import NamedTuple
from typing import TypeVar

#: The default of a member that always has a value.
REQUIRED: Any = object()

#: Name, type and default of a member of a dataclass.
Member = tuple[str, Any, Any]

_T = TypeVar("_T", bound=type)


class Kind(NamedTuple):
    """The kind of a value, which decides how each interface shows it."""

    name: str
    type: Any


UUID = Kind("uuid", str)
NAME = Kind("name", str)
NAMES = Kind("names", tuple[str, ...])
TEXT = Kind("text", str)
STATE = Kind("state", str)
CODES = Kind("codes", tuple[str, ...])
COUNT = Kind("count", int)
#: A number whose minimum the schema does not contain: the conductor refuses
#: smaller values with a specific code.
INTEGER = Kind("integer", int)
NUMBER = Kind("number", float)
#: Bytes per second.
RATE = Kind("rate", float)
SECONDS = Kind("seconds", float)
#: A point in time that may be unknown.
TIME = Kind("time", float)
#: A point in time that is always known.
MOMENT = Kind("moment", float)
DAY = Kind("day", str)
FLAG = Kind("flag", bool)
OBJECT = Kind("object", dict)
OBJECTS = Kind("objects", list)


@dataclasses.dataclass(frozen=True)
class Field:
    """One member of a resource.

    :ivar about: description; empty if the name is self-explanatory.
    :ivar default: default value; None: the value may be unknown.
    :ivar in_record: whether the table has a column for it.
    :ivar length: number of characters of a string, or of bits of a number, in
        its column; 0: any number of characters, or 64 bits.
    :ivar in_view: minor version of the first RPC view that contains it.
    :ivar in_notification: minor version of the first notification that
        contains it.
    :ivar shown: name that users see; None: users do not see the member.
    :ivar part: name of the object in which users see it; empty: none.
    :ivar since: microversion of the REST API that introduced it.
    :ivar listed: whether lists show it, and not only single resources.
    :ivar column: whether the list command shows it; False: only with
        ``--long``; None: never.
    :ivar title: title of that column; empty: derived from the name.
    :ivar limits: keywords of JSON schema that limit the value.
    """

    name: str
    kind: Kind
    about: str = ""
    _: dataclasses.KW_ONLY
    default: Any = REQUIRED
    in_record: bool = True
    length: int = 0
    in_view: int | None = None
    in_notification: int | None = None
    shown: str | None = None
    part: str = ""
    since: tuple[int, int] = (1, 0)
    listed: bool = True
    column: bool | None = None
    title: str = ""
    limits: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def nullable(self) -> bool:
        """Whether the value may be null in messages."""
        # Any time may be unknown: a refused request has no queued_at.
        return self.default is None or self.kind is TIME

    @property
    def member(self) -> Member:
        type_ = self.kind.type
        if self.default is None:
            type_ |= None
        return self.name, type_, self.default

    @property
    def column_member(self) -> Member:
        """The dataclass member of records, with the length in its type."""
        name, type_, default = self.member
        if self.length:
            type_ = Annotated[self.kind.type, self.length]
            type_ = type_ | None if default is None else type_
        return name, type_, default


@dataclasses.dataclass(frozen=True)
class Option(Field):
    """A member that a client may set.

    :ivar if_omitted: value that applies if the client omits it.
    :ivar check: returns the checked value or raises RequestError; the default
        accepts any value.
    :ivar in_request: minor version of the first request that may contain it.
    :ivar limits_only: whether it only lowers a limit of the service, or
        matters only until the session begins, so that a repeated request may
        give a different value.
    :ivar fixed: whether it can be set only when the resource is created.
    :ivar help: help text of the command's option; empty: the command has none.
    """

    _: dataclasses.KW_ONLY
    if_omitted: Any = None
    check: Callable[[object], Any] = lambda value: value
    in_request: int = 0
    limits_only: bool = False
    fixed: bool = False
    help: str = ""

    @property
    def flag(self) -> str:
        return "--" + self.name.removesuffix("_s").replace("_", "-")


class Fields:
    """The members of one kind of resource.

    :ivar in_view: members in the conductor's messages.
    :ivar columns: dataclass members of records.
    :ivar shown: members that users see, except those inside another object.
    :ivar options: members that a client may set.
    :ivar changeable: those that it may set later, too.
    :ivar sort_keys: members to sort lists by; the first is the default.
    :ivar filters: parameters of a list's query, and the members with which
        they are compared.
    """

    def __init__(
        self,
        *fields: Field,
        sort_keys: Sequence[str] = (),
        filters: Mapping[str, str] | None = None,
    ) -> None:
        self._fields = fields
        self.sort_keys = sort_keys
        self.filters = filters or {}
        self.in_record = tuple(one for one in fields if one.in_record)
        self.columns = [one.column_member for one in self.in_record]
        self.in_view = tuple(one for one in fields if one.in_view is not None)
        self.in_notification = tuple(
            one for one in fields if one.in_notification is not None
        )
        self.shown = self.part("")
        self.options = tuple(one for one in fields if isinstance(one, Option))
        self.changeable = tuple(one for one in self.options if not one.fixed)

    def __iter__(self) -> Iterator[Field]:
        """Iterate over all members."""
        return iter(self._fields)

    def part(self, name: str) -> tuple[Field, ...]:
        """Return the members that users see in this object."""
        return tuple(
            one
            for one in self._fields
            if one.shown is not None and one.part == name
        )

    def checked(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the checked options that a client gives.

        :param given: values by name; names that are not options are ignored.
        :raises RequestError: for the first invalid value.
        """
        return {
            option.name: option.check(given[option.name])
            for option in self.options
            if option.name in given
        }


def shown(name: str, kind: Kind, about: str = "", **more: Any) -> Field:
    """Return a member that only users see; lists show it with ``--long``."""
    found = {"in_record": False, "shown": name, "column": False}
    return Field(name, kind, about, **{**found, **more})


def stored(name: str, kind: Kind, about: str = "", **more: Any) -> Field:
    """Return a member that users see and that the table contains."""
    return shown(name, kind, about, **{"in_record": True, **more})


def listed(field: Field) -> Field:
    """Return a copy of a member that lists show even without ``--long``."""
    return dataclasses.replace(field, column=True)


def public(name: str, kind: Kind, about: str = "", **more: Any) -> Field:
    """Return a member for messages, notifications and users."""
    found = {"in_view": 0, "in_notification": 0, "shown": name}
    return Field(name, kind, about, **{**found, **more})


def option(name: str, kind: Kind, about: str = "", **more: Any) -> Option:
    """Return a public member that a client may set."""
    found = {"in_view": 0, "in_notification": 0, "shown": name}
    return Option(name, kind, about, **{**found, **more})


def count(name: str, about: str = "", **more: Any) -> Field:
    """Return a public number that starts at 0."""
    return public(name, COUNT, about, default=0, **more)


def time(name: str, about: str = "", **more: Any) -> Field:
    """Return a public time that may be unknown."""
    return public(name, TIME, about, default=None, column=False, **more)


def now(name: str, kind: Kind, about: str, **more: Any) -> Field:
    """Return a public member that only the leader knows."""
    found = {
        "default": None,
        "in_record": False,
        "in_notification": None,
        "listed": False,
    }
    return public(name, kind, about, **{**found, **more})


def copier(members: Iterable[str]) -> Callable[[Any], dict[str, Any]]:
    """Return a function that returns these members of an object as a dict."""
    names = tuple(members)
    values = operator.attrgetter(*names)
    return lambda one: dict(zip(names, values(one), strict=True))


def with_members(members: Iterable[Member]) -> Callable[[_T], _T]:
    """Return a decorator that adds members to a class.

    Write it below ``dataclass``. Members that the class declares stay
    unchanged.
    """

    def decorate(cls: _T) -> _T:
        for name, type_, default in members:
            if name not in cls.__annotations__:
                cls.__annotations__[name] = type_
                if default is not REQUIRED:
                    setattr(cls, name, default)
        return cls

    return decorate
