# SPDX-License-Identifier: Apache-2.0

"""The desk's ends of channels to clients and members.

Everything runs in the loop's thread, except parts of :class:`Mailbox`, the
channel of a client on another host, whose frames two threads send and receive.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import typing
from collections.abc import Callable

from fpgapool.agent.groupdesk import accounts
from fpgapool.agent.groupdesk.decisions import holding
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import doorbells
from fpgapool.common.channels import rings
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import blocks
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

LOG = ratelimit.RateLimitedLog(__name__)

#: Time in which a member that has released its task must send the result.
ANSWER_S = 1.0

_RESULTS = frozenset({records.DONE, records.FAILED, records.MISS})

# Maximum number of records that a port handles in one turn.
_BATCH = 8
# Limits for batched results: their number, and the length of each.
_LATE_RESULTS = 32
_LATE_BYTES = 4096
# Results of tasks that take longer than this are sent immediately.
_SHORT_NS = 100_000
# Maximum number of records that wait for room in a client's ring: the answers
# to a full window of tasks, and as many notifications.
_MOST_PUT_OFF = 2 * groups.MAX_WINDOW_TASKS
# Maximum number of records that are sent together to a client on another host.
_MAILED_RECORDS = 32
#: Tasks longer than this are copied only once, and not kept while they run.
KEPT_BYTES = 64 * 1024
#: Limit in bytes, in each direction, for records that wait in a mailbox. While
#: a client does not receive its results, its tasks do not start.
_MAX_MAIL_BYTES = 8 * 1024 * 1024

_LONG_BYTES = KEPT_BYTES + records.HEADER_BYTES
# Memory that a waiting task uses in addition to its parameters and input.
_KEPT_TASK_BYTES = records.HEADER_BYTES + accounts.TASK_BYTES

#: A record for a member. It has one part if it was copied; otherwise, its last
#: part is still in the client's ring, where the client may change it.
Payload: typing.TypeAlias = tuple[rings.Buffer, ...]


_KEEP = records.header(records.KEEP)
_STOP = records.header(records.STOP)


def _there(channel: Channel) -> rings.Record | bytes:
    """Return the oldest record of a channel that has one."""
    record = channel.get()
    if record is None:
        raise rings.RingDamaged("a record has disappeared from the ring")
    return record


class ClientPort:
    """A connected client.

    :param shutdown: ends the client's connection; any thread may call it.
    :param failed: called with this port and the reason to end the connection.
    """

    client: model.Client
    account: accounts.Account

    def __init__(
        self,
        client_id: str,
        channel: Channel,
        shutdown: Callable[[], None],
        desk_queues: queues.Queues,
        decide: Callable[[float], None],
        failed: Callable[[ClientPort, str], None],
    ) -> None:
        self.client_id = client_id
        self.shutdown = shutdown
        self.closed = False
        self._channel = channel
        self._is_empty = channel.is_empty
        self._queues = desk_queues
        self._decide = decide
        self._failed = failed
        # Records for which the channel has no room. While there are any, the
        # client's tasks do not start.
        self._outbox: collections.deque[bytes] = collections.deque()
        self._late: list[bytes] = []
        self._waiting_bytes = 0

    def fileno(self) -> int:
        return self._channel.fileno()

    def arm(self) -> bool:
        if self._outbox:
            try:
                return self._channel.arm(len(self._outbox[0]))
            except rings.RingDamaged:
                # The next round drops this client.
                return False
        if not self.may_read:
            # The end of one of the project's tasks wakes this port.
            self.account.stalled.add(self)
            return True
        return self._channel.arm()

    @property
    def may_read(self) -> bool:
        if self.account.waiting_bytes <= accounts.MAX_WAITING_BYTES:
            return True
        # The project's other tasks may be waiting for this client to unlock.
        return bool(self.client.locks) and not self._waiting_bytes

    def disarm(self) -> None:
        try:
            self._channel.disarm()
        except doorbells.PeerGone:
            self.shutdown()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._channel.close()

    def leave(self) -> None:
        """Forget the client's tasks and batched results."""
        self._late.clear()
        self.account.stalled.discard(self)
        self._keep(-self._waiting_bytes)

    def work(self, now: float) -> bool:
        if self.closed:
            return False
        try:
            return self._work(now)
        except (frames.ProtocolError, rings.RingDamaged) as exc:
            LOG.warning("client dropped: %s", exc)
            self._failed(self, str(exc))
            return True
        except MemoryError:
            LOG.warning("client dropped: no memory for its task")
            self._failed(self, "the group's desk has no memory for the task")
            return True

    def _work(self, now: float) -> bool:
        if self._outbox:
            # This counts as work, because the client's tasks may start again.
            return self._flush()
        if self._is_empty() or not self.may_read:
            return False
        taken = self._channel.take(_BATCH, _LONG_BYTES)
        if not taken:
            # A long record is read in place.
            self._take(records.split(_there(self._channel)), now)
            if not self.closed:
                self._channel.free()
            return True
        # Most tasks pass through this loop, so look up each name only once.
        submit, client = self._queues.submit, self.client
        head, task = records.head, records.TASK
        waiting_bytes = 0
        for one in taken:
            task_id, kind, params_bytes, _ = head(one)
            length_bytes = len(one) - records.HEADER_BYTES
            if params_bytes > length_bytes:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    "the task's parameters are longer than its record",
                )
            if kind == task:
                waiting_bytes += length_bytes + _KEPT_TASK_BYTES
                input_bytes = length_bytes - params_bytes
                submit(client, task_id, (one,), length_bytes, input_bytes, now)
            else:
                self._take(records.split(one), now)
                if self.closed:
                    return True
        self._keep(waiting_bytes)
        return True

    def _take(self, record: records.Record, now: float) -> None:
        task_id = record.task_id
        kind = record.kind & groups.KIND_MASK
        if kind == groups.LOCK:
            self._queues.locks.lock(self.client, task_id, now)
        elif kind == groups.UNLOCK:
            self._queues.locks.unlock(self.client, task_id, now)
        elif kind == groups.TOO_LARGE:
            self.fail_task(task_id, codes.TASK_TOO_LARGE)
        elif kind == records.TASK:
            rest = record.rest
            self._take_task(record, kind, now, rest, input_bytes=len(rest))
        elif kind == records.BLOCKS_TASK:
            scope = self.client.scope
            found = blocks.referred(record.rest)
            keys = tuple(holding.Key(*scope, *one) for one in found.blocks)
            rest = record.rest[len(found.front) :]
            self._take_task(
                *(record, kind, now, found.front, rest),
                # The member has not checked the lengths yet.
                input_bytes=min(
                    max(found.input_bytes, 0), group.MAX_TASK_BYTES
                ),
                keys=keys,
            )
        else:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, f"unknown record kind {record.kind}"
            )

    def _take_task(
        self,
        record: records.Record,
        kind: int,
        now: float,
        *data: rings.Buffer,
        input_bytes: int,
        keys: tuple[holding.Key, ...] = (),
    ) -> None:
        """Accept a task that is long, uses a lock, or refers to blocks."""
        # The client may change the record at any time, so everything except
        # the last part of the data is copied.
        middle = record.middle
        head = records.header(kind, record.task_id, len(middle), record.number)
        parts: Payload = (head, middle, *data)
        task = self._queues.submit(
            self.client,
            record.task_id,
            parts,
            len(middle) + sum(map(len, data)),
            input_bytes,
            now,
            record.kind >> groups.KIND_BITS,
            keys,
        )
        # If a member is free, it gets the task directly from the client's
        # ring.
        self._decide(now)
        if task.payload is parts and not self.closed:
            kept = b"".join(parts)
            task.payload = (kept,)
            self._keep(len(kept) + accounts.TASK_BYTES)

    def _keep(self, count_bytes: int) -> None:
        """Add a number, possibly negative, to the waiting bytes."""
        self._waiting_bytes += count_bytes
        account = self.account
        account.waiting_bytes += count_bytes
        if account.stalled:
            account.wake_readers()

    def answered(self, task: model.Task) -> None:
        payload, task.payload = task.payload, None
        if payload is not None and len(payload) == 1:
            # The same as _keep(), inlined because it runs for each task.
            count_bytes = len(payload[0]) + accounts.TASK_BYTES
            self._waiting_bytes -= count_bytes
            account = self.account
            account.waiting_bytes -= count_bytes
            if account.stalled:
                account.wake_readers()

    def fail_task(self, task_id: int, code: str) -> None:
        detail = frames.encode_json({"code": code, "message": _TEXTS[code]})
        self.send(
            records.header(records.FAILED, task_id, len(detail)) + detail
        )

    def notify(
        self, kind: int, number: int, document: dict[str, object] | None = None
    ) -> None:
        """Send a record that belongs to no task."""
        detail = b"" if document is None else frames.encode_json(document)
        self.send(records.header(kind, number, len(detail)) + detail)

    def send_result(self, busy_ns: int, *parts: rings.Buffer) -> bool:
        """Send a result immediately or in a batch.

        A client with many waiting tasks is not woken for each result: the
        number of batched results may reach a quarter of its waiting tasks.

        :param parts: parts of the result's record; only one if it is short.
        :returns: whether the result waits for :meth:`send_late`.
        """
        # With fewer than eight waiting tasks, each result is sent immediately,
        # so that a program that waits for each single result is never delayed.
        # With more, a result may be delayed by up to 5 ms if the next tasks
        # are long, or wait for long ones; compared with these, the delay is
        # short. Sending whenever the loop is about to sleep would wake the
        # program for each result while members are the bottleneck.
        late = self._late
        most = min(self.client.counts.waiting // 4, _LATE_RESULTS)
        if busy_ns > _SHORT_NS or len(parts) > 1:
            most = 0
        if not late and not most:
            self.send(*parts)
            return False
        late.append(b"".join(parts))
        if len(late) < most:
            return True
        self.send_late()
        return False

    def send_late(self) -> None:
        late, self._late = self._late, []
        if late and not self.closed:
            self._send_all(late)

    def _send_all(self, results: list[bytes]) -> None:
        try:
            sent = 0 if self._outbox else self._channel.put_all(results)
        except rings.RingDamaged as exc:
            self._failed(self, str(exc))
            return
        if sent < len(results):
            self._put_off(results[sent:])

    def send(self, *parts: rings.Buffer) -> None:
        try:
            if not self._outbox and self._channel.put(*parts):
                return
        except rings.RingDamaged as exc:
            self._failed(self, str(exc))
            return
        self._put_off([b"".join(parts)])

    def _put_off(self, results: list[bytes]) -> None:
        self._outbox.extend(results)
        if len(self._outbox) > _MOST_PUT_OFF:
            # Even the answers to all of its tasks would be fewer.
            self._failed(self, "the client does not read its results")
            return
        self._queues.pause(self.client)
        # This port may be asleep until the client sends records; wake it, so
        # that it waits for room instead.
        self.account.wake(self)

    def _flush(self) -> bool:
        while self._outbox:
            if not self._channel.put(self._outbox[0]):
                return False
            self._outbox.popleft()
        self._queues.resume(self.client)
        return True


_TEXTS = {
    codes.ACCESS_REVOKED: "the client's access was revoked",
    codes.LOCK_LOST: "the lock has ended",
    codes.LOCK_LIMIT: "the group has reached its limit of locks on this host",
    codes.QUEUE_FULL: "the client has too many waiting tasks",
    codes.TASK_LOST: "the member died while running the task; resend the task",
    codes.TASK_TOO_LARGE: "the task's parameters and input are too large",
    codes.WORKER_DIED: "several members died while running the task",
    codes.OK: "",
}


def text_of(code: str) -> str:
    """Return the message for a code."""
    return _TEXTS[code]


def _result(record: records.Record) -> tuple[int, int, int, Payload]:
    """Return a long result as the arguments of :meth:`MemberPort._end`."""
    task_id, kind, busy_ns, detail, output = record
    head = records.header(kind, task_id, len(detail), busy_ns)
    return kind, task_id, busy_ns, (head, detail, output)


class MemberPort:
    """A connected member.

    :param sock: the member's connection, which carries no task data.
    :param ready: called with this port and READY's contents.
    :param ended: called with the member's number, the result's kind, the
        task's id and busy time in ns, the parts of the record (the last one
        still in the ring if it is long), and the current time.
    :param left: called with this port when the member has left.
    :ivar place: device, slot and generation, as the agent names them.
    :ivar is_ready: whether READY has arrived.
    :ivar number: the slot's number while it is a member, or None.
    """

    def __init__(
        self,
        place: tuple[str, int, int],
        sock: channels.PlainChannel,
        channel: rings.Channel,
        ready: Callable[[MemberPort, dict[str, typing.Any]], None],
        ended: Callable[[int, int, int, int, Payload, float], None],
        left: Callable[[MemberPort], None],
    ) -> None:
        self.sock = sock
        self.place = place
        self.is_ready = False
        self.number: int | None = None
        self.closed = False
        self._channel = channel
        self._is_empty = channel.is_empty
        # Project and application whose blocks the member's tasks use.
        self._scope: tuple[str, str] | None = None
        self._ready = ready
        self._ended = ended
        self._left = left
        # When the running task was sent; None if no task is running.
        self._busy_since_s: float | None = None

    def fileno(self) -> int:
        return self._channel.fileno()

    def arm(self) -> bool:
        return self._channel.arm()

    def disarm(self) -> None:
        self._channel.disarm()

    def close(self) -> None:
        self.closed = True
        self._channel.close()
        self.sock.close()

    def work(self, now: float) -> bool:
        if self.closed:
            return False
        try:
            if self._is_empty():
                return False
            taken = self._channel.take(_BATCH, _LATE_BYTES)
            if not taken:
                # A long record is read in place.
                parts = records.split(_there(self._channel))
                if parts.kind in _RESULTS:
                    self._end(*_result(parts), now)
                else:
                    self._take(parts)
                if not self.closed:
                    self._channel.free()
                return True
            for one in taken:
                task_id, kind, _, busy_ns = records.head(one)
                if kind in _RESULTS:
                    self._end(kind, task_id, busy_ns, (one,), now)
                else:
                    self._take(records.split(one))
                if self.closed:
                    break
        except (frames.ProtocolError, rings.RingDamaged) as exc:
            LOG.error("member dropped: %s", exc)
            self._left(self)
        return True

    def _end(
        self,
        kind: int,
        task_id: int,
        busy_ns: int,
        parts: Payload,
        now: float,
    ) -> None:
        self._busy_since_s = None
        if self.number is not None:
            self._ended(self.number, kind, task_id, busy_ns, parts, now)

    def _take(self, record: records.Record) -> None:
        if record.kind == records.READY:
            self._ready(self, frames.decode_json(record.middle))
        elif record.kind == records.LEFT:
            self._left(self)
        elif record.kind != records.CLEARED:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, f"unknown record kind {record.kind}"
            )

    def start(
        self,
        payload: Payload,
        has_blocks: bool,
        clear: bool,
        scope: tuple[str, str],
        now: float,
    ) -> bool:
        """Send a task.

        :param clear: whether the member must be cleared first, because it
            served another owner.
        :returns: False if the ring has no room: the member does not respond.
        """
        if clear and not self._clear(scope):
            return False
        if has_blocks and not self._use_scope(scope):
            return False
        self._busy_since_s = now
        return self._put(*payload)

    def has_forgotten(self, now: float) -> bool:
        """Whether the member has released its task without a result."""
        since_s = self._busy_since_s
        if since_s is None or now < since_s + ANSWER_S:
            return False
        try:
            # In this order: a member sends the result before it releases the
            # task.
            return self._channel.is_drained() and self._is_empty()
        except rings.RingDamaged:
            return True

    def keep(self, clear: bool, scope: tuple[str, str]) -> bool:
        """Make the core keep its state until the next CLEAR."""
        if clear and not self._clear(scope):
            return False
        return self._put(_KEEP)

    def _clear(self, scope: tuple[str, str]) -> bool:
        self._scope = None
        project_id = scope[0].encode()
        return self._put(
            records.header(records.CLEAR, 0, len(project_id)), project_id
        )

    def _use_scope(self, scope: tuple[str, str]) -> bool:
        if self._scope == scope:
            return True
        self._scope = scope
        project_id, application = (name.encode() for name in scope)
        return self._put(
            records.header(records.SCOPE, 0, len(project_id)),
            project_id,
            application,
        )

    def stop(self) -> None:
        """Make the member leave; LEFT confirms that it has been cleared."""
        if not self._put(_STOP):
            self.sock.shutdown()

    def _put(self, *parts: rings.Buffer) -> bool:
        try:
            return self._channel.put(*parts)
        except rings.RingDamaged as exc:
            LOG.error("a member's ring is damaged: %s", exc)
            return False


class Mailbox:
    """The channel of a client on another host.

    The loop uses it like a local client's rings; two threads send and receive.
    """

    def __init__(self) -> None:
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._condition = threading.Condition()
        self._incoming: collections.deque[bytes] = collections.deque()
        self._outgoing: collections.deque[bytes] = collections.deque()
        self._incoming_bytes = 0
        self._outgoing_bytes = 0
        self._sleeps = False
        self._closed = False

    # The loop's side.

    def fileno(self) -> int:
        return self._bell

    def put(self, *parts: rings.Buffer) -> bool:
        return self.put_all([b"".join(parts)]) == 1

    def put_all(self, records: list[bytes]) -> int:
        count = 0
        with self._condition:
            for record in records:
                if self._outgoing_bytes > _MAX_MAIL_BYTES:
                    break
                self._outgoing.append(record)
                self._outgoing_bytes += len(record)
                count += 1
            self._condition.notify_all()
        return count

    def is_empty(self) -> bool:
        return not self._incoming

    def get(self) -> bytes | None:
        with self._condition:
            return self._incoming[0] if self._incoming else None

    def free(self) -> None:
        with self._condition:
            self._incoming_bytes -= len(self._incoming.popleft())
            self._condition.notify_all()

    def take(self, count: int, max_bytes: int) -> list[bytes]:
        taken: list[bytes] = []
        incoming = self._incoming
        with self._condition:
            while (
                incoming
                and len(taken) < count
                and len(incoming[0]) <= max_bytes
            ):
                taken.append(incoming.popleft())
                self._incoming_bytes -= len(taken[-1])
            if taken:
                self._condition.notify_all()
        return taken

    def arm(self, room_bytes: int | None = None) -> bool:
        with self._condition:
            self._sleeps = True
            if room_bytes is not None:
                return self._outgoing_bytes > _MAX_MAIL_BYTES
            return not self._incoming

    def disarm(self) -> None:
        with self._condition:
            self._sleeps = False
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            os.close(self._bell)
            self._bell = -1

    # The threads' side.

    def deliver(self, record: bytes) -> None:
        """Pass a record to the loop; wait while too much is unread.

        :raises channels.ChannelClosed: if the loop has closed the mailbox.
        """
        with self._condition:
            while self._incoming_bytes > _MAX_MAIL_BYTES and not self._closed:
                self._condition.wait()
            self._check()
            self._incoming.append(record)
            self._incoming_bytes += len(record)
            self._ring()

    def next(self) -> list[bytes]:
        """Wait for records to send; return a limited number of them.

        :raises channels.ChannelClosed: if the loop has closed it and nothing
            is left.
        """
        with self._condition:
            while not self._outgoing:
                self._check()
                self._condition.wait()
            found: list[bytes] = []
            found_bytes = 0
            while (
                self._outgoing
                and len(found) < _MAILED_RECORDS
                and found_bytes < KEPT_BYTES
            ):
                found.append(self._outgoing.popleft())
                found_bytes += len(found[-1])
            self._outgoing_bytes -= found_bytes
            self._ring()
            return found

    def _ring(self) -> None:
        if self._sleeps and not self._closed:
            self._sleeps = False
            os.eventfd_write(self._bell, 1)

    def _check(self) -> None:
        if self._closed:
            raise channels.ChannelClosed("the desk closed the connection")


#: The channel of a client on this host, or of one on another host.
Channel: typing.TypeAlias = rings.Channel | Mailbox
