# SPDX-License-Identifier: Apache-2.0

"""The frames of the data plane: a 32-byte header and a payload.

This module only converts bytes. Encoders raise ValueError if a member does not
fit its field; decoders raise ProtocolError. The protocol document describes
the layout for implementers.
"""

from __future__ import annotations

import collections.abc
import enum
import json
import struct
import typing
import zlib

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import shapes

Buffer: typing.TypeAlias = bytes | bytearray | memoryview

MAGIC = 0x4650
VERSION = 1
HEADER_BYTES = 32

#: Maximum length of any JSON payload and control message.
MAX_JSON_BYTES = 64 * 1024
#: Maximum length of a data frame's payload, whatever the chunk size.
MAX_DATA_BYTES = 256 * 1024 * 1024
#: Lowest type number of frames that a receiver may skip.
FIRST_OPTIONAL_TYPE = 128
#: Name of the feature of CHECKSUM frames.
CHECKSUM_FEATURE = "checksum"
#: Name of the feature of CHECKPOINT frames.
CHECKPOINT_FEATURE = "checkpoint"
#: Maximum length of a core's state in a CHECKPOINT frame.
MAX_CHECKPOINT_BYTES = 1024 * 1024
#: Name of the feature of references to blocks.
BLOCKS_FEATURE = "blocks"
#: Name of the feature of connections to a group's desk.
GROUPS_FEATURE = "groups"
#: Name of the feature of connections that carry only what a worker sends.
RETURN_FEATURE = "return"
#: Name of the feature of links between the workers of a chain.
LINK_FEATURE = "link"

# Flags. They are plain integers, because testing enums would be slower.
END = 0x0001
SHM = 0x0002
TASK_END = 0x0004
TASK_MORE = 0x0008
BLOCK = 0x0010
LINKED = 0x0020

# Error codes for protocol violations.
PROTOCOL_ERROR = codes.PROTOCOL_ERROR
FRAME_TOO_LARGE = codes.FRAME_TOO_LARGE

_HEADER = struct.Struct(">HBBHHIIQII")
_CHECKSUMS = struct.Struct(">QQII")
_CRC32_BYTES = 4
_UINT64_MAX = 2**64 - 1


class FrameType(enum.IntEnum):
    """The type numbers of version 1."""

    HELLO = 1
    OPENED = 2
    INPUT = 3
    ACK = 4
    OUTPUT = 5
    CLOSE = 6
    CLOSED = 7
    ERROR = 8
    PING = 9
    PONG = 10
    CHECKSUM = 128
    TASK_PARAMS = 129
    LOCK = 130
    LOCKED = 131
    UNLOCK = 132
    MEMBERS = 133
    CHECKPOINT = 134
    MISS = 135
    RETURN = 136
    LINK = 137


HELLO = int(FrameType.HELLO)
OPENED = int(FrameType.OPENED)
INPUT = int(FrameType.INPUT)
ACK = int(FrameType.ACK)
OUTPUT = int(FrameType.OUTPUT)
CLOSE = int(FrameType.CLOSE)
CLOSED = int(FrameType.CLOSED)
ERROR = int(FrameType.ERROR)
PING = int(FrameType.PING)
PONG = int(FrameType.PONG)
CHECKSUM = int(FrameType.CHECKSUM)
TASK_PARAMS = int(FrameType.TASK_PARAMS)
LOCK = int(FrameType.LOCK)
LOCKED = int(FrameType.LOCKED)
UNLOCK = int(FrameType.UNLOCK)
MEMBERS = int(FrameType.MEMBERS)
CHECKPOINT = int(FrameType.CHECKPOINT)
MISS = int(FrameType.MISS)
RETURN = int(FrameType.RETURN)
LINK = int(FrameType.LINK)

DATA_TYPES = frozenset({INPUT, OUTPUT})
JSON_TYPES = frozenset(
    {HELLO, OPENED, CLOSED, ERROR, TASK_PARAMS, UNLOCK, MEMBERS, LINK}
)
EMPTY_TYPES = frozenset({ACK, CLOSE, PING, PONG, LOCK, LOCKED, RETURN})


class ProtocolError(exceptions.CodedError):
    """The peer violated the protocol."""


class FrameHeader(typing.NamedTuple):
    """The header of one frame, without magic, version and reserved bits.

    :ivar flags: bitmask of ``END``, ``SHM``, ``TASK_END``, ``TASK_MORE``,
        ``BLOCK`` and ``LINKED``.
    :ivar offset_bytes: position in the session's input or output.
    :ivar payload_length_bytes: length of the payload: on the wire; with
        ``SHM``, in the shared buffer; or, with ``LINKED``, on the link.
    :ivar aux: with ``SHM``, the number of the shared buffer; for a group's
        task, the number of its lock; otherwise 0.
    """

    type: int
    flags: int = 0
    stream_id: int = 0
    task_id: int = 0
    offset_bytes: int = 0
    payload_length_bytes: int = 0
    aux: int = 0

    @property
    def wire_payload_bytes(self) -> int:
        """Number of bytes that follow the header on the connection."""
        if self.flags & (SHM | LINKED) and self.type in DATA_TYPES:
            return 0
        return self.payload_length_bytes

    @property
    def optional(self) -> bool:
        """Whether receivers that do not know the type skip the frame."""
        return self.type >= FIRST_OPTIONAL_TYPE

    def pack(self) -> bytes:
        """Encode the header."""
        return pack_header(*self)

    @classmethod
    def unpack_from(
        cls, buffer: Buffer, *, max_data_bytes: int = MAX_DATA_BYTES
    ) -> FrameHeader:
        """Decode and check a header.

        :param buffer: bytes that begin with the header.
        :param max_data_bytes: limit for the payloads of data and optional
            frames.
        :raises ProtocolError: if the bytes are not a header of version 1, the
            type is unknown and not optional, or the payload exceeds the limit
            of the type.
        """
        if len(buffer) < HEADER_BYTES:
            raise ProtocolError(PROTOCOL_ERROR, "truncated frame header")
        (
            magic,
            version,
            kind,
            flags,
            reserved,
            stream_id,
            task_id,
            offset_bytes,
            length_bytes,
            aux,
        ) = _HEADER.unpack_from(buffer)
        if magic != MAGIC:
            raise ProtocolError(
                PROTOCOL_ERROR, f"wrong magic number 0x{magic:04x}"
            )
        if version != VERSION:
            raise ProtocolError(PROTOCOL_ERROR, f"unknown version {version}")
        if reserved:
            raise ProtocolError(PROTOCOL_ERROR, "reserved bits are not zero")
        header = cls(
            kind, flags, stream_id, task_id, offset_bytes, length_bytes, aux
        )
        # A quick check for the types of nearly all headers.
        if kind in DATA_TYPES:
            plain = length_bytes <= max_data_bytes
        else:
            plain = kind == ACK and not (length_bytes or flags & SHM)
        if not plain:
            header._check(max_data_bytes)
        return header

    def _check(self, max_data_bytes: int) -> None:
        length_bytes = self.payload_length_bytes
        if self.type in JSON_TYPES:
            limit_bytes = MAX_JSON_BYTES
        elif self.type in EMPTY_TYPES:
            limit_bytes = 0
        elif self.type in DATA_TYPES or self.optional:
            limit_bytes = max_data_bytes
        else:
            raise ProtocolError(
                PROTOCOL_ERROR, f"unknown frame type {self.type}"
            )
        if length_bytes > limit_bytes:
            raise ProtocolError(
                FRAME_TOO_LARGE,
                f"the payload of a frame of type {self.type} is "
                f"{length_bytes} bytes, larger than the limit of "
                f"{limit_bytes}",
            )
        if self.flags & SHM and self.type not in DATA_TYPES:
            raise ProtocolError(
                PROTOCOL_ERROR,
                f"the flag SHM is not allowed in frames of type {self.type}",
            )


def pack_header(
    kind: int,
    flags: int = 0,
    stream_id: int = 0,
    task_id: int = 0,
    offset_bytes: int = 0,
    payload_length_bytes: int = 0,
    aux: int = 0,
) -> bytes:
    """Encode a header from its members; see :class:`FrameHeader`."""
    try:
        return _HEADER.pack(
            MAGIC,
            VERSION,
            kind,
            flags,
            0,
            stream_id,
            task_id,
            offset_bytes,
            payload_length_bytes,
            aux,
        )
    except struct.error as exc:
        raise ValueError(f"cannot encode the frame header: {exc}") from None


class Checksums(typing.NamedTuple):
    """Payload of a CHECKSUM frame: lengths and CRCs of input and output.

    :ivar input_bytes: length of the core's input in this slot.
    """

    input_bytes: int = 0
    output_bytes: int = 0
    input_crc32: int = 0
    output_crc32: int = 0

    def encode(self) -> bytes:
        """Encode the payload."""
        try:
            return _CHECKSUMS.pack(*self)
        except struct.error as exc:
            raise ValueError(f"cannot encode the checksums: {exc}") from None

    @classmethod
    def decode(cls, payload: Buffer) -> Checksums:
        """Decode the payload."""
        if len(payload) != _CHECKSUMS.size:
            raise ProtocolError(
                PROTOCOL_ERROR,
                f"the payload of a CHECKSUM frame is {len(payload)} bytes "
                f"instead of {_CHECKSUMS.size}",
            )
        return cls(*_CHECKSUMS.unpack(payload))


def checkpoint_frame(offset_bytes: int, state: Buffer) -> bytes:
    """Encode a CHECKPOINT frame, which has a core's state between pieces."""
    if len(state) > MAX_CHECKPOINT_BYTES:
        raise ValueError(
            f"the checkpoint state is {len(state)} bytes, larger than the "
            f"limit of {MAX_CHECKPOINT_BYTES}"
        )
    crc32 = zlib.crc32(state).to_bytes(_CRC32_BYTES, "big")
    header = pack_header(
        CHECKPOINT,
        offset_bytes=offset_bytes,
        payload_length_bytes=_CRC32_BYTES + len(state),
    )
    return header + crc32 + state


def checkpoint_state(payload: Buffer) -> bytes:
    """Decode the payload of a CHECKPOINT frame."""
    crc32, state = bytes(payload[:_CRC32_BYTES]), bytes(payload[_CRC32_BYTES:])
    if (
        len(state) > MAX_CHECKPOINT_BYTES
        or zlib.crc32(state).to_bytes(_CRC32_BYTES, "big") != crc32
    ):
        raise ProtocolError(
            PROTOCOL_ERROR, "a checkpoint is damaged or too long"
        )
    return state


def encode_json(document: collections.abc.Mapping[str, object]) -> bytes:
    """Encode a JSON payload.

    :raises ValueError: if the document is not JSON or is too large.
    """
    try:
        payload = _ENCODER.encode(document).encode()
    except (TypeError, RecursionError) as exc:
        raise ValueError(f"cannot encode as JSON: {exc}") from None
    if len(payload) > MAX_JSON_BYTES:
        raise ValueError(
            f"the JSON document is {len(payload)} bytes, larger than the "
            f"limit of {MAX_JSON_BYTES}"
        )
    return payload


def decode_json(payload: Buffer) -> dict[str, typing.Any]:
    """Decode a JSON payload.

    :param payload: UTF-8 bytes of one JSON object.
    :raises ProtocolError: if it is too large, not JSON or not an object.
    """
    if len(payload) > MAX_JSON_BYTES:
        raise ProtocolError(
            FRAME_TOO_LARGE,
            f"the JSON document is {len(payload)} bytes, larger than the "
            f"limit of {MAX_JSON_BYTES}",
        )
    try:
        document = _DECODER.decode(bytes(payload).decode())
    except (ValueError, RecursionError):
        # Hide the parser's error: it quotes the peer's bytes, which may be a
        # mistyped secret.
        raise ProtocolError(
            PROTOCOL_ERROR, "the payload is not valid JSON"
        ) from None
    if not isinstance(document, dict):
        raise ProtocolError(PROTOCOL_ERROR, "the payload is not a JSON object")
    return document


def _refuse_constant(name: str) -> typing.NoReturn:
    raise ValueError(name)


# Created only once, because this takes longer than encoding most documents.
# Checking for cycles would take a third of the time; a cycle raises
# RecursionError anyway.
_ENCODER = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, check_circular=False
)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def encode_frame(
    header: FrameHeader, document: collections.abc.Mapping[str, object]
) -> bytes:
    """Encode a frame with a JSON payload."""
    payload = encode_json(document)
    header = header._replace(payload_length_bytes=len(payload))
    return header.pack() + payload


def error_frame(
    code: str,
    message: str,
    offset_bytes: int = 0,
    stream_id: int = 0,
    task_id: int = 0,
) -> bytes:
    """Encode an ERROR frame.

    :param message: explanation; truncated to 1024 characters.
    :param task_id: number of the group's task, if only that task failed.
    """
    return encode_frame(
        FrameHeader(
            ERROR,
            stream_id=stream_id,
            task_id=task_id,
            offset_bytes=offset_bytes,
        ),
        {"code": code, "message": message[:1024], "offset": offset_bytes},
    )


_T = typing.TypeVar("_T")


def checked(shape: shapes.Shape[_T], document: object, where: str = "") -> _T:
    """Check a decoded document, or its member ``where``.

    :raises ProtocolError: if it does not have the shape.
    """
    try:
        return shape(document, where)
    except shapes.Invalid as error:
        raise ProtocolError(PROTOCOL_ERROR, str(error)) from None


def require(
    document: collections.abc.Mapping[str, typing.Any],
    name: str,
    kind: type | tuple[type, ...],
) -> typing.Any:
    """Check the type of a required member, and return the member.

    :param kind: required type; ``bool`` does not count as a number.
    :raises ProtocolError: if it is missing or has the wrong type.
    """
    value = document.get(name)
    if type(value) is kind:
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool) and bool not in kinds:
        raise ProtocolError(
            PROTOCOL_ERROR, f"member '{name}' must not be a Boolean"
        )
    if not isinstance(value, kinds):
        raise ProtocolError(
            PROTOCOL_ERROR, f"member '{name}' is missing or has the wrong type"
        )
    return value


def features(
    document: collections.abc.Mapping[str, typing.Any],
) -> frozenset[str]:
    """Return the member ``features`` of HELLO or OPENED.

    :returns: names of optional features; none if the member is missing.
    """
    found = document.get("features")
    return frozenset(checked(FEATURES, found, "features") or ())


#: Shapes of members that occur in several messages.
OFFSET = shapes.integer(0, _UINT64_MAX)
FEATURES = shapes.nullable(shapes.list_of(shapes.text()))
