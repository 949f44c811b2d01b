# SPDX-License-Identifier: Apache-2.0

"""Named blocks of data, which need not be sent twice.

A reference identifies the data. In a session, it is the payload of an
``INPUT`` frame with the flag ``BLOCK``; the input of a group's task begins
with a list of references. :class:`Shelf` decides which blocks to keep in
limited memory. The memory itself belongs to the callers.
"""

from __future__ import annotations

import collections
import hashlib
import struct
import typing
import zlib
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable

from fpgapool.protocol import frames

#: Length of a block's name.
ID_BYTES = 16
#: Highest number of a core's argument.
MAX_ARGUMENT = 255
#: Maximum number of references in a group's task.
MAX_REFERENCES = 64

_REFERENCE = struct.Struct(">16sQII")
REFERENCE_BYTES = _REFERENCE.size
# Number of references, and a bit for each whose data is included.
_HEAD = struct.Struct(">IQ")
_HEAD_BYTES = _HEAD.size


def name_of(data: frames.Buffer) -> bytes:
    """Return the name of a block: a digest of 16 bytes."""
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    digest.update(len(data).to_bytes(8, "big"))
    digest.update(data)
    return digest.digest()


class Reference(typing.NamedTuple):
    """Identifies a block and says what it is used for.

    :ivar block_id: name of the block; see :func:`name_of`.
    :ivar length_bytes: its length, at least 1.
    :ivar crc32: its CRC-32, for workers that do not check the name.
    :ivar argument: number of the core's argument; 0: the block is input.
    """

    block_id: bytes
    length_bytes: int
    crc32: int
    argument: int = 0

    @classmethod
    def of(cls, data: frames.Buffer, argument: int = 0) -> Reference:
        """Return a reference to a block of this data."""
        return cls(name_of(data), len(data), zlib.crc32(data), argument)

    def names(self, data: frames.Buffer) -> bool:
        """Return whether the reference refers to this data."""
        return (
            len(data) == self.length_bytes and name_of(data) == self.block_id
        )

    def encode(self) -> bytes:
        """Encode the reference."""
        if len(self.block_id) != ID_BYTES:
            raise ValueError(f"the name of a block must be {ID_BYTES} bytes")
        try:
            return _REFERENCE.pack(*self)
        except struct.error as exc:
            raise ValueError(f"cannot encode the reference: {exc}") from None

    @classmethod
    def decode(cls, payload: frames.Buffer, max_bytes: int) -> Reference:
        """Decode and check a reference.

        :param max_bytes: length of the longest block that the caller accepts.
        :raises frames.ProtocolError: ``PROTOCOL_ERROR`` if it is not a valid
            reference, ``FRAME_TOO_LARGE`` if the block is too long.
        """
        if len(payload) != REFERENCE_BYTES:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                f"a reference is {len(payload)} bytes instead of"
                f" {REFERENCE_BYTES}",
            )
        reference = cls(*_REFERENCE.unpack(payload))
        if reference.length_bytes > max_bytes:
            raise frames.ProtocolError(
                frames.FRAME_TOO_LARGE,
                f"the block is {reference.length_bytes} bytes, larger than"
                f" the limit of {max_bytes}",
            )
        if not reference.length_bytes or reference.argument > MAX_ARGUMENT:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "the length or argument number of a reference is out of range",
            )
        return reference


class Part(typing.NamedTuple):
    """A reference in a group's task.

    :ivar data: the block's data, if the task includes it; None: the member
        should already have it.
    """

    reference: Reference
    data: frames.Buffer | None


def head_bytes(count: int) -> int:
    """Return the length of a list of references, without their data."""
    return _HEAD_BYTES + count * REFERENCE_BYTES


def encode_parts(parts: Iterable[Part]) -> list[frames.Buffer]:
    """Encode the references in a task and the data that it includes.

    :returns: the start of the task's input, in pieces.
    """
    found = list(parts)
    brought = 0
    for index, part in enumerate(found):
        if part.data is not None:
            brought |= 1 << index
    head = [_HEAD.pack(len(found), brought)]
    head += [part.reference.encode() for part in found]
    data = [part.data for part in found if part.data is not None]
    return [b"".join(head), *data]


def decode_parts(
    data: memoryview, max_bytes: int
) -> tuple[list[Part], memoryview]:
    """Decode the input of a task; see :func:`encode_parts`.

    :param data: the input; its list of references is read only once.
    :param max_bytes: length of the longest block that the caller accepts.
    :returns: the references with views of their data, and the remaining input.
    :raises frames.ProtocolError: see :meth:`Reference.decode`; also if the
        data is too short.
    """
    references, brought, front = _decode_head(data, max_bytes)
    start = len(front)
    parts = []
    for index, reference in enumerate(references):
        found = None
        if brought >> index & 1:
            end = start + reference.length_bytes
            found = data[start:end]
            start = end
        parts.append(Part(reference, found))
    if start > len(data):
        raise _damaged_list()
    return parts, data[start:]


class Referred(typing.NamedTuple):
    """What a task refers to.

    :ivar blocks: names and lengths of the blocks.
    :ivar front: a copy of the list of references.
    :ivar input_bytes: length of the input, according to the list: of the block
        that is the input, or of what follows the blocks that are included.
    """

    blocks: list[tuple[bytes, int]]
    front: bytes
    input_bytes: int


def referred(data: memoryview) -> Referred:
    """Find the blocks that a task refers to.

    :param data: the task's input; see :func:`encode_parts`. A client may
        change it at any time.
    """
    references, brought, front = _decode_head(data, 2**64)
    input_bytes = len(data) - len(front)
    for index, one in enumerate(references):
        if brought >> index & 1:
            input_bytes -= one.length_bytes
    for one in references:
        if not one.argument:
            input_bytes = one.length_bytes
    found = [(one.block_id, one.length_bytes) for one in references]
    return Referred(found, front, input_bytes)


def _decode_head(
    data: memoryview, max_bytes: int
) -> tuple[list[Reference], int, bytes]:
    """Return the references, a bitmask of those with data, and the list."""
    front = bytes(data[: head_bytes(MAX_REFERENCES)])
    if len(front) < _HEAD_BYTES:
        raise _damaged_list()
    count, brought = _HEAD.unpack_from(front)
    end = head_bytes(count)
    if not 0 < count <= MAX_REFERENCES or brought >> count or end > len(front):
        raise _damaged_list()
    references = [
        Reference.decode(front[start : start + REFERENCE_BYTES], max_bytes)
        for start in range(_HEAD_BYTES, end, REFERENCE_BYTES)
    ]
    if len({one.argument for one in references}) != count:
        raise _damaged_list()
    return references, brought, front[:end]


def _damaged_list() -> frames.ProtocolError:
    return frames.ProtocolError(
        frames.PROTOCOL_ERROR, "a task's list of references is invalid"
    )


Key = typing.TypeVar("Key", bound=Hashable)


class _Place(typing.NamedTuple):
    length_bytes: int
    lasting: bool


class Shelf(typing.Generic[Key]):
    """Decides which blocks to keep: the least recently used are removed first.

    Lasting blocks, which are arguments for all tasks, are removed only when no
    others are left. Pinned blocks are not removed.

    :param capacity_bytes: size of the memory; 0: no block is kept.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.kept_bytes = 0
        # Least recently used blocks first.
        self._places: collections.OrderedDict[Key, _Place] = (
            collections.OrderedDict()
        )
        self._pins: collections.Counter[Key] = collections.Counter()

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def use(self, key: Key) -> bool:
        """Record that a block is used now; return whether it is kept."""
        if key not in self._places:
            return False
        self._places.move_to_end(key)
        return True

    def add(
        self, key: Key, length_bytes: int, lasting: bool = False
    ) -> list[Key] | None:
        """Keep a block, if there is room for it.

        :param lasting: whether to remove it only after all others.
        :returns: the blocks removed to make room; None: there is not enough
            room, and nothing has changed.
        """
        if self.use(key):
            return []
        going = self._going(self.kept_bytes + length_bytes)
        if going is None:
            return None
        for one in going:
            self.drop(one)
        self._places[key] = _Place(length_bytes, lasting)
        self.kept_bytes += length_bytes
        return going

    def _going(self, needed_bytes: int) -> list[Key] | None:
        """Return the blocks to remove; None if there are not enough."""
        over_bytes = needed_bytes - self.capacity_bytes
        going: list[Key] = []
        for lasting in (False, True):
            for key, place in self._places.items():
                if over_bytes <= 0:
                    return going
                if place.lasting == lasting and not self._pins[key]:
                    going.append(key)
                    over_bytes -= place.length_bytes
        return going if over_bytes <= 0 else None

    def pin(self, key: Key) -> None:
        """Keep a block until as many calls of :meth:`unpin` have followed."""
        self._pins[key] += 1

    def unpin(self, key: Key) -> None:
        """See :meth:`pin`."""
        self._pins[key] -= 1
        if not self._pins[key]:
            del self._pins[key]

    def drop(self, key: Key) -> None:
        """Remove a block, if it is kept."""
        place = self._places.pop(key, None)
        if place is not None:
            self.kept_bytes -= place.length_bytes

    def drop_all(self, chosen: Callable[[Key], bool]) -> list[Key]:
        """Remove all chosen blocks, even pinned ones; return their keys."""
        going = [key for key in self._places if chosen(key)]
        for key in going:
            self.drop(key)
        return going
