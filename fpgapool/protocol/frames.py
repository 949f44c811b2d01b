# SPDX-License-Identifier: Apache-2.0

"""The frames of the data plane: a 32-byte header and a payload.

Only bytes in and bytes out: sockets, buffers and threads belong to the
callers. Encoders raise ValueError if a member does not fit its field, decoders
ProtocolError. The protocol document describes the layout for implementers.
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

#: Upper bound of every JSON payload and of every control message.
MAX_JSON_BYTES = 64 * 1024
#: Upper bound of the payload of a data frame whatever the chunk size is.
MAX_DATA_BYTES = 256 * 1024 * 1024
#: First type number of the frames that a receiver may skip.
FIRST_OPTIONAL_TYPE = 128
#: Name of the feature of CHECKSUM frames.
CHECKSUM_FEATURE = "checksum"
#: Name of the feature of CHECKPOINT frames.
CHECKPOINT_FEATURE = "checkpoint"
#: Longest state of a core in a CHECKPOINT frame.
MAX_CHECKPOINT_BYTES = 1024 * 1024
#: Name of the feature of references to blocks.
BLOCKS_FEATURE = "blocks"
#: Name of the feature of connections to the desk of a group.
GROUPS_FEATURE = "groups"
#: Name of the feature of connections that only carry what a worker sends.
RETURN_FEATURE = "return"

# Flags. Plain integers, because they are tested for every frame.
END = 0x0001
SHM = 0x0002
TASK_END = 0x0004
TASK_MORE = 0x0008
BLOCK = 0x0010

# Codes of protocol violations.
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

DATA_TYPES = frozenset({INPUT, OUTPUT})
JSON_TYPES = frozenset(
    {HELLO, OPENED, CLOSED, ERROR, TASK_PARAMS, UNLOCK, MEMBERS}
)
EMPTY_TYPES = frozenset({ACK, CLOSE, PING, PONG, LOCK, LOCKED, RETURN})


class ProtocolError(exceptions.CodedError):
    """The peer sent bytes that the protocol does not allow."""


class FrameHeader(typing.NamedTuple):
    """The header of one frame, without magic, version and reserved bits.

    :ivar flags: bit set of ``END``, ``SHM``, ``TASK_END``, ``TASK_MORE``,
        ``BLOCK``.
    :ivar offset_bytes: position in the input or the output of the session.
    :ivar payload_length_bytes: length of the payload, on the wire or, with
        ``SHM``, in the shared buffer.
    :ivar aux: number of the shared buffer with ``SHM``, of the lock of a
        group's task, else 0.
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
        """Bytes that follow the header on the connection."""
        if self.flags & SHM and self.type in DATA_TYPES:
            return 0
        return self.payload_length_bytes

    @property
    def optional(self) -> bool:
        """Whether a receiver that does not know the type skips the frame."""
        return self.type >= FIRST_OPTIONAL_TYPE

    def pack(self) -> bytes:
        """Encode the header."""
        return pack_header(*self)

    @classmethod
    def unpack_from(
        cls, buffer: Buffer, *, max_data_bytes: int = MAX_DATA_BYTES
    ) -> FrameHeader:
        """Decode and check a header.

        :param buffer: begins with the header.
        :param max_data_bytes: longest payload of a data or optional frame
            that the caller accepts.
        :raises ProtocolError: if the bytes are not a header of version 1,
            the type is unknown and not optional, or the length is above the
            limit of its type.
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
            raise ProtocolError(PROTOCOL_ERROR, f"bad magic 0x{magic:04x}")
        if version != VERSION:
            raise ProtocolError(PROTOCOL_ERROR, f"unknown version {version}")
        if reserved:
            raise ProtocolError(PROTOCOL_ERROR, "reserved bits are not zero")
        header = cls(
            kind, flags, stream_id, task_id, offset_bytes, length_bytes, aux
        )
        # Nearly all headers have these types.
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
                f"{length_bytes} bytes in a frame of type {self.type}, "
                f"at most {limit_bytes} are allowed",
            )
        if self.flags & SHM and self.type not in DATA_TYPES:
            raise ProtocolError(
                PROTOCOL_ERROR, f"SHM flag on a frame of type {self.type}"
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
    """Encode a header without making one; see :class:`FrameHeader`."""
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
        raise ValueError(f"frame header not encodable: {exc}") from None


class Checksums(typing.NamedTuple):
    """Payload of a CHECKSUM frame: sums of a core's input and output.

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
            raise ValueError(f"checksums not encodable: {exc}") from None

    @classmethod
    def decode(cls, payload: Buffer) -> Checksums:
        """Decode the payload."""
        if len(payload) != _CHECKSUMS.size:
            raise ProtocolError(
                PROTOCOL_ERROR,
                f"invalid CHECKSUM frame of {len(payload)} bytes",
            )
        return cls(*_CHECKSUMS.unpack(payload))


def checkpoint_frame(offset_bytes: int, state: Buffer) -> bytes:
    """Encode a CHECKPOINT frame: a core's state between two pieces."""
    if len(state) > MAX_CHECKPOINT_BYTES:
        raise ValueError(
            f"a state of {len(state)} bytes, "
            f"at most {MAX_CHECKPOINT_BYTES} are allowed"
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
            PROTOCOL_ERROR, "a checkpoint is damaged, or too long"
        )
    return state


def encode_json(document: collections.abc.Mapping[str, object]) -> bytes:
    """Encode a JSON payload.

    :raises ValueError: if the document is not JSON or is too large.
    """
    try:
        payload = _ENCODER.encode(document).encode()
    except (TypeError, RecursionError) as exc:
        raise ValueError(f"not encodable as JSON: {exc}") from None
    if len(payload) > MAX_JSON_BYTES:
        raise ValueError(
            f"JSON of {len(payload)} bytes, "
            f"at most {MAX_JSON_BYTES} are allowed"
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
            f"JSON of {len(payload)} bytes, "
            f"at most {MAX_JSON_BYTES} are allowed",
        )
    try:
        document = _DECODER.decode(bytes(payload).decode())
    except (ValueError, RecursionError):
        # The parser's error quotes the peer's bytes, which may be a mistyped
        # secret.
        raise ProtocolError(
            PROTOCOL_ERROR, "payload is not valid JSON"
        ) from None
    if not isinstance(document, dict):
        raise ProtocolError(PROTOCOL_ERROR, "payload is not a JSON object")
    return document


def _refuse_constant(name: str) -> typing.NoReturn:
    raise ValueError(name)


# Creating one takes longer than encoding most documents. A reference cycle
# raises RecursionError: checking for cycles takes a third of the time.
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

    :param message: explanation, shortened if it is long.
    :param task_id: of a group's task, the only one that has failed.
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
    """Check a decoded payload or a message, or its member ``where``.

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
    """Return a required member of the right type.

    :param kind: type that it must have; ``bool`` does not count as a number.
    :raises ProtocolError: if it is missing or of another type.
    """
    value = document.get(name)
    if type(value) is kind:
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool) and bool not in kinds:
        raise ProtocolError(PROTOCOL_ERROR, f"member '{name}' is a boolean")
    if not isinstance(value, kinds):
        raise ProtocolError(
            PROTOCOL_ERROR, f"member '{name}' is missing or of another type"
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


#: Shapes of members of several messages.
OFFSET = shapes.integer(0, _UINT64_MAX)
FEATURES = shapes.nullable(shapes.list_of(shapes.text()))
