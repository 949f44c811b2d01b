# SPDX-License-Identifier: Apache-2.0

"""A program's tasks and locks at the desks of a group."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from fpgapool.client import errors
from fpgapool.client.links import wires
from fpgapool.client.sessions import blocks
from fpgapool.common.channels import channel
from fpgapool.common.channels import rings
from fpgapool.protocol import blocks as references
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records


@dataclasses.dataclass(eq=False)
class MemberLock:
    """A member that serves only this client.

    :ivar refused: hosts that allow no more locks.
    :ivar lost: why the lock was lost; None if it was not.
    """

    number: int
    link: HostLink | None = None
    granted: bool = False
    refused: set[str] = dataclasses.field(default_factory=set)
    lost: errors.TaskFailed | None = None


@dataclasses.dataclass(eq=False)
class GroupTask:
    """A task, or the request for a lock, that waits for its result.

    :ivar number: number of the task or lock, unique among unfinished ones.
    :ivar lock: the lock that it runs under, or that it requests.
    :ivar out: converts the output to the result, and must copy it.
    :ivar blocks: blocks of its arguments, by number; 0 is its input.
    :ivar brings: numbers of blocks to send, too, because a member lacked them.
    """

    kind: int
    params: bytes = b""
    data: rings.Buffer = b""
    offset: int = 0
    lock: MemberLock | None = None
    out: Callable[[rings.Buffer], Any] = bytes
    blocks: Mapping[int, blocks.Block] = dataclasses.field(
        default_factory=dict
    )
    brings: frozenset[int] = frozenset()
    number: int = 0
    result: Any = None
    error: errors.FpgapoolError | None = None
    #: Created by a thread that waits for the task to end.
    finished: threading.Event | None = None
    #: Called with this task when it ends.
    notify: Callable[[GroupTask], None] | None = None

    # Class attributes, because most tasks do not change them.
    done = False
    #: Whether no thread is receiving for it; a link counts such tasks.
    followed = False
    #: How many members died while running this task.
    losses = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.kind, self.number

    @property
    def size_bytes(self) -> int:
        """Length of parameters and input, including all blocks."""
        size_bytes = len(self.params) + len(self.data)
        if self.blocks:
            count = len(self.blocks)
            size_bytes += references.head_bytes(count)
            size_bytes += sum(map(len, self.blocks.values()))
        return size_bytes

    @property
    def has_arguments(self) -> bool:
        """Whether the desk must support blocks."""
        return any(self.blocks)

    def parts(self, link: HostLink) -> tuple[rings.Buffer, ...]:
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
        """End the task with an error or its result; call it once.

        The caller must not hold a lock that the task's callbacks need.
        """
        if error is not None:
            self.error = error.again()
        self.done = True
        if self.finished is not None:
            self.finished.set()
        if self.notify is not None:
            self.notify(self)


class HostLink:
    """One host of a group, and its connection, if any.

    The group's lock guards all attributes.

    :ivar unsent: records that wait for room in the connection.
    :ivar received: records from the desk that are not handled yet.
    :ivar followed: number of unanswered tasks for which no thread receives.
    :ivar locked: whether all its members are locked, so that other tasks wait.
    :ivar wanted: whether it is in use; an unlisted host stays in use while
        this client holds a lock there.
    :ivar stale_locks: ended locks of which the desk has not been notified.
    """

    def __init__(self, host: groups.Host, lock: threading.Lock) -> None:
        self.host = host
        self.wire: wires.Wire | None = None
        self.unanswered: dict[tuple[int, int], GroupTask] = {}
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

    def load(self, task: GroupTask) -> tuple[bool, float, str]:
        """Return a sort key that puts the best host for a task first.

        Lacking the task's longest block counts like one more task per member.
        """
        load = (len(self.unanswered) + 1) / self.host.members
        if task.blocks:
            longest = max(task.blocks.values(), key=len)
            load += longest.reference not in self._there
        return self.locked, load, self.host.host_id

    def has(self, task: GroupTask) -> bool:
        """Return whether a task is waiting for a result from this host."""
        return self.unanswered.get(task.key) is task

    @property
    def knows_blocks(self) -> bool:
        """Whether its desk may support blocks and arguments."""
        return self.wire is None or self.wire.opened.cache_bytes is not None

    def has_room(self) -> bool:
        """Return whether one more task may be sent."""
        return (
            self.wire is not None
            and not self.broken
            and self.host.members > 0
            and len(self.unanswered) < self.wire.opened.window_tasks
        )

    def refer(self, task: GroupTask) -> list[rings.Buffer]:
        """Return references to a task's blocks, with the data of new ones."""
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

    def connected(self, wire: wires.Wire) -> None:
        """Use a new connection."""
        self.wire = wire
        cache_bytes = wire.opened.cache_bytes or 0
        # Each block is in at least one member, so the members' space adds up.
        self._there = references.Shelf(cache_bytes * self.host.members)

    def missed(self, task: GroupTask, numbers: object) -> None:
        """Record that a member lacked blocks; the task is sent with them.

        :raises frames.ProtocolError: if it has already sent them.
        """
        if not isinstance(numbers, list):
            numbers = []
        fresh = {*task.blocks} & {*numbers} - task.brings
        if not fresh:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "a member reports that data is missing, but it was sent",
            )
        task.brings |= fresh

    def give_up(self) -> None:
        """Drop the connection, so that its tasks go to other hosts."""
        if self.wire is not None:
            self.broken = True
            self.wire.shutdown()

    def follow(self) -> None:
        """Let the link's own thread receive for one more task."""
        self.followed += 1
        if not self.led:
            self.changed.notify_all()

    def send(self, *parts: rings.Buffer) -> None:
        """Send a record, or queue it if there is no room."""
        if self.unsent or not self._put(parts):
            self.unsent.append(parts)

    def flush(self) -> None:
        """Send the queued records for which there is now room."""
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
