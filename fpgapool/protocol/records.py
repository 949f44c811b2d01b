# SPDX-License-Identifier: Apache-2.0

"""Records between a group's desk and the workers of its members.

Each record is written in one piece to a ring in shared memory: a little-endian
header of 24 bytes, a short middle and a long rest. To a member::

    task_id: u64, kind: u32, params_bytes: u32, offset: u64, params, input

and from a member::

    task_id: u64, kind: u32, detail_bytes: u32, busy_ns: u64, detail, output

``params`` are the accelerator's parameters, in JSON; ``offset`` is the
position of the input in a stateless accelerator's stream. ``detail`` is JSON:
``code`` and ``message`` of a failure; ``device``, ``slot`` and ``generation``
of a member that is ready. ``busy_ns`` is the time for which the core computed.

A member's agent connects to its desk's socket for members, says which slot it
is, and passes the connection on. The desk answers with one byte and the
descriptors of a channel, to which the member writes ``READY``. The channel
ends with the connection: the member then clears its slot, forgets everything
and asks for another one, and the desk gives any task without a result to
another member.
"""

from __future__ import annotations

import struct
import typing

from fpgapool.protocol import frames
from fpgapool.vocabulary import group

# To a member.
#: Run a task.
TASK = 1
#: Remove all data of the last client, including its results; answered with
#: ``CLEARED`` once the desk has freed these. The middle names the next
#: client's project, whose blocks are kept.
CLEAR = 2
#: Leave the group; answered with ``LEFT``.
STOP = 3
#: Until ``CLEAR``, the following tasks hold a lock, so the core may keep its
#: state between them.
KEEP = 4
#: Run a task whose input begins with references to blocks; see
#: :mod:`fpgapool.protocol.blocks`.
BLOCKS_TASK = 5
#: Until ``CLEAR``, the following tasks use the blocks of the project in the
#: middle and the application in the rest.
SCOPE = 7

# From a member.
#: The task's output follows.
DONE = 1
#: The task failed; the member can run the next one.
FAILED = 2
#: The member is waiting for its first task.
READY = 3
CLEARED = 4
LEFT = 5
#: The member lacks blocks of a task; ``arguments`` in the detail lists their
#: numbers. The task must be resent with these blocks.
MISS = frames.MISS

_HEADER = struct.Struct("<QIIQ")
HEADER_BYTES = _HEADER.size
_unpack = _HEADER.unpack_from

#: Size of a ring in each direction. A record may take up to half a ring, so
#: that one record can be read while the next is written.
RING_BYTES = 4 * (group.MAX_TASK_BYTES + frames.MAX_JSON_BYTES)


class InPlace(typing.Protocol):
    """A record in memory that its writer may be changing.

    See :class:`fpgapool.common.channels.rings.Record`.
    """

    def view(self) -> memoryview: ...


class Record(typing.NamedTuple):
    """A decoded record.

    :ivar task_id: number of its task; 0 if it concerns no task.
    :ivar number: ``offset`` or ``busy_ns``.
    :ivar middle: ``params`` or ``detail``.
    :ivar rest: ``input`` or ``output``, in place.
    """

    task_id: int
    kind: int
    number: int
    middle: bytes
    rest: memoryview


def header(
    kind: int, task_id: int = 0, middle_bytes: int = 0, number: int = 0
) -> bytes:
    """Encode a record's header; the middle is ``params`` or ``detail``."""
    return _HEADER.pack(task_id, kind, middle_bytes, number)


def head(record: bytes) -> tuple[int, int, int, int]:
    """Decode the header of a record, reading each byte only once.

    :returns: task ID, kind, length of the middle, and number.
    """
    try:
        return _unpack(record)
    except struct.error:
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            f"a record of {len(record)} bytes is too short for a header",
        ) from None


def split(record: bytes | InPlace) -> Record:
    """Decode a record; everything but its rest is copied, once."""
    memory = memoryview(record) if isinstance(record, bytes) else record.view()
    task_id, kind, middle_bytes, number = head(bytes(memory[:HEADER_BYTES]))
    rest = HEADER_BYTES + middle_bytes
    if rest > len(memory):
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            f"a middle of {middle_bytes} bytes does not fit in a record of"
            f" {len(memory)} bytes",
        )
    middle = bytes(memory[HEADER_BYTES:rest]) if middle_bytes else b""
    return Record(task_id, kind, number, middle, memory[rest:])
