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

_NATURAL = shapes.integer(0)
_TEXT = shapes.text()
_MEMBER = shapes.Members(
    {"device": _TEXT, "slot": shapes.integer()},
    {"generation": _NATURAL},
    others=True,
)
_CLIENT = shapes.Members(
    {
        "client_id": _TEXT,
        "project_id": _TEXT,
        "secret_sha256": shapes.matching(
            "[0-9a-f]{64}", "64 hexadecimal digits"
        ),
    },
    others=True,
)
#: The arguments of each operation.
_ARGUMENTS = {
    "status": shapes.Members({}, others=True),
    "members": shapes.Members(
        {"members": shapes.list_of(_MEMBER)},
        {"surplus": _NATURAL},
        others=True,
    ),
    "admit": shapes.Members({"clients": shapes.list_of(_CLIENT)}, others=True),
    "keep": shapes.Members(
        {},
        {
            "revision": _NATURAL,
            "arbitration": shapes.nullable(shapes.one_of(group.ARBITRATIONS)),
            "clear_between": shapes.nullable(shapes.one_of(group.CLEARINGS)),
        },
        others=True,
    ),
    "hosts": shapes.Members({}, {"spares_member": shapes.flag}, others=True),
    "counts": shapes.Members({}, {"after": _TEXT}, others=True),
    "exit": shapes.Members({}, others=True),
}


def parse(message: messages.Message) -> tuple[str, dict[str, typing.Any]]:
    """Check a request; return the operation and its arguments.

    :param message: the request; unknown members, which a newer agent may send,
        are ignored.
    """
    operation = frames.require(message, "op", str)
    shape = _ARGUMENTS.get(operation)
    if shape is None:
        raise frames.ProtocolError(
            codes.UNKNOWN_OPERATION, f"unknown operation {operation[:64]!r}"
        )
    found = frames.checked(shape, message)
    match operation:
        case "members":
            found["wanted"] = {
                (one["device"], one["slot"]): one.get("generation", 0)
                for one in found.pop("members")
            }
        case "admit":
            found["clients"] = [
                connections.Access(**one) for one in found["clients"]
            ]
        case "hosts":
            found["members"] = groups.MemberList.parse(message)
    return operation, found
