# SPDX-License-Identifier: Apache-2.0

"""The agent's requests to a worker, checked."""

from __future__ import annotations

import typing

from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.drivers import base as drivers
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

# The limit is longer than any session, and small enough for timers.
_SECONDS = shapes.number(0, below=2e9)
_COUNT = shapes.integer(0, 2**63 - 1)
_TEXT = shapes.text()
_LIMITS: dict[str, shapes.Shape[typing.Any]] = {
    "idle_timeout_s": _SECONDS,
    "max_hold_s": _SECONDS,
    "min_progress_bytes_per_s": shapes.number(0, below=2.0**63),
    "progress_period_s": _SECONDS,
    "claim_limit_bytes": _COUNT,
    "quantum_bytes": _COUNT,
}
_REFERENCE = shapes.Members(
    {
        "bitstream_id": _TEXT,
        "checksum_sha256": _TEXT,
        "size_bytes": shapes.integer(),
        "format": _TEXT,
        "path": _TEXT,
    },
    {"signature": _TEXT},
    others=True,
)
_ORDER = shapes.Members(
    {
        "session_id": _TEXT,
        "generation": _COUNT,
        "project_id": _TEXT,
        "accelerator": _TEXT,
        "bitstream": _TEXT,
        "connect_timeout_s": _SECONDS,
        "resume_grace_s": _SECONDS,
        "local": shapes.flag,
        "self_test": shapes.flag,
    },
    {
        **_LIMITS,
        "origin_host_uuid": _TEXT,
        "group_id": _TEXT,
        "request_id": _TEXT,
        "secret_sha256": shapes.matching(
            "([0-9A-Fa-f]{64})?", "64 hexadecimal digits"
        ),
        "bitstream_ref": _REFERENCE,
    },
    others=True,
    nulls=(
        *_LIMITS,
        "origin_host_uuid",
        "secret_sha256",
        "bitstream_ref",
    ),
)


def parse(message: messages.Message) -> state.Event | None:
    """Check a request and return it as an event, or None for ``status``."""
    operation = frames.require(message, "op", str)
    match operation:
        case "status":
            return None
        case "assign":
            return state.Assign(state.Order(**order_members(message)))
        case "release":
            return state.Release(
                frames.require(message, "generation", int),
                frames.require(message, "reason", str),
            )
        case "reissue_secret":
            return state.ReissueSecret(
                frames.require(message, "generation", int)
            )
        case "exit":
            return state.Exit("requested by its agent")
    raise frames.ProtocolError(
        codes.UNKNOWN_OPERATION, f"unknown operation {operation[:64]!r}"
    )


def order_members(message: messages.Message) -> dict[str, typing.Any]:
    """Check the members of an ``assign`` request.

    :param message: the request; unknown members, which a newer agent may send,
        are ignored.
    """
    members = frames.checked(_ORDER, message)
    members["limits"] = watch.Limits(
        **{name: members.pop(name) for name in _LIMITS if name in members}
    )
    reference = members.pop("bitstream_ref", None)
    if reference is not None:
        members["bitstream_id"] = reference.pop("bitstream_id")
        members["file"] = drivers.BitstreamFile(
            accelerator=members["accelerator"], **reference
        )
    return members
