# SPDX-License-Identifier: Apache-2.0

"""Values of a group's queues, and their decisions."""

from __future__ import annotations

import collections
import dataclasses
import math
import typing


class Task:
    """One call, from arrival to result.

    :ivar payload: belongs to the caller, who may set it to None. The task then
        cannot run again: if its member dies, the client must send it again.
    :ivar lock_id: the lock that it runs under; 0: none.
    :ivar waits_until_s: until when it may wait for a member with them.
    :ivar exchanges: how often another task with blocks took its place.
    :ivar queue: the queue that it joined; unset if it was refused.
    :ivar dropped: whether its client no longer waits for the result.
    """

    queue: Queue

    __slots__ = (
        "blocks",
        "client",
        "dropped",
        "exchanges",
        "lock_id",
        "losses",
        "payload",
        "queue",
        "task_id",
        "waits_until_s",
    )

    def __init__(
        self,
        client: Client,
        task_id: int,
        payload: typing.Any,
        lock_id: int,
        blocks: tuple[typing.Any, ...] = (),
    ) -> None:
        self.blocks = blocks
        self.waits_until_s: float | None = None
        self.exchanges = 0
        self.client = client
        self.task_id = task_id
        self.payload = payload
        self.lock_id = lock_id
        self.losses = 0
        self.dropped = False


class Queue:
    """One sequential queue of a client.

    :ivar waiting: tasks, and locks that are not granted yet.
    :ivar asking: whether the head waits for a member.
    """

    __slots__ = ("asked_s", "asking", "busy", "client", "number", "waiting")

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        self.waiting: collections.deque[Task | Lock] = collections.deque()
        self.asked_s = 0.0
        self.asking = False
        self.busy = False


class Lock:
    """A pseudo-task; while it runs, queue and member are the client's.

    :ivar charged_s: until when its client was charged for the member.
    """

    __slots__ = (
        "charged_s",
        "closing",
        "idle_since_s",
        "lock_id",
        "member",
        "queue",
        "tasks",
    )

    def __init__(self, lock_id: int, queue: Queue) -> None:
        self.lock_id = lock_id
        self.queue = queue
        self.member: Member | None = None
        self.tasks: collections.deque[Task] = collections.deque()
        self.charged_s = 0.0
        self.idle_since_s = 0.0
        self.closing = False


class Share:
    """The service that a project or client has received, and its waiting
    heads.

    :param whole: the share that contains it; None for the whole group.
    :ivar served: tasks with ``arbitration=fifo``, slot-seconds with ``time``.
    :ivar floor: previous service of the part that was served last.
    :ivar asking: its parts with waiting heads; a dict keeps their order.
    :ivar heads: its own heads, if it has no parts: start of waiting, client,
        queue number, a unique number, and queue.
    """

    __slots__ = ("asking", "floor", "heads", "served", "whole")

    def __init__(self, whole: Share | None) -> None:
        self.whole = whole
        self.served = 0.0
        self.floor = 0.0
        self.asking: dict[Share, None] = {}
        self.heads: list[tuple[float, str, int, int, Queue]] = []

    def ask(self) -> None:
        """Join the competition when a first head begins to wait.

        It starts from the service of the part that was served last, unless it
        has had more: idle time earns no credit, and newcomers do not catch up.
        """
        whole = self.whole
        if whole is None:
            return
        # Runs for each task: max() would take as long as the rest.
        if self.served < whole.floor:
            self.served = whole.floor
        if whole.whole is not None and not whole.asking:
            whole.ask()
        whole.asking[self] = None

    def rest(self) -> None:
        """Leave the competition: no head waits any more."""
        whole = self.whole
        if whole is None:
            return
        del whole.asking[self]
        if whole.whole is not None and not whole.asking:
            whole.rest()


@dataclasses.dataclass(slots=True)
class Usage:
    """What a client did in one period.

    :ivar ended: tasks that have ended, with a result or an error.
    :ivar busy_s: slot-seconds of those tasks, and of its locks.
    :ivar waiting: tasks in its queues now, without running ones.
    """

    arrived: int = 0
    ended: int = 0
    busy_s: float = 0.0
    waiting: int = 0
    running: int = 0


class Client:
    """A program attached to the group; made by :meth:`Clients.attach`.

    :ivar owner: members are cleared when they serve another owner.
    :ivar scope: its project and application, which share blocks.
    :ivar paused: whether it has no room for results, so that no head is
        served.
    :ivar project: the service of all clients of its project.
    """

    __slots__ = (
        "attached",
        "client_id",
        "counts",
        "grace_due_s",
        "lengths",
        "locks",
        "owner",
        "paused",
        "project",
        "queues",
        "scope",
        "share",
    )

    def __init__(
        self,
        client_id: str,
        owner: str,
        queues: int,
        project: Share,
    ) -> None:
        self.client_id = client_id
        self.owner = owner
        self.scope = ("", client_id)
        self.queues = [Queue(self, number) for number in range(queues)]
        #: Waiting and running, by queue.
        self.lengths = [0] * queues
        self.locks: dict[int, Lock] = {}
        self.attached = True
        self.paused = False
        self.grace_due_s = 0.0
        self.project = project
        self.share = Share(project)
        self.counts = Usage()

    def lengthen(self, length: int) -> Queue:
        """Add to the length of the shortest queue, and return that queue."""
        lengths = self.lengths
        number = lengths.index(min(lengths))
        lengths[number] += length
        return self.queues[number]


class Member:
    """A slot of the group on this host.

    :ivar charged_s: end of the last lock on it, which was charged until then.
    """

    __slots__ = ("charged_s", "leaving", "lock", "number", "served", "task")

    def __init__(self, number: int) -> None:
        self.number = number
        self.task: Task | None = None
        self.lock: Lock | None = None
        self.charged_s = -math.inf
        self.leaving = False
        #: Owner of the data it may hold; None: it was just programmed.
        self.served: str | None = None


class Start(typing.NamedTuple):
    """Run a task on a member, clearing it first if necessary."""

    member: int
    task: Task
    clear: bool


class Locked(typing.NamedTuple):
    """A lock is granted: notify the client, and let the member keep state."""

    client: Client
    lock_id: int
    member: int
    clear: bool


class Unlocked(typing.NamedTuple):
    """A lock has ended; the code is ``OK`` if its client ended it."""

    client: Client
    lock_id: int
    code: str


class Answer(typing.NamedTuple):
    """A task ends without a member, with a code."""

    task: Task
    code: str


class LockRefused(typing.NamedTuple):
    """A client cannot have a lock."""

    client: Client
    lock_id: int
    code: str


class Left(typing.NamedTuple):
    """A member has left the group and can be reprogrammed."""

    member: int


Decision: typing.TypeAlias = (
    Start | Locked | Unlocked | Answer | LockRefused | Left
)
