# SPDX-License-Identifier: Apache-2.0

"""Connections of a program to the desks of a group."""

from __future__ import annotations

import collections
import queue
import select
import threading
import typing
from collections.abc import Iterable

from fpgapool.client import errors
from fpgapool.client.doors import groupdoor
from fpgapool.client.doors import view as views
from fpgapool.client.sessions import blocks
from fpgapool.common.channels import channel
from fpgapool.common.channels import doorbells
from fpgapool.common.channels import rings
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import blocks as references
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

#: How long one attempt to connect may take.
ATTEMPT_S = 10.0

_CLOSE = frames.pack_header(frames.CLOSE)

# Records that are taken from a ring at once, and the longest of them.
_TAKEN_RECORDS = 32
_TAKEN_BYTES = 16 * 1024
# Records that are sent to another host at once, and bytes of all but the last.
_SENT_RECORDS = 32
_SENT_BYTES = 64 * 1024


class Refused(exceptions.CodedError):
    """The desk does not admit this client, or the client not the desk."""


class Wire(typing.Protocol):
    """A connection to a desk that transports records.

    :ivar opened: what the desk said.
    :ivar leads: whether any thread may receive, one at a time; else only that
        of the connection.
    """

    opened: groups.Opened
    leads: bool

    def put(self, *parts: rings.Buffer) -> bool:
        """Send a record; never waits.

        :returns: False if there is no room now.
        :raises channel.ChannelClosed: if the connection is lost.
        :raises rings.RingDamaged: if the desk has broken it.
        """

    def take(self, deadline_s: float | None = None) -> list[bytes]:
        """Wait for records, and return copies of the short ones.

        :returns: none if the next one is long: it is for :meth:`receive`.
        :raises: as :meth:`receive`.
        """

    def receive(self, deadline_s: float | None = None) -> rings.Record | bytes:
        """Wait for a record, which is valid until :meth:`free`.

        :raises channel.ChannelClosed: if the connection is lost.
        :raises channel.DeadlineExceeded: if none comes in time.
        """

    def is_whole(self) -> bool:
        """Whether what was read of the record until now was there.

        If not, the connection is lost.
        """

    def free(self) -> None:
        """Give back the room of the record."""

    def say_goodbye(self) -> None:
        """Tell the desk that this client leaves for good."""

    def shutdown(self) -> None:
        """Wake the thread that receives, for good; from any thread."""

    def close(self) -> None:
        """Close the connection; no thread may be using it."""


@errors.needing_descriptors()
def connect(
    host: groups.Host,
    access: groupdoor.Access,
    door: groupdoor.GroupDoor,
    window_tasks: int,
) -> Wire:
    """Connect to the desk of a host.

    :param host: with its endpoints.
    :param access: of this client.
    :param door: connects to the desk of this host.
    :param window_tasks: how many unanswered tasks the client wants to have.
    :returns: the connection.
    :raises Refused: if the desk does not admit this client, or lacks a
        required TLS.
    :raises errors.TooManyOpenFiles: if descriptors are missing.
    :raises OSError: if no endpoint can be reached.
    :raises frames.ProtocolError: if something else than a desk answers.
    """
    failure: OSError = channel.ChannelClosed("the desk has no endpoint")
    # Shared memory is faster than every network.
    for network, address, port in sorted(
        host.endpoints, key=lambda one: one[0] != views.LOCAL_NETWORK
    ):
        deadline_s = channel.deadline_after(ATTEMPT_S)
        hello = groups.Hello(
            access.group_id,
            access.client_id,
            access.secret,
            groups.SHM if network == views.LOCAL_NETWORK else groups.STREAM,
            window_tasks,
            access.application,
        )
        try:
            if network == views.LOCAL_NETWORK:
                sock = door.connect_local(access, host.host_id)
                return _open_local(
                    channel.PlainChannel(sock), hello, deadline_s
                )
            if host.certificate_sha256 is None and access.require_tls:
                raise Refused(
                    codes.TLS_REQUIRED,
                    f"the desk of host {host.host_id} does not offer TLS"
                    " ([agent] tls is off there); nothing was sent",
                )
            sock = channel.connect_tcp(address, port, deadline_s)
            if host.certificate_sha256 is None:
                return _open_remote(
                    channel.PlainChannel(sock), hello, deadline_s
                )
            return _open_remote(
                tls_channel.TlsChannel.connect(
                    sock, host.certificate_sha256, deadline_s
                ),
                hello,
                deadline_s,
            )
        except OSError as exc:
            failure = exc.with_traceback(None)
    try:
        raise failure
    finally:
        # See errors.FpgapoolError.again().
        del failure


def _open_local(
    sock: channel.PlainChannel, hello: groups.Hello, deadline_s: float | None
) -> Wire:
    fds: list[int] = []
    try:
        _say_hello(sock, hello, deadline_s)
        scratch = bytearray(frames.HEADER_BYTES)
        fds = sock.recv_exact_with_fds(
            memoryview(scratch), rings.CHANNEL_FDS, deadline_s
        )
        opened = _read_opened(sock, scratch, deadline_s)
        try:
            shared = rings.Channel.attach(fds)
        except rings.RingDamaged as exc:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, f"OPENED without rings: {exc}"
            ) from exc
        finally:
            fds = []
        return LocalWire(sock, shared, opened)
    except BaseException:
        channel.close_fds(fds)
        sock.close()
        raise


def _open_remote(
    stream: channel.Channel, hello: groups.Hello, deadline_s: float | None
) -> Wire:
    try:
        _say_hello(stream, hello, deadline_s)
        scratch = bytearray(frames.HEADER_BYTES)
        stream.recv_small_into(memoryview(scratch), deadline_s)
        return RemoteWire(stream, _read_opened(stream, scratch, deadline_s))
    except BaseException:
        stream.close()
        raise


def _say_hello(
    stream: channel.Channel, hello: groups.Hello, deadline_s: float | None
) -> None:
    stream.send(
        frames.encode_frame(
            frames.FrameHeader(frames.HELLO), hello.document()
        ),
        deadline_s=deadline_s,
    )


def _read_opened(
    stream: channel.Channel, scratch: bytearray, deadline_s: float | None
) -> groups.Opened:
    header = frames.FrameHeader.unpack_from(
        scratch, max_data_bytes=frames.MAX_JSON_BYTES
    )
    document = frames.decode_json(
        channel.recv_payload(stream, header, deadline_s)
    )
    if header.type == frames.ERROR:
        raise Refused(
            str(document.get("code", frames.PROTOCOL_ERROR)),
            str(document.get("message", "")),
        )
    if header.type != frames.OPENED:
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR, "the desk did not answer OPENED"
        )
    return groups.Opened.parse(document)


class LocalWire:
    """Rings that this process shares with the desk of its host."""

    leads = True

    def __init__(
        self,
        sock: channel.PlainChannel,
        shared: rings.Channel,
        opened: groups.Opened,
    ) -> None:
        self.opened = opened
        self._sock = sock
        self._shared = shared
        self._poller = select.poll()
        self._poller.register(shared.fileno(), select.POLLIN)
        self._sock_fd = sock.fileno()
        self._poller.register(self._sock_fd, select.POLLIN)
        self.put = shared.put
        self.free = shared.free
        self.is_whole = shared.is_whole

    def take(self, deadline_s: float | None = None) -> list[bytes]:
        shared = self._shared
        try:
            while True:
                taken = shared.take(_TAKEN_RECORDS, _TAKEN_BYTES)
                if taken or shared.get() is not None:
                    return taken
                self._wait(deadline_s)
        except (rings.RingDamaged, doorbells.PeerGone) as exc:
            raise channel.ChannelClosed(str(exc)) from exc

    def receive(self, deadline_s: float | None = None) -> rings.Record:
        try:
            while (record := self._shared.get()) is None:
                self._wait(deadline_s)
            return record
        except (rings.RingDamaged, doorbells.PeerGone) as exc:
            raise channel.ChannelClosed(str(exc)) from exc

    def _wait(self, deadline_s: float | None) -> None:
        """Wait until there may be a record."""
        shared = self._shared
        ready: list[tuple[int, int]] = []
        if shared.arm():
            left_ms = None
            if deadline_s is not None:
                left_s = channel.remaining_s(deadline_s)
                if not left_s:
                    shared.disarm()
                    raise channel.DeadlineExceeded("deadline passed")
                # Rounded up, so that the last millisecond is no busy loop.
                left_ms = int(left_s * 1000) + 1
            ready = self._poller.poll(left_ms)
        shared.disarm()
        for fd, _ in ready:
            if fd == self._sock_fd and shared.get() is None:
                raise channel.ChannelClosed("the desk is gone")

    def say_goodbye(self) -> None:
        self._sock.send(_CLOSE, deadline_s=channel.deadline_after(ATTEMPT_S))

    def shutdown(self) -> None:
        self._sock.shutdown()

    def close(self) -> None:
        self._shared.close()
        self._sock.close()


class RemoteWire:
    """Frames to and from a desk on another host.

    A thread of its own sends, so that putting a record never waits.
    """

    leads = False

    def __init__(self, stream: channel.Channel, opened: groups.Opened) -> None:
        self.opened = opened
        self._stream = stream
        self._reader = groups.ResultReader(opened.max_task_bytes)
        self._scratch = bytearray(frames.HEADER_BYTES)
        self._unsent: queue.SimpleQueue[tuple[rings.Buffer, ...] | None] = (
            queue.SimpleQueue()
        )
        self._sender = threading.Thread(
            target=self._send, name="fpgapool-group-send", daemon=True
        )
        self._sender.start()

    def put(self, *parts: rings.Buffer) -> bool:
        self._unsent.put(parts)
        return True

    def take(self, deadline_s: float | None = None) -> list[bytes]:
        return [self._next(deadline_s)]

    def receive(self, deadline_s: float | None = None) -> bytes:
        return self._next(deadline_s)

    def _next(self, deadline_s: float | None) -> bytes:
        try:
            while True:
                header = channel.recv_header(
                    self._stream,
                    self._scratch,
                    max_data_bytes=self.opened.chunk_bytes,
                )
                payload = channel.recv_payload(self._stream, header)
                record = self._reader.feed(header, payload)
                if record is not None:
                    return record
        except frames.ProtocolError as exc:
            raise channel.ChannelClosed(
                f"the desk sent nonsense: {exc.message}"
            ) from exc

    def is_whole(self) -> bool:
        return True

    def free(self) -> None:
        return

    def say_goodbye(self) -> None:
        self._unsent.put((_CLOSE,))
        self._unsent.put(None)
        self._sender.join(ATTEMPT_S)

    def shutdown(self) -> None:
        self._stream.shutdown()

    def close(self) -> None:
        self._stream.shutdown()
        self._unsent.put(None)
        self._sender.join()
        self._stream.close()

    def _send(self) -> None:
        try:
            while self._send_some():
                pass
        except channel.ChannelClosed:
            # The receiving thread notices it, too.
            self._stream.shutdown()

    def _send_some(self) -> bool:
        """Wait for records, and send them, together if they are short.

        :returns: False if these were the last ones.
        """
        pieces: list[rings.Buffer] = []
        sent_bytes = 0
        last = False
        for _ in range(_SENT_RECORDS):
            parts = self._unsent.get()
            if parts is None:
                last = True
                break
            record = b"".join(parts)
            if parts[0] is _CLOSE:
                pieces.append(record)
            else:
                pieces += groups.task_frames(record, self.opened.chunk_bytes)
            sent_bytes += len(record)
            if sent_bytes >= _SENT_BYTES or self._unsent.empty():
                break
        if pieces:
            self._stream.send(*pieces)
        return not last


def check_blocks(links: Iterable[Link]) -> None:
    """Check that desks know blocks, as far as that is known.

    :raises errors.InvalidRequest: if one does not.
    """
    if not all(link.knows_blocks for link in links):
        raise errors.InvalidRequest(
            codes.INVALID_ARGUMENT, "a desk of the group takes no arguments"
        )


class Lock:
    """A member that serves this client alone.

    :ivar number: at the desk.
    :ivar granted: whether it has a member.
    :ivar refused: hosts that have as many locks as they can have.
    :ivar lost: why it is gone, None while it is held.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.link: Link | None = None
        self.granted = False
        self.refused: set[str] = set()
        self.lost: errors.TaskFailed | None = None


class Task:
    """A task, or a lock, that waits for its answer.

    :ivar kind: ``records.TASK`` or ``groups.LOCK``.
    :ivar number: of the task or the lock, different from all unanswered ones.
    :ivar lock: that it runs under, or that it asks for.
    :ivar out: makes the result of the output, which it must copy.
    :ivar blocks: of its arguments, by number; 0: of its input.
    :ivar brings: numbers of those that a member has missed.
    """

    done = False
    #: Whether no thread receives for it; a link counts such tasks.
    followed = False
    result: typing.Any = None
    error: errors.FpgapoolError | None = None
    #: How many members have died with it.
    losses = 0
    #: Set by a thread that waits for the end.
    finished: threading.Event | None = None
    #: Called at the end with this task.
    notify: typing.Callable[[Task], None] | None = None

    def __init__(
        self,
        kind: int,
        params: bytes = b"",
        data: rings.Buffer = b"",
        offset: int = 0,
        lock: Lock | None = None,
        out: typing.Callable[[rings.Buffer], typing.Any] = bytes,
        blocks: dict[int, blocks.Block] | None = None,
    ) -> None:
        self.blocks = blocks or {}
        self.brings: set[int] = set()
        self.kind = kind
        self.number = 0
        self.params = params
        self.data = data
        self.offset = offset
        self.lock = lock
        self.out = out

    @property
    def size_bytes(self) -> int:
        """Length of parameters and input, should it bring all blocks."""
        size_bytes = len(self.params) + len(self.data)
        if self.blocks:
            count = len(self.blocks)
            size_bytes += references.head_bytes(count)
            size_bytes += sum(map(len, self.blocks.values()))
        return size_bytes

    @property
    def has_arguments(self) -> bool:
        """Whether a desk must know blocks."""
        return any(self.blocks)

    def parts(self, link: Link) -> tuple[rings.Buffer, ...]:
        """Return the record.

        :param link: to the host where it will run.
        """
        if self.kind == groups.LOCK:
            return (records.header(groups.LOCK, self.number),)
        kind, data = records.TASK, self.data
        front: list[rings.Buffer] = []
        if self.blocks and (self.has_arguments or link.knows_blocks):
            kind, front = records.BLOCKS_TASK, link.refer(self)
        elif self.blocks:
            data = self.blocks[0].data
        if self.lock is not None:
            kind |= self.lock.number << groups.KIND_BITS
        return (
            records.header(kind, self.number, len(self.params), self.offset),
            self.params,
            *front,
            data,
        )

    def finish(self, error: errors.FpgapoolError | None = None) -> None:
        """End it, once, with an error or the result that it has.

        Not while a lock is held that its callbacks need.
        """
        if error is not None:
            self.error = error.again()
        self.done = True
        if self.finished is not None:
            self.finished.set()
        if self.notify is not None:
            self.notify(self)


class Link:
    """One host of a group, with its connection if there is one.

    The group's lock guards all members.

    :ivar host: with its number of members.
    :ivar wire: None while there is no connection.
    :ivar unanswered: sent tasks, by kind and number.
    :ivar unsent: tasks for which the rings had no room yet.
    :ivar received: records that the desk sent, to be handled.
    :ivar led: whether a thread receives.
    :ivar followed: how many of the unanswered tasks have no thread that
        receives for them.
    :ivar broken: whether the connection was lost.
    :ivar listed: whether the group still has this host.
    :ivar locked: whether locks have all its members: other tasks wait there.
    :ivar wanted: whether it is used; also an unlisted one, while a member of
        it is locked.
    :ivar stale_locks: numbers of locks that the desk still has to hear are
        over.
    """

    def __init__(self, host: groups.Host, lock: threading.Lock) -> None:
        self.host = host
        self.wire: Wire | None = None
        self.unanswered: dict[tuple[int, int], Task] = {}
        self.unsent: collections.deque[tuple[rings.Buffer, ...]] = (
            collections.deque()
        )
        self.received: collections.deque[bytes] = collections.deque()
        self.led = False
        self.followed = 0
        self.broken = False
        self.listed = True
        self.locked = False
        self.wanted = True
        self.stale_locks: set[int] = set()
        # The blocks that its members may have.
        self._there: references.Shelf[references.Reference] = references.Shelf(
            0
        )
        self.changed = threading.Condition(lock)
        self.thread: threading.Thread | None = None

    def load(self, task: Task) -> tuple[bool, float, str]:
        """Sort key: the best host for one more task is first.

        If it lacks the longest block of the task, that counts as much as a
        task for each member.
        """
        load = (len(self.unanswered) + 1) / self.host.members
        if task.blocks:
            longest = max(task.blocks.values(), key=len)
            load += longest.reference not in self._there
        return self.locked, load, self.host.host_id

    @property
    def knows_blocks(self) -> bool:
        """Whether its desk takes blocks and arguments, as far as is known."""
        return self.wire is None or self.wire.opened.cache_bytes is not None

    def has_room(self) -> bool:
        """Whether one more task may be sent."""
        return (
            self.wire is not None
            and not self.broken
            and self.host.members > 0
            and len(self.unanswered) < self.wire.opened.window_tasks
        )

    def refer(self, task: Task) -> list[rings.Buffer]:
        """Return references to the blocks of a task, with new blocks."""
        parts = []
        for number, block in task.blocks.items():
            reference = block.reference
            there = self._there.use(reference) and number not in task.brings
            if not there:
                self._there.add(reference, len(block), bool(number))
            parts.append(
                references.Part(
                    reference._replace(argument=number),
                    None if there else block.data,
                )
            )
        return references.encode_parts(parts)

    def connected(self, wire: Wire) -> None:
        """Use a new connection."""
        self.wire = wire
        cache_bytes = wire.opened.cache_bytes or 0
        # Each block is in one member at least.
        self._there = references.Shelf(cache_bytes * self.host.members)

    def missed(self, task: Task, numbers: object) -> None:
        """Let a task bring the blocks along that its member lacked.

        :param numbers: of the arguments, as the desk says.
        :raises frames.ProtocolError: if it brought them already.
        """
        if not isinstance(numbers, list):
            numbers = []
        fresh = {*task.blocks} & {*numbers} - task.brings
        if not fresh:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "a member misses data that it got"
            )
        task.brings |= fresh

    def give_up(self) -> None:
        """Lose the connection, so that its tasks go elsewhere."""
        if self.wire is not None:
            self.broken = True
            self.wire.shutdown()

    def follow(self) -> None:
        """Let the link's own thread receive, for one task more."""
        self.followed += 1
        if not self.led:
            self.changed.notify_all()

    def send(self, *parts: rings.Buffer) -> None:
        """Send a record, later if there is no room."""
        if self.unsent or not self._put(parts):
            self.unsent.append(parts)

    def flush(self) -> None:
        """Send what had no room."""
        while self.unsent and self._put(self.unsent[0]):
            self.unsent.popleft()

    def _put(self, parts: tuple[rings.Buffer, ...]) -> bool:
        if self.wire is None or self.broken:
            return False
        try:
            return self.wire.put(*parts)
        except (channel.ChannelClosed, rings.RingDamaged):
            self.broken = True
            self.changed.notify_all()
            return False
