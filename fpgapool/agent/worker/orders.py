# SPDX-License-Identifier: Apache-2.0

"""The agent's requests to a worker, checked."""

from __future__ import annotations

import dataclasses
import string
import typing

from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.drivers import base as drivers
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes

# Longer than any session, but safe for timers.
_MAX_S = 2e9
_MAX_INTEGER = 2**63
_LIMITS = [field.name for field in dataclasses.fields(watch.Limits)]


def parse(message: messages.Message) -> state.Event | None:
    """Decode a request; None asks for the status."""
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
        codes.UNKNOWN_OPERATION, f"no operation {operation[:64]!r}"
    )


def order_members(message: messages.Message) -> dict[str, typing.Any]:
    """Check the members of an ``assign`` request.

    :param message: the request; members of later versions are ignored.
    :returns: arguments of :class:`state.Order`.
    :raises frames.ProtocolError: if one is missing or wrong.
    """
    members = {
        name: frames.require(message, name, kind)
        for name, kind in (
            ("session_id", str),
            ("generation", int),
            ("project_id", str),
            ("accelerator", str),
            ("bitstream", str),
            ("connect_timeout_s", (int, float)),
            ("resume_grace_s", (int, float)),
            ("local", bool),
            ("self_test", bool),
        )
    }
    for name in ("generation", "connect_timeout_s", "resume_grace_s"):
        _check_range(name, members[name])
    if message.get("origin_host_uuid") is not None:
        members["origin_host_uuid"] = frames.require(
            message, "origin_host_uuid", str
        )
    if message.get("desk_socket") is not None:
        members["desk_socket"] = frames.require(message, "desk_socket", str)
    if message.get("secret_sha256"):
        members["secret_sha256"] = _hash(message)
    members["limits"] = _limits(message)
    if message.get("bitstream_ref") is not None:
        members |= _bitstream(message)
    return members


def _hash(message: messages.Message) -> str:
    """Read the hash of the client's secret."""
    digest = frames.require(message, "secret_sha256", str)
    if len(digest) != 64 or set(digest) - set(string.hexdigits):
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            "secret_sha256 must be 64 hexadecimal digits",
        )
    return digest


def _bitstream(message: messages.Message) -> dict[str, typing.Any]:
    """Read the reference of the file to program into the slot."""
    reference = frames.require(message, "bitstream_ref", dict)
    return {
        "bitstream_id": frames.require(reference, "bitstream_id", str),
        "file": drivers.BitstreamFile(
            accelerator=frames.require(message, "accelerator", str),
            path=frames.require(message, "bitstream_path", str),
            checksum_sha256=frames.require(reference, "checksum_sha256", str),
            size_bytes=frames.require(reference, "size_bytes", int),
            format=frames.require(reference, "format", str),
        ),
    }


def _limits(message: messages.Message) -> watch.Limits:
    """Read the limits of a connected session; all of them are optional."""
    values = {}
    for name in _LIMITS:
        value = message.get(name)
        if value is None:
            continue
        values[name] = frames.require(message, name, (int, float))
        _check_range(name, value)
    return watch.Limits(**values)


def _check_range(name: str, value: float) -> None:
    """Check that clocks and timers can handle a number.

    :raises frames.ProtocolError: if a number is out of range.
    """
    if not 0 <= value < (_MAX_S if name.endswith("_s") else _MAX_INTEGER):
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR, f"member '{name}' is out of range"
        )
