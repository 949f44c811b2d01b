# SPDX-License-Identifier: Apache-2.0

"""The front door's view of a session."""

from __future__ import annotations

import dataclasses
import typing

from fpgapool.protocol import frames
from fpgapool.vocabulary import codes

LOCAL_NETWORK = "local"


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where the session's worker listens.

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

    @property
    def ending(self) -> tuple[str, str]:
        """Code and message of an error for the session's end."""
        if self.reason == codes.OK:
            return codes.SESSION_CLOSED, "the session was used and closed"
        message = self.message or f"the session is {self.state}"
        return self.reason or self.state, message

    @classmethod
    def from_message(cls, members: typing.Any) -> SessionView:
        """Read the ``session`` member of a message.

        :param members: decoded JSON; members that are not known are
            ignored.
        :returns: the view.
        :raises frames.ProtocolError: if a member is missing or has another
            type.
        """
        if not isinstance(members, dict):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the session is not an object"
            )
        require = frames.require
        return cls(
            session_id=require(members, "session_id", str),
            state=require(members, "state", str),
            reason=_optional(members, "reason", str) or "",
            message=_optional(members, "message", str) or "",
            generation=_optional(members, "generation", int) or 0,
            revision=_optional(members, "revision", int) or 0,
            queued_at=_optional(members, "queued_at", (int, float)),
            ready_at=_optional(members, "ready_at", (int, float)),
            host_name=_optional(members, "slot_host_name", str),
            device=_optional(members, "device", str),
            slot=_optional(members, "slot", int),
            local=_optional(members, "local", (bool,)),
            endpoints=_endpoints(members),
            secret=_optional(members, "secret", str) or "",
            certificate_sha256=_optional(members, "certificate_sha256", str),
            queue_position=_optional(members, "queue_position", int),
            pending_reasons=tuple(
                str(reason)
                for reason in _optional(members, "pending_reasons", list) or ()
            ),
            expected_wait_s=_optional(
                members, "expected_wait_s", (int, float)
            ),
        )


def _optional(
    members: dict[str, typing.Any],
    name: str,
    kind: type | tuple[type, ...],
) -> typing.Any:
    if members.get(name) is None:
        return None
    return frames.require(members, name, kind)


def _endpoints(members: dict[str, typing.Any]) -> tuple[Endpoint, ...]:
    endpoints = []
    for item in _optional(members, "endpoints", list) or ():
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
