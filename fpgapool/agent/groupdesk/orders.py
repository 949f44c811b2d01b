# SPDX-License-Identifier: Apache-2.0

"""The agent's requests to a desk, checked."""

from __future__ import annotations

import typing

from fpgapool.agent.groupdesk import connections
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group
from fpgapool.vocabulary import shapes


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
    """Follow an order: revoke clients that it does not admit.

    :ivar revision: of the order that the desk now follows.
    :ivar arbitration: as in the settings; None: as before.
    :ivar clear_between: as in the settings; None: as before.
    """

    revision: int
    arbitration: str | None = None
    clear_between: str | None = None


class Hosts(typing.NamedTuple):
    """Tell clients on which hosts the group has members.

    :ivar spares_member: whether one member here is reserved for clients
        without locks.
    """

    members: groups.MemberList
    spares_member: bool = True


class ReadCounts(typing.NamedTuple):
    """Report the usage of clients since the desk's start, page by page.

    :ivar after: only clients whose names are greater.
    """

    after: str


class Exit(typing.NamedTuple):
    """End the process."""


Order: typing.TypeAlias = (
    GetStatus | SetMembers | Admit | Keep | Hosts | ReadCounts | Exit
)


_NATURAL = shapes.integer(0)
_TEXT = shapes.text()
_DIGEST = shapes.matching("[0-9a-f]{64}", "64 hexadecimal digits")
_SURPLUS = shapes.Members({}, {"surplus": _NATURAL}, others=True)
_MEMBER = shapes.Members(
    {"device": _TEXT, "slot": shapes.integer()},
    {"generation": _NATURAL},
    others=True,
)
_WANTED = shapes.Members({"members": shapes.list_of(_MEMBER)}, others=True)
_CLIENT = shapes.Members(
    {"client_id": _TEXT, "project_id": _TEXT, "secret_sha256": _DIGEST},
    others=True,
)
_CLIENTS = shapes.Members({"clients": shapes.list_of(_CLIENT)}, others=True)
_KEEP = shapes.Members(
    {},
    {
        "revision": _NATURAL,
        "arbitration": shapes.nullable(shapes.one_of(group.ARBITRATIONS)),
        "clear_between": shapes.nullable(shapes.one_of(group.CLEARINGS)),
    },
    others=True,
)
_HOSTS = shapes.Members({}, {"spares_member": shapes.flag}, others=True)
_COUNTS = shapes.Members({}, {"after": _TEXT}, others=True)


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
            wanted = {
                (one["device"], one["slot"]): one.get("generation", 0)
                for one in frames.checked(_WANTED, message)["members"]
            }
            surplus = frames.checked(_SURPLUS, message).get("surplus", 0)
            return SetMembers(wanted, surplus)
        case "admit":
            found = frames.checked(_CLIENTS, message)["clients"]
            return Admit([connections.Access(**one) for one in found])
        case "keep":
            return Keep(**{"revision": 0, **frames.checked(_KEEP, message)})
        case "hosts":
            return Hosts(
                groups.MemberList.parse(message),
                **frames.checked(_HOSTS, message),
            )
        case "counts":
            return ReadCounts(
                frames.checked(_COUNTS, message).get("after", "")
            )
        case "exit":
            return Exit()
    raise frames.ProtocolError(
        codes.UNKNOWN_OPERATION, f"no operation {operation[:64]!r}"
    )
