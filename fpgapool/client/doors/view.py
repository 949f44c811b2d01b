# SPDX-License-Identifier: Apache-2.0

"""The front door's view of a session."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import typing
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import session as description

LOCAL_NETWORK = "local"


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
    """The state of a session at one moment.

    :ivar state: QUEUED, PREPARING, READY, ACTIVE, DETACHED, or a final state.
    :ivar reason: code that says why the session ended or was rejected, or why
        this machine's CPU computes instead.
    :ivar revision: increases with every change.
    :ivar secret: for the first connection to the worker; empty unless READY,
        or PREPARING if it has its slot when the holder leaves.
    :ivar queue_position: position in the queue; 0 is the next to be served.
    :ivar expected_wait_s: expected remaining wait for a slot; None if unknown.
        Nine of ten waits lie between ``expected_wait_low_s`` and
        ``expected_wait_high_s``.
    :ivar chunk_bytes: maximum piece length that all workers of the pool
        accept; None if unknown.
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
    expected_wait_low_s: float | None = None
    expected_wait_high_s: float | None = None
    chunk_bytes: int | None = None

    @property
    def ending(self) -> tuple[str, str]:
        """The code and message of the session's error."""
        if self.reason == codes.OK:
            return codes.SESSION_CLOSED, "the session has already been closed"
        message = self.message or f"the session is {self.state}"
        return self.reason or self.state, message

    @classmethod
    def from_message(cls, members: Any) -> SessionView:
        """Read the ``session`` member of a message.

        :param members: decoded JSON, whose unknown members are ignored; or a
            view that a door has already read.
        :raises frames.ProtocolError: if a member is missing or malformed.
        """
        if isinstance(members, SessionView):
            return members
        if not isinstance(members, dict):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the session is not an object"
            )
        return cls(**_read(members, _NAMES, _CONVERTERS))

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
        return cls(**_read(members, _SHOWN, _CONVERTERS_API))


def _read(
    members: Mapping[str, Any],
    names: Mapping[str, str],
    converters: Mapping[str, Callable[[Any], Any]],
) -> dict[str, Any]:
    """Return the known members of a view.

    It avoids calls, because a session is read several times while it opens.

    :param names: the document's names of members, where they differ.
    """
    found: dict[str, Any] = {}
    for name, kinds in _KINDS.items():
        shown = names.get(name, name)
        value = members.get(shown)
        if value is None:
            if name in _REQUIRED:
                raise _wrong(f"member '{shown}' is missing")
            continue
        if name in converters:
            found[name] = converters[name](value)
        elif type(value) in kinds:
            found[name] = value
        else:
            raise _wrong(f"member '{shown}' has the wrong type")
    return found


def _wrong(reason: str) -> frames.ProtocolError:
    return frames.ProtocolError(frames.PROTOCOL_ERROR, reason)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _wrong("the reasons are not a list")
    return tuple(map(str, value))


def _endpoints(value: Any) -> tuple[Endpoint, ...]:
    try:
        found = tuple(
            Endpoint(
                one["network"], one.get("address") or "", one.get("port") or 0
            )
            for one in value
        )
    except (AttributeError, KeyError, TypeError) as exc:
        raise _wrong(f"the endpoints are malformed: {exc!r}") from exc
    for one in found:
        if [type(member) for member in one] != [str, str, int]:
            raise _wrong("a member of an endpoint has the wrong type")
    return found


def _codes(value: Any) -> tuple[str, ...]:
    return tuple(str(reason["code"]) for reason in value)


def _seconds(value: Any) -> float:
    return datetime.datetime.fromisoformat(value).timestamp()


_REQUIRED = ("session_id", "state")
#: Members that have a different name in messages.
_NAMES = {"host_name": "slot_host_name"}
_JSON: dict[object, tuple[type, ...]] = {float: (int, float)}
#: JSON types of each member, without None.
_KINDS = {
    name: _JSON.get(kind, (kind,))
    for name, type_ in typing.get_type_hints(SessionView).items()
    for kind in [next(iter(typing.get_args(type_)), type_)]
}
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "pending_reasons": _texts,
    "endpoints": _endpoints,
}

_DESCRIBED = [one for one in description.FIELDS.shown if one.name in _KINDS]
#: The API's names for the described members.
_SHOWN = {one.name: str(one.shown) for one in _DESCRIBED}
#: Members that all versions of the API return.
_ALWAYS_SHOWN = [_SHOWN[one.name] for one in _DESCRIBED if one.since == (1, 0)]
_BY_KIND = {fields.TIME: _seconds, fields.CODES: _codes}
_CONVERTERS_API = _CONVERTERS | {
    one.name: _BY_KIND[one.kind] for one in _DESCRIBED if one.kind in _BY_KIND
}
