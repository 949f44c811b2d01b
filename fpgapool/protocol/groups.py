# SPDX-License-Identifier: Apache-2.0

"""What a group's clients and its desk exchange.

On one host, they exchange records through rings in shared memory. The records
have the same header as those between desk and members
(:mod:`fpgapool.protocol.records`), so the desk passes them on unchanged; some
kinds occur only here. Across hosts, the same records are sent as frames:
:class:`TaskReader` and :class:`ResultReader` convert frames to records;
:func:`task_frames` and :func:`result_frames` convert records to frames.
"""

from __future__ import annotations

import collections.abc
import typing

from fpgapool.protocol import frames
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

#: Transports of a connection.
SHM = "shm"
STREAM = "stream"

#: Default and maximum number of a client's unanswered tasks at one desk.
WINDOW_TASKS = 256
MAX_WINDOW_TASKS = 4096
#: Maximum length of a piece of a task's input or output in one frame.
CHUNK_BYTES = 256 * 1024

# Kinds of records in addition to those of members. The upper 24 bits of a
# task's kind are the number of its lock.
LOCK = frames.LOCK
LOCKED = frames.LOCKED
UNLOCK = frames.UNLOCK
MEMBERS = frames.MEMBERS
#: Replaces a task whose input was too long to keep.
TOO_LARGE = 6

KIND_BITS = 8
KIND_MASK = (1 << KIND_BITS) - 1
MAX_LOCK_ID = (1 << 24) - 1

#: Maximum length of an application's name.
MAX_APPLICATION = 255

_MAX_HOSTS = 1024


class Hello(typing.NamedTuple):
    """A client's first message to a desk.

    :ivar window_tasks: requested maximum number of unanswered tasks.
    :ivar application: application whose clients share blocks; empty: none.
    """

    group_id: str
    client_id: str
    secret: str
    transport: str
    window_tasks: int
    application: str = ""

    def __repr__(self) -> str:
        # The secret must not appear in a log.
        return f"Hello(client_id={self.client_id!r})"

    def document(self) -> dict[str, object]:
        """Return the payload of a HELLO frame."""
        return {"features": [frames.GROUPS_FEATURE], **self._asdict()}

    @classmethod
    def parse(
        cls, document: collections.abc.Mapping[str, typing.Any]
    ) -> Hello:
        """Check the payload of a HELLO frame."""
        if frames.GROUPS_FEATURE not in frames.features(document):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "this is a group's desk; the client must announce the feature"
                f" {frames.GROUPS_FEATURE!r}",
            )
        return cls(**frames.checked(_HELLO, document))


class Opened(typing.NamedTuple):
    """The desk's answer.

    :ivar window_tasks: maximum number of unanswered tasks of the client.
    :ivar max_task_bytes: maximum length of a task's input and of its output.
    :ivar chunk_bytes: maximum length of a piece in one frame.
    :ivar resume_grace_s: how long locks survive without a connection.
    :ivar cache_bytes: each member's memory for blocks; None: the desk does not
        support blocks.
    """

    window_tasks: int
    max_task_bytes: int
    chunk_bytes: int
    resume_grace_s: float
    cache_bytes: int | None = None

    def document(self) -> dict[str, object]:
        """Return the payload of an OPENED frame."""
        features = [frames.GROUPS_FEATURE]
        document = self._asdict()
        if self.cache_bytes is None:
            del document["cache_bytes"]
        else:
            features.append(frames.BLOCKS_FEATURE)
        return {"features": features, **document}

    @classmethod
    def parse(
        cls, document: collections.abc.Mapping[str, typing.Any]
    ) -> Opened:
        """Check the payload of an OPENED frame."""
        opened = frames.checked(_OPENED, document)
        if frames.BLOCKS_FEATURE in frames.features(document):
            opened |= frames.checked(_CACHE, document)
        return cls(**opened)


class Host(typing.NamedTuple):
    """A host with members of a group.

    :ivar host_id: identifies the host; equally suitable hosts are ordered by
        it.
    :ivar members: number of members on the host.
    :ivar endpoints: where its desk listens, as in a session's view.
    :ivar certificate_sha256: digest of its desk's certificate, if TLS is used.
    """

    host_id: str
    members: int
    endpoints: tuple[tuple[str, str, int], ...]
    certificate_sha256: str | None = None

    def document(self) -> dict[str, object]:
        """Return an entry of ``hosts`` in a MEMBERS frame."""
        return {
            "host_id": self.host_id,
            "members": self.members,
            "endpoints": [
                {"network": network, "address": address, "port": port}
                for network, address, port in self.endpoints
            ],
            "certificate_sha256": self.certificate_sha256,
        }


def _endpoint(value: object, where: str) -> tuple[str, str, int]:
    found = _ENDPOINT(value, where)
    return found["network"], found["address"], found["port"]


def _host(value: object, where: str) -> Host:
    found = _HOST(value, where)
    return Host(**{**found, "endpoints": tuple(found["endpoints"])})


class MemberList(typing.NamedTuple):
    """The hosts of a group, as many as fit into a message.

    :ivar hosts_total: how many there are; 0: as many as in ``hosts``.
    """

    revision: int
    hosts: tuple[Host, ...]
    hosts_total: int = 0

    def document(self) -> dict[str, object]:
        """Return the payload of a MEMBERS frame."""
        return {
            "revision": self.revision,
            "hosts": [host.document() for host in self.hosts],
            "hosts_total": self.hosts_total,
        }

    @classmethod
    def parse(
        cls, document: collections.abc.Mapping[str, typing.Any]
    ) -> MemberList:
        """Check the payload of a MEMBERS frame."""
        found = frames.checked(_MEMBERS, document)
        total = found.get("hosts_total", 0)
        return cls(found["revision"], tuple(found["hosts"]), total)


_TEXT = shapes.text()
_NATURAL = shapes.integer(0, 2**31 - 1)
#: Number of tasks that a client may send before it must wait for answers.
WINDOW = shapes.integer(1, MAX_WINDOW_TASKS)
#: Name of the client's program, chosen by the client.
APPLICATION = shapes.text(MAX_APPLICATION, printable=True)
_HELLO = shapes.Members(
    {
        "group_id": _TEXT,
        "client_id": _TEXT,
        "secret": _TEXT,
        "transport": shapes.one_of((SHM, STREAM)),
        "window_tasks": WINDOW,
    },
    {"application": APPLICATION},
    others=True,
)
_OPENED = shapes.Members(
    {
        "window_tasks": WINDOW,
        "max_task_bytes": shapes.integer(1, 2**31 - 1),
        "chunk_bytes": shapes.integer(1, frames.MAX_DATA_BYTES),
        "resume_grace_s": shapes.number(0, 999_999_999),
    },
    others=True,
)
_CACHE = shapes.Members({"cache_bytes": frames.OFFSET}, others=True)
_ENDPOINT = shapes.Members(
    {
        "network": _TEXT,
        "address": _TEXT,
        "port": shapes.integer(0, 2**16 - 1),
    },
    others=True,
)
_HOST = shapes.Members(
    {
        "host_id": _TEXT,
        "members": _NATURAL,
        "endpoints": shapes.list_of(_endpoint),
    },
    {"certificate_sha256": shapes.nullable(_TEXT)},
    others=True,
)
_MEMBERS = shapes.Members(
    {
        "revision": frames.OFFSET,
        "hosts": shapes.list_of(_host, most=_MAX_HOSTS),
    },
    {"hosts_total": _NATURAL},
    others=True,
)


class TaskReader:
    """Converts a client's frames to records."""

    def __init__(self, max_task_bytes: int) -> None:
        self._max_task_bytes = max_task_bytes
        # The incomplete task.
        self._task_id: int | None = None
        self._kind = records.TASK
        self._params: frames.Buffer = b""
        self._lock_id = 0
        self._start = 0
        self._pieces: list[frames.Buffer] = []
        self._input_bytes = 0
        self._has_input = False

    def feed(
        self, header: frames.FrameHeader, payload: frames.Buffer
    ) -> bytes | None:
        """Read a frame.

        :param payload: its payload, kept until its task is complete.
        :returns: a record; None if the task is not complete.
        """
        kind = header.type
        if header.stream_id:
            raise frames.ProtocolError(
                codes.STREAM_LIMIT, "only stream 0 is allowed"
            )
        if kind == frames.INPUT:
            return self._input(header, payload)
        if self._task_id is not None:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the input of a task is incomplete"
            )
        if kind == frames.TASK_PARAMS:
            self._task_id = header.task_id
            self._params = payload
            return None
        if kind in (frames.LOCK, frames.UNLOCK):
            if not 0 < header.task_id <= MAX_LOCK_ID:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    f"the lock's number must be from 1 to {MAX_LOCK_ID}",
                )
            return records.header(kind, header.task_id)
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            f"a frame of type {kind} is not allowed here",
        )

    def _input(
        self, header: frames.FrameHeader, payload: frames.Buffer
    ) -> bytes | None:
        if header.flags & frames.SHM:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "this connection has no shared buffers"
            )
        if self._task_id not in (None, header.task_id):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the input of a task is incomplete"
            )
        if not self._has_input:
            self._has_input = True
            self._task_id = header.task_id
            self._start = header.offset_bytes
            self._lock_id = header.aux
            if header.flags & frames.BLOCK:
                self._kind = records.BLOCKS_TASK
        if (
            header.offset_bytes != self._start + self._input_bytes
            or header.aux != self._lock_id
            or header.aux > MAX_LOCK_ID
        ):
            raise frames.ProtocolError(
                codes.BAD_OFFSET,
                "a piece of input does not follow the previous one",
            )
        self._input_bytes += len(payload)
        if self._input_bytes + len(self._params) <= self._max_task_bytes:
            self._pieces.append(payload)
        else:
            self._pieces.clear()
        if header.flags & frames.TASK_MORE:
            return None
        return self._complete()

    def _complete(self) -> bytes:
        task_id, params = self._task_id or 0, self._params
        if self._input_bytes + len(params) > self._max_task_bytes:
            record = records.header(TOO_LARGE, task_id)
        else:
            kind = self._kind | self._lock_id << KIND_BITS
            record = b"".join(
                (
                    records.header(kind, task_id, len(params), self._start),
                    params,
                    *self._pieces,
                )
            )
        self._task_id = None
        self._kind = records.TASK
        self._params = b""
        self._pieces = []
        self._input_bytes = 0
        self._has_input = False
        return record


class ResultReader:
    """Converts a desk's frames to records."""

    def __init__(self, max_task_bytes: int) -> None:
        self._max_task_bytes = max_task_bytes
        self._task_id: int | None = None
        self._pieces: list[frames.Buffer] = []
        self._output_bytes = 0

    def feed(
        self, header: frames.FrameHeader, payload: frames.Buffer
    ) -> bytes | None:
        """Read a frame.

        :param header: its header; not an ERROR about the whole connection.
        :param payload: its payload, kept until its task is complete.
        :returns: a record; None if the task is not complete.
        """
        kind = header.type
        if kind == frames.OUTPUT:
            return self._output(header, payload)
        if kind == frames.ERROR:
            return (
                records.header(records.FAILED, header.task_id, len(payload))
                + payload
            )
        if kind in (frames.LOCKED, frames.UNLOCK, frames.MEMBERS, frames.MISS):
            return records.header(kind, header.task_id, len(payload)) + payload
        if header.optional:
            return None
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            f"a frame of type {kind} is not allowed here",
        )

    def _output(
        self, header: frames.FrameHeader, payload: frames.Buffer
    ) -> bytes | None:
        if (
            header.flags & frames.SHM
            or self._task_id not in (None, header.task_id)
            or header.offset_bytes != self._output_bytes
        ):
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "a piece of output does not follow the previous one",
            )
        self._task_id = header.task_id
        self._output_bytes += len(payload)
        if self._output_bytes > self._max_task_bytes:
            raise frames.ProtocolError(
                frames.FRAME_TOO_LARGE,
                "the output of a task is larger than the limit of"
                f" {self._max_task_bytes} bytes",
            )
        self._pieces.append(payload)
        if not header.flags & frames.TASK_END:
            return None
        record = b"".join(
            (records.header(records.DONE, header.task_id), *self._pieces)
        )
        self._task_id = None
        self._pieces = []
        self._output_bytes = 0
        return record


def task_frames(
    record: bytes, chunk_bytes: int
) -> collections.abc.Iterator[frames.Buffer]:
    """Convert a client's record about a task or a lock to frames."""
    task_id, kind, offset, params, data = records.split(record)
    if kind & KIND_MASK not in (records.TASK, records.BLOCKS_TASK):
        yield frames.pack_header(kind, task_id=task_id)
        return
    if params:
        yield frames.pack_header(
            frames.TASK_PARAMS,
            task_id=task_id,
            payload_length_bytes=len(params),
        )
        yield params
    begins = kind & KIND_MASK == records.BLOCKS_TASK and frames.BLOCK
    # A task without input still has one piece.
    for start in range(0, max(1, len(data)), chunk_bytes):
        piece = data[start : start + chunk_bytes]
        more = start + chunk_bytes < len(data)
        yield frames.pack_header(
            frames.INPUT,
            begins | (frames.TASK_MORE if more else 0),
            task_id=task_id,
            offset_bytes=offset + start,
            payload_length_bytes=len(piece),
            aux=kind >> KIND_BITS,
        )
        yield piece


def result_frames(
    record: bytes, chunk_bytes: int
) -> collections.abc.Iterator[frames.Buffer]:
    """Convert a desk's record about a result, lock or members to frames."""
    task_id, kind, _, detail, data = records.split(record)
    if kind == records.DONE:
        for start in range(0, max(1, len(data)), chunk_bytes):
            piece = data[start : start + chunk_bytes]
            last = start + chunk_bytes >= len(data)
            yield frames.pack_header(
                frames.OUTPUT,
                frames.TASK_END if last else 0,
                task_id=task_id,
                offset_bytes=start,
                payload_length_bytes=len(piece),
            )
            yield piece
        return
    yield frames.pack_header(
        frames.ERROR if kind == records.FAILED else kind,
        task_id=task_id,
        payload_length_bytes=len(detail),
    )
    yield detail
