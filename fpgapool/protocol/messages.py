# SPDX-License-Identifier: Apache-2.0

"""Framing of messages at the front door and the worker's control socket.

A message is a JSON object, preceded by its length in four big-endian bytes.
Both sockets carry requests, replies with the request's ``id``, and
notifications with an ``event`` and no ``id``.
"""

from __future__ import annotations

import collections.abc
import struct
import typing

from fpgapool.protocol import frames
from fpgapool.vocabulary import shapes

LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = frames.MAX_JSON_BYTES

#: Version of the front door's operations, sent in ``hello``.
FRONT_DOOR_VERSION = 1

Message: typing.TypeAlias = dict[str, typing.Any]

_LENGTH = struct.Struct(">I")

#: The id of a session or group, which names a directory, and its generation.
#: An agent ends a process that says anything else, so a process accepts
#: nothing else from its clients, either, if it repeats it.
HOLDER = shapes.matching(
    "[0-9A-Za-z][0-9A-Za-z_.:-]{0,63}", "the id of a session or group"
)
GENERATION = shapes.integer(0, 2**63 - 1)


def encode(message: collections.abc.Mapping[str, object]) -> bytes:
    """Encode one message."""
    payload = frames.encode_json(message)
    return _LENGTH.pack(len(payload)) + payload


class MessageDecoder:
    """Decodes messages incrementally, as bytes arrive."""

    def __init__(
        self,
        decode: collections.abc.Callable[
            [frames.Buffer], Message
        ] = frames.decode_json,
    ) -> None:
        self._decode = decode
        self._buffer = bytearray()

    def feed(
        self, data: frames.Buffer, limit: int | None = None
    ) -> list[Message]:
        """Feed more bytes.

        :param limit: maximum number of messages to return; later calls, with
            or without data, return the rest.
        :returns: the messages that are now complete, oldest first.
        :raises frames.ProtocolError: if a length is 0 or too large, or a
            message is not a JSON object. The connection is then unusable.
        """
        self._buffer += data
        messages: list[Message] = []
        position = 0
        while len(self._buffer) - position >= LENGTH_BYTES:
            if len(messages) == limit:
                break
            (length_bytes,) = _LENGTH.unpack_from(self._buffer, position)
            if not 0 < length_bytes <= MAX_MESSAGE_BYTES:
                raise frames.ProtocolError(
                    frames.FRAME_TOO_LARGE
                    if length_bytes
                    else frames.PROTOCOL_ERROR,
                    f"the message is {length_bytes} bytes; it must be from 1 "
                    f"to {MAX_MESSAGE_BYTES}",
                )
            start = position + LENGTH_BYTES
            end = start + length_bytes
            if end > len(self._buffer):
                break
            messages.append(self._decode(self._buffer[start:end]))
            position = end
        del self._buffer[:position]
        return messages


def request(
    request_number: int, operation: str, **members: object
) -> dict[str, object]:
    """Build a request; the reply repeats its number as ``id``."""
    return {"id": request_number, "op": operation, **members}


def reply(request_number: object, **members: object) -> dict[str, object]:
    """Build the reply to a request that succeeded."""
    return {"id": request_number, "ok": True, **members}


def error_reply(
    request_number: object, code: str, message: str
) -> dict[str, object]:
    """Build the reply to a failed request, whose number may be None."""
    return {
        "id": request_number,
        "ok": False,
        "error": {"code": code, "message": message},
    }


def notification(event: str, **members: object) -> dict[str, object]:
    return {"event": event, **members}
