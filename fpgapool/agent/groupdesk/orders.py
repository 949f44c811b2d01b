# SPDX-License-Identifier: Apache-2.0

"""The agent's requests to a desk, checked."""

from __future__ import annotations

import typing
from collections.abc import Collection

from fpgapool.agent.groupdesk import connections
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

_SHA256_DIGITS = 64


class GetStatus(typing.NamedTuple):
    """Report the status."""


class SetMembers(typing.NamedTuple):
    """Set the members, as :meth:`members.MemberPorts.want` says.

    :ivar wanted: the generation of each, by device and number.
    :ivar surplus: how many of them should leave, idle ones first.
    """

    wanted: dict[tuple[str, int], int]
    surplus: int


class Admit(typing.NamedTuple):
    """Allow more clients to attach."""

    clients: list[connections.Access]


class Keep(typing.NamedTuple):
    """Follow an order: revoke clients not admitted since the last one.

    :ivar revision: of the order that the desk follows now.
    :ivar arbitration: as in the settings; None: as before.
    :ivar clear_between: as in the settings; None: as before.
    """

    revision: int
    arbitration: str | None = None
    clear_between: str | None = None


class Hosts(typing.NamedTuple):
    """Tell clients where the group has members.

    :ivar spares_member: whether one member here is for clients without locks.
    """

    members: groups.MemberList
    spares_member: bool = True


class ReadCounts(typing.NamedTuple):
    """Report the usage of clients since the desk began, page by page.

    :ivar after: only clients whose names are greater.
    """

    after: str


class Exit(typing.NamedTuple):
    """End the process."""


Order: typing.TypeAlias = (
    GetStatus | SetMembers | Admit | Keep | Hosts | ReadCounts | Exit
)


def parse(message: messages.Message) -> Order:
    """Check a request.

    :param message: the request; members of later versions are ignored.
    :raises frames.ProtocolError: if it is invalid.
    """
    operation = frames.require(message, "op", str)
    match operation:
        case "status":
            return GetStatus()
        case "members":
            return SetMembers(_wanted(message), _natural(message, "surplus"))
        case "admit":
            return Admit(
                [
                    _access(one)
                    for one in frames.require(message, "clients", list)
                ]
            )
        case "keep":
            return Keep(
                _natural(message, "revision"),
                _one_of(message, "arbitration", group.ARBITRATIONS),
                _one_of(message, "clear_between", group.CLEARINGS),
            )
        case "hosts":
            spares_member = message.get("spares_member", True)
            if not isinstance(spares_member, bool):
                raise _wrong("spares_member must be true or false")
            return Hosts(groups.MemberList.parse(message), spares_member)
        case "counts":
            after = message.get("after", "")
            if not isinstance(after, str):
                raise _wrong("after must be a string")
            return ReadCounts(after)
        case "exit":
            return Exit()
    raise frames.ProtocolError(
        codes.UNKNOWN_OPERATION, f"no operation {operation[:64]!r}"
    )


def _wanted(message: messages.Message) -> dict[tuple[str, int], int]:
    wanted = {}
    for one in frames.require(message, "members", list):
        if not isinstance(one, dict):
            raise _wrong("a member is not an object")
        place = (
            frames.require(one, "device", str),
            frames.require(one, "slot", int),
        )
        wanted[place] = _natural(one, "generation")
    return wanted


def _access(one: object) -> connections.Access:
    if not isinstance(one, dict):
        raise _wrong("a client is not an object")
    digest = frames.require(one, "secret_sha256", str)
    if len(digest) != _SHA256_DIGITS or not all(
        digit in "0123456789abcdef" for digit in digest
    ):
        raise _wrong("secret_sha256 must be 64 hexadecimal digits")
    return connections.Access(
        frames.require(one, "client_id", str),
        frames.require(one, "project_id", str),
        digest,
    )


def _one_of(
    document: messages.Message, name: str, values: Collection[str]
) -> str | None:
    value = document.get(name)
    if value is not None and value not in values:
        raise _wrong(f"{name} must be one of {', '.join(values)}")
    return value


def _natural(document: messages.Message, name: str) -> int:
    value = document.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(f"{name} must be a non-negative integer")
    return value


def _wrong(text: str) -> frames.ProtocolError:
    return frames.ProtocolError(frames.PROTOCOL_ERROR, text)
