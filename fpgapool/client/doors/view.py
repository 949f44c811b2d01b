# SPDX-License-Identifier: Apache-2.0

"""The front door's view of a session."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import functools
import typing
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import session as description

LOCAL_NETWORK = "local"

_Members: typing.TypeAlias = Mapping[str, Any]


class Endpoint(NamedTuple):
    """Where the worker of a session, or the desk of a group, listens.

    :ivar network: ``local`` or the operator's name of a network.
    :ivar address: empty for ``local``.
    :ivar port: 0 for ``local``.
    """

    network: str
    address: str
    port: int


@dataclasses.dataclass(frozen=True)
class SessionView:
    """State of a session at one moment.

    :ivar state: QUEUED, PREPARING, READY, ACTIVE, DETACHED, or one of the
        final states.
    :ivar reason: code of its end or refusal, or of the reason why this
        machine's CPU computes.
    :ivar revision: grows with every change.
    :ivar secret: for the first connection to the worker; only in READY.
    :ivar queue_position: 0 is the next to be served.
    :ivar expected_wait_s: how long it will probably still wait for a slot;
        None if unknown.
    :ivar chunk_bytes: the longest piece that all workers of the pool take;
        None if unknown.
    """

    session_id: str
    state: str
    reason: str = ""
    message: str = ""
    generation: int = 0
    revision: int = 0
    queued_at: float | None = None
    ready_at: float | None = None
    host_name: str | None = None
    device: str | None = None
    slot: int | None = None
    local: bool | None = None
    endpoints: tuple[Endpoint, ...] = ()
    secret: str = dataclasses.field(default="", repr=False)
    certificate_sha256: str | None = None
    queue_position: int | None = None
    pending_reasons: tuple[str, ...] = ()
    expected_wait_s: float | None = None
    chunk_bytes: int | None = None

    @property
    def ending(self) -> tuple[str, str]:
        """Return code and message of the session's error."""
        if self.reason == codes.OK:
            return codes.SESSION_CLOSED, "the session was used and closed"
        message = self.message or f"the session is {self.state}"
        return self.reason or self.state, message

    @classmethod
    def from_message(cls, members: Any) -> SessionView:
        """Read the ``session`` member of a message.

        :param members: decoded JSON; members that are not known are
            ignored. A door that has read it gives the view.
        :raises frames.ProtocolError: if a member is missing or has another
            type.
        """
        if isinstance(members, SessionView):
            return members
        if not isinstance(members, dict):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the session is not an object"
            )
        return cls._read(members, _NAMES, _READ)

    @classmethod
    def from_api(cls, session: dict[str, Any]) -> SessionView:
        """Read a session as the REST API describes it.

        :raises: AttributeError, KeyError, TypeError, ValueError or
            frames.ProtocolError if it is not a session.
        """
        for shown in _ALWAYS_SHOWN:
            session[shown]
        parts = (session["placement"] or {}, session["connection"] or {})
        members = collections.ChainMap(session, *parts)
        return cls._read(members, _SHOWN, _READ_API)

    @classmethod
    def _read(
        cls, members: _Members, names: dict[str, str], readers: dict[str, Any]
    ) -> SessionView:
        for name in ("session_id", "state"):
            frames.require(members, names.get(name, name), str)
        values = {}
        for name, read in readers.items():
            value = read(members, names.get(name, name))
            if value is not None:
                values[name] = value
        return cls(**values)


def _optional(
    members: _Members, name: str, kind: type | tuple[type, ...]
) -> Any:
    if members.get(name) is None:
        return None
    return frames.require(members, name, kind)


def _endpoints(members: _Members, name: str) -> tuple[Endpoint, ...]:
    endpoints = []
    for item in _optional(members, name, list) or ():
        if not isinstance(item, dict):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "an endpoint is not an object"
            )
        endpoints.append(
            Endpoint(
                network=frames.require(item, "network", str),
                address=_optional(item, "address", str) or "",
                port=_optional(item, "port", int) or 0,
            )
        )
    return tuple(endpoints)


def _texts(members: _Members, name: str) -> tuple[str, ...]:
    return tuple(map(str, _optional(members, name, list) or ()))


def _codes(members: _Members, name: str) -> tuple[str, ...]:
    return tuple(str(reason["code"]) for reason in members[name])


def _seconds(members: _Members, name: str) -> float | None:
    text = members[name]
    if text is None:
        return None
    return datetime.datetime.fromisoformat(text).timestamp()


#: Members that have other names in messages.
_NAMES = {"host_name": "slot_host_name"}
_READERS: dict[object, Any] = {
    str: functools.partial(_optional, kind=str),
    int: functools.partial(_optional, kind=int),
    float: functools.partial(_optional, kind=(int, float)),
    bool: functools.partial(_optional, kind=(bool,)),
    tuple[str, ...]: _texts,
    tuple[Endpoint, ...]: _endpoints,
}
#: Parser of each member; one that may be None uses its other type.
_READ = {
    name: _READERS.get(type_) or _READERS[typing.get_args(type_)[0]]
    for name, type_ in typing.get_type_hints(SessionView).items()
}

_DESCRIBED = [one for one in description.FIELDS.shown if one.name in _READ]
#: The API's names of the described members.
_SHOWN = {one.name: str(one.shown) for one in _DESCRIBED}
#: In all versions of the API.
_ALWAYS_SHOWN = [_SHOWN[one.name] for one in _DESCRIBED if one.since == (1, 0)]
_READERS_API = {fields.TIME: _seconds, fields.CODES: _codes}
#: Parser of each member of the API's answers.
_READ_API = _READ | {
    one.name: _READERS_API[one.kind]
    for one in _DESCRIBED
    if one.kind in _READERS_API
}
