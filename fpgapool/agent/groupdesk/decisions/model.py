# SPDX-License-Identifier: Apache-2.0

"""What the queues of a group are made of, and what they decide."""

from __future__ import annotations

import collections
import dataclasses
import math
import typing


class Task:
    """One call, from its arrival to its result.

    :ivar client: who sent it.
    :ivar task_id: the client's number of it.
    :ivar payload: belongs to the caller. One that sets it to None cannot run
        the task again: if its member dies, the client must send it again.
    :ivar lock_id: the lock that it runs under; 0: none.
    :ivar blocks: keys of the blocks to which it refers …
    :ivar waits_until_s: … and for so long it may wait for a member with them.
    :ivar exchanges: how often another task with blocks took its place.
    :ivar queue: the queue that it joined; unset if it was refused.
    :ivar dropped: its client does not wait for the result any more.
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
    :ivar asking: the head asks for a member.
    :ivar asked_s: when it began to.
    :ivar busy: its task runs, or its lock is held.
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

    :ivar charged_s: up to when its client was charged for the member.
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
    """What a project, or a client of one, has had, and its asking heads.

    :param whole: what it is a part of; None: it is the whole group.
    :ivar served: tasks with ``arbitration=fifo``, slot-seconds with ``time``.
    :ivar floor: what its part that was served last had had before.
    :ivar asking: its parts with asking heads; a dict keeps their order.
    :ivar heads: its own, if it has no parts: when each asked, its client, its
        queue's number, a number that no other entry has, and its queue.
    """

    __slots__ = ("asking", "floor", "heads", "served", "whole")

    def __init__(self, whole: Share | None) -> None:
        self.whole = whole
        self.served = 0.0
        self.floor = 0.0
        self.asking: dict[Share, None] = {}
        self.heads: list[tuple[float, str, int, int, Queue]] = []

    def ask(self) -> None:
        """Have a head that asks, where there was none.

        It starts where the part that was served last was then, unless it has
        had more: it saves nothing up while it asks for nothing, and a newcomer
        makes up for nothing.
        """
        whole = self.whole
        if whole is None:
            return
        # Each task comes here: max() would take as long as the rest.
        if self.served < whole.floor:
            self.served = whole.floor
        if whole.whole is not None and not whole.asking:
            whole.ask()
        whole.asking[self] = None

    def rest(self) -> None:
        """Have no head that asks any more."""
        whole = self.whole
        if whole is None:
            return
        del whole.asking[self]
        if whole.whole is not None and not whole.asking:
            whole.rest()


@dataclasses.dataclass(slots=True)
class Counts:
    """What a client did in one period.

    :ivar arrived: accepted tasks.
    :ivar ended: tasks that a member has ended, well or not.
    :ivar busy_s: slot-seconds of those, and of its locks.
    :ivar waiting: tasks in its queues now, without running ones.
    :ivar running: tasks that run now.
    """

    arrived: int = 0
    ended: int = 0
    busy_s: float = 0.0
    waiting: int = 0
    running: int = 0


class Client:
    """A program attached to the group; made by :meth:`Queues.attach`.

    :ivar client_id: its name.
    :ivar owner: members are cleared when they serve another owner.
    :ivar scope: its project and application, which share blocks.
    :ivar counts: of the present period.
    :ivar paused: it has no room for results, so that no head is served.
    :ivar project: what all clients of its project have had …
    :ivar share: … and this one.
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
        self.counts = Counts()

    def serve(self, amount: float) -> None:
        """Count service of the client, and of its project."""
        self.share.served += amount
        self.project.served += amount

    def lengthen(self, length: int) -> Queue:
        """Add to the length of the shortest queue, and return it."""
        lengths = self.lengths
        number = lengths.index(min(lengths))
        lengths[number] += length
        return self.queues[number]


class Member:
    """A slot of the group on this host.

    :ivar charged_s: when the last lock on it ended, which was charged until
        then.
    """

    __slots__ = ("charged_s", "leaving", "lock", "number", "served", "task")

    def __init__(self, number: int) -> None:
        self.number = number
        self.task: Task | None = None
        self.lock: Lock | None = None
        self.charged_s = -math.inf
        self.leaving = False
        #: Whose data it may hold; None: it was just programmed.
        self.served: str | None = None


class Start(typing.NamedTuple):
    """Run a task on a member, which is cleared first if that is necessary."""

    member: int
    task: Task
    clear: bool


class Locked(typing.NamedTuple):
    """A lock has its member: tell the client, and the member to keep state."""

    client: Client
    lock_id: int
    member: int
    clear: bool


class Unlocked(typing.NamedTuple):
    """A lock has ended; the code is ``OK`` if its client wanted that."""

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
    """A member serves the group no more: it can be programmed anew."""

    member: int


Decision: typing.TypeAlias = (
    Start | Locked | Unlocked | Answer | LockRefused | Left
)


def lock_dues(client: Client, lock_idle_s: float) -> list[float]:
    """Return when the locks of a client end."""
    if not client.attached:
        return [client.grace_due_s]
    return [
        lock.idle_since_s + lock_idle_s
        for lock in client.locks.values()
        if lock.member is not None and lock.member.task is None
    ]
