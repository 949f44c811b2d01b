# SPDX-License-Identifier: Apache-2.0

"""Values of a group's queues, and their decisions."""

from __future__ import annotations

import collections
import dataclasses
import math
import typing


@dataclasses.dataclass(slots=True, eq=False)
class Task:
    """One call, from arrival to result.

    :ivar payload: belongs to the caller, who may set it to None. The task then
        cannot run again: if its member dies, the client must send it again.
    :ivar lock_id: the lock that it runs under; 0: none.
    :ivar waits_until_s: until when it may wait for a member with its blocks.
    :ivar exchanges: how often another task with blocks took its place.
    :ivar dropped: whether its client no longer waits for the result.
    :ivar queue: the queue that it joined; unset if it was refused.
    """

    client: Client
    task_id: int
    payload: typing.Any
    lock_id: int
    blocks: tuple[typing.Any, ...] = ()
    waits_until_s: float | None = None
    exchanges: int = 0
    losses: int = 0
    dropped: bool = False
    queue: Queue = dataclasses.field(init=False)


@dataclasses.dataclass(slots=True, eq=False)
class Queue:
    """One sequential queue of a client.

    :ivar waiting: tasks, and locks that are not granted yet.
    :ivar asking: whether the head waits for a member.
    """

    client: Client
    number: int
    waiting: collections.deque[Task | Lock] = dataclasses.field(
        default_factory=collections.deque
    )
    asked_s: float = 0.0
    asking: bool = False
    busy: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class Lock:
    """A pseudo-task; while it runs, queue and member are the client's.

    :ivar charged_s: until when its client was charged for the member.
    """

    lock_id: int
    queue: Queue
    member: Member | None = None
    tasks: collections.deque[Task] = dataclasses.field(
        default_factory=collections.deque
    )
    charged_s: float = 0.0
    idle_since_s: float = 0.0
    closing: bool = False


@dataclasses.dataclass(slots=True, eq=False)
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

    whole: Share | None
    served: float = 0.0
    floor: float = 0.0
    asking: dict[Share, None] = dataclasses.field(default_factory=dict)
    heads: list[tuple[float, str, int, int, Queue]] = dataclasses.field(
        default_factory=list
    )

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


@dataclasses.dataclass(slots=True, eq=False)
class Client:
    """A program attached to the group; made by :meth:`Clients.attach`.

    :param slots: of the host; it has as many queues.
    :ivar owner: members are cleared when they serve another owner.
    :ivar project: the service of all clients of its project.
    :ivar paused: whether it has no room for results, so that no head is
        served.
    :ivar scope: its project and application, which share blocks.
    :ivar lengths: waiting and running tasks, by queue.
    """

    client_id: str
    owner: str
    slots: dataclasses.InitVar[int]
    project: Share
    attached: bool = True
    paused: bool = False
    grace_due_s: float = 0.0
    counts: Usage = dataclasses.field(default_factory=Usage)
    locks: dict[int, Lock] = dataclasses.field(default_factory=dict)
    scope: tuple[str, str] = dataclasses.field(init=False)
    queues: list[Queue] = dataclasses.field(init=False)
    lengths: list[int] = dataclasses.field(init=False)
    share: Share = dataclasses.field(init=False)

    def __post_init__(self, slots: int) -> None:
        self.scope = "", self.client_id
        self.queues = [Queue(self, number) for number in range(slots)]
        self.lengths = [0] * slots
        self.share = Share(self.project)

    def lengthen(self, length: int) -> Queue:
        """Add to the length of the shortest queue, and return that queue."""
        lengths = self.lengths
        number = lengths.index(min(lengths))
        lengths[number] += length
        return self.queues[number]


@dataclasses.dataclass(slots=True, eq=False)
class Member:
    """A slot of the group on this host.

    :ivar charged_s: end of the last lock on it, which was charged until then.
    :ivar served: owner of the data it may hold; None: it was just programmed.
    """

    number: int
    task: Task | None = None
    lock: Lock | None = None
    charged_s: float = -math.inf
    leaving: bool = False
    served: str | None = None


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
