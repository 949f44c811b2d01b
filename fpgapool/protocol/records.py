# SPDX-License-Identifier: Apache-2.0

"""The records between a group's desk and the workers of its members.

A record goes through a ring of shared memory, whole: a header of 24 bytes,
little-endian, a short middle and a long rest. To a member::

    task_id: u64, kind: u32, params_bytes: u32, offset: u64, params, input

and from a member::

    task_id: u64, kind: u32, detail_bytes: u32, busy_ns: u64, detail, output

``params`` are those of a session, in JSON; ``offset`` is the position of the
input in a stateless accelerator's stream. ``detail`` is JSON: ``code`` and
``message`` of a failure, ``device``, ``slot`` and ``generation`` of a member
that is ready. ``busy_ns`` is how long the core computed.

A member connects to its desk's socket for members and sends nothing there. The
desk answers with one byte and the descriptors of a channel, and the member
puts ``READY`` into it. The channel ends with the connection: the member clears
its slot, forgets everything and connects again, and the desk gives a task that
has no result to another member.
"""

from __future__ import annotations

import struct
import typing

from fpgapool.protocol import frames
from fpgapool.vocabulary import group

# To a member.
#: Run a task.
TASK = 1
#: Remove everything of the last client; answered with ``CLEARED`` when
#: the desk has freed all results, which are wiped, too. Blocks of the project
#: in the middle, the next client's, stay.
CLEAR = 2
#: Leave the group after this; answered with ``LEFT``.
STOP = 3
#: The tasks that follow, until ``CLEAR``, have a lock: the core may keep its
#: state between them.
KEEP = 4
#: Run a task whose input begins with references to blocks; see
#: :mod:`fpgapool.protocol.blocks`.
BLOCKS_TASK = 5
#: The blocks of the tasks that follow, until ``CLEAR``, are those of this
#: project, the middle, and application, the rest.
SCOPE = 7

# From a member.
#: The task's output follows.
DONE = 1
#: The task failed; the member is fit for the next one.
FAILED = 2
#: The member awaits its first task.
READY = 3
CLEARED = 4
LEFT = 5
#: The member lacks blocks of a task; ``arguments`` in the detail has their
#: numbers. The task must be sent again, with them.
MISS = frames.MISS

_HEADER = struct.Struct("<QIIQ")
HEADER_BYTES = _HEADER.size
_unpack = _HEADER.unpack_from

#: Size of a ring, in both directions. A record may take half a ring, so that
#: one can be read while the next is written.
RING_BYTES = 4 * (group.MAX_TASK_BYTES + frames.MAX_JSON_BYTES)


class InPlace(typing.Protocol):
    """A record in memory that its writer may be changing.

    See :class:`fpgapool.common.channels.rings.Record`.
    """

    def view(self) -> memoryview: ...


class Record(typing.NamedTuple):
    """A record, taken apart.

    :ivar task_id: 0 if it is about no task.
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
    """Return the header of a record.

    :param middle_bytes: length of ``params`` or ``detail``.
    """
    return _HEADER.pack(task_id, kind, middle_bytes, number)


def head(record: bytes) -> tuple[int, int, int, int]:
    """Return the header of a record. Reads each of its bytes once.

    :returns: task id, kind, length of the middle, and number.
    """
    try:
        return _unpack(record)
    except struct.error:
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            f"a record of {len(record)} bytes has no header",
        ) from None


def split(record: bytes | InPlace) -> Record:
    """Take a record apart. Copies all but its rest, once."""
    memory = memoryview(record) if isinstance(record, bytes) else record.view()
    task_id, kind, middle_bytes, number = head(bytes(memory[:HEADER_BYTES]))
    rest = HEADER_BYTES + middle_bytes
    if rest > len(memory):
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            f"{middle_bytes} bytes in the middle exceed a record of"
            f" {len(memory)}",
        )
    middle = bytes(memory[HEADER_BYTES:rest]) if middle_bytes else b""
    return Record(task_id, kind, number, middle, memory[rest:])
