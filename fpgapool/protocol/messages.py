# SPDX-License-Identifier: Apache-2.0

"""Framing of the front door and of the worker's control socket.

A message is a JSON object behind its length as four big-endian bytes. Both
sockets carry requests, replies with the request's ``id``, and notifications
with ``event`` and no ``id``. Only bytes in and bytes out.
"""

from __future__ import annotations

import collections.abc
import struct
import typing

from fpgapool.protocol import frames

LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = frames.MAX_JSON_BYTES

#: Version of the front door's operations, sent in ``hello``.
FRONT_DOOR_VERSION = 1

Message: typing.TypeAlias = dict[str, typing.Any]

_LENGTH = struct.Struct(">I")


def encode(message: collections.abc.Mapping[str, object]) -> bytes:
    """Encode one message."""
    payload = frames.encode_json(message)
    return _LENGTH.pack(len(payload)) + payload


def decode_length(data: frames.Buffer, position: int = 0) -> int:
    """Decode and check the length in front of a message.

    :param data: at least ``position`` + 4 bytes.
    :param position: index of the first byte of the length.
    :raises frames.ProtocolError: if it is truncated, 0 or above the limit.
    """
    if len(data) - position < LENGTH_BYTES:
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR, "truncated message length"
        )
    length_bytes: int = _LENGTH.unpack_from(data, position)[0]
    if length_bytes == 0:
        raise frames.ProtocolError(frames.PROTOCOL_ERROR, "empty message")
    if length_bytes > MAX_MESSAGE_BYTES:
        raise frames.ProtocolError(
            frames.FRAME_TOO_LARGE,
            f"message of {length_bytes} bytes, "
            f"at most {MAX_MESSAGE_BYTES} are allowed",
        )
    return length_bytes


class MessageDecoder:
    """Incremental decoder: feed it bytes as they come, and get messages."""

    def __init__(
        self,
        decode: collections.abc.Callable[
            [frames.Buffer], Message
        ] = frames.decode_json,
    ) -> None:
        self._decode = decode
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for the rest of their message."""
        return len(self._buffer)

    def feed(
        self, data: frames.Buffer, limit: int | None = None
    ) -> list[Message]:
        """Feed more bytes.

        :param limit: return at most that many messages; further calls, with
            or without data, return the rest.
        :returns: the messages that are now complete, oldest first.
        :raises frames.ProtocolError: if a length is 0 or too large, or a
            message is not a JSON object; then the connection is unusable.
        """
        self._buffer += data
        messages: list[Message] = []
        position = 0
        while len(self._buffer) - position >= LENGTH_BYTES:
            if len(messages) == limit:
                break
            start = position + LENGTH_BYTES
            end = start + decode_length(self._buffer, position)
            if end > len(self._buffer):
                break
            messages.append(self._decode(self._buffer[start:end]))
            position = end
        del self._buffer[:position]
        return messages


def request(
    request_number: int, operation: str, **members: object
) -> dict[str, object]:
    """Build a request.

    :param request_number: the ``id`` that the reply repeats.
    """
    return {"id": request_number, "op": operation, **members}


def reply(request_number: object, **members: object) -> dict[str, object]:
    """Build the reply to a request that succeeded."""
    return {"id": request_number, "ok": True, **members}


def error_reply(
    request_number: object, code: str, message: str
) -> dict[str, object]:
    """Build the reply to a request that failed.

    :param request_number: ``id`` of the request, None if it had none.
    """
    return {
        "id": request_number,
        "ok": False,
        "error": {"code": code, "message": message},
    }


def notification(event: str, **members: object) -> dict[str, object]:
    return {"event": event, **members}
