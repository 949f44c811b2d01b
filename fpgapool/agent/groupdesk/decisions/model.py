# SPDX-License-Identifier: Apache-2.0

"""The values that a group's queues use, and their decisions."""

from __future__ import annotations

import collections
import dataclasses
import math
import typing


@dataclasses.dataclass(slots=True, eq=False)
class Task:
    """A task, from arrival to result.

    :ivar payload: data of the caller, which may set it to None. The task
        cannot run again then: if its member dies, the client must resend it.
    :ivar lock_id: number of the lock that it runs under; 0 for none.
    :ivar input_bytes: length of its input, without parameters and arguments.
    :ivar blocks: keys of the blocks that it refers to.
    :ivar waits_until_s: end of its wait for a member that holds its blocks.
    :ivar exchanges: how often another task with blocks took its place.
    :ivar losses: number of members that died while they ran it.
    :ivar dropped: whether its client no longer waits for the result.
    :ivar queue: the queue that it joined; unset if it was refused.
    """

    client: Client
    task_id: int
    payload: typing.Any
    lock_id: int
    input_bytes: int
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
    :ivar asked_s: when the head began to wait for a member.
    :ivar asking: whether the head waits for a member.
    :ivar busy: whether a task or lock of the queue has a member.
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
    """A pseudo-task; while it runs, its queue and member are reserved.

    :ivar tasks: tasks under the lock that have not started.
    :ivar charged_s: time up to which the client has been charged.
    :ivar closing: whether the lock ends after its tasks.
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
    """The service that a project or client has received, and its heads.

    :param whole: the share of which this is a part; None for the whole group.
    :ivar served: the service: tasks with ``fifo``, slot-seconds with ``time``.
    :ivar floor: service that the part served last had received before.
    :ivar asking: parts with waiting heads; a dict keeps their order.
    :ivar heads: waiting heads of a share without parts: when each began to
        wait, its client, queue number, a unique number, and its queue.
    """

    whole: Share | None
    served: float = 0.0
    floor: float = 0.0
    asking: dict[Share, None] = dataclasses.field(default_factory=dict)
    heads: list[tuple[float, str, int, int, Queue]] = dataclasses.field(
        default_factory=list
    )

    def ask(self) -> None:
        """Start to compete for service when the first head begins to wait.

        The share is raised to the service of the part that was served last, so
        that idle time earns no credit and newcomers do not catch up.
        """
        whole = self.whole
        if whole is None:
            return
        # This runs for each task, and max() would double its time.
        if self.served < whole.floor:
            self.served = whole.floor
        if whole.whole is not None and not whole.asking:
            whole.ask()
        whole.asking[self] = None

    def rest(self) -> None:
        """Stop competing for service when no head waits any more."""
        whole = self.whole
        if whole is None:
            return
        del whole.asking[self]
        if whole.whole is not None and not whole.asking:
            whole.rest()


@dataclasses.dataclass(slots=True)
class Usage:
    """A client's counts for one period.

    :ivar arrived: tasks that have arrived and were not refused.
    :ivar ended: tasks that have ended, with a result or an error.
    :ivar busy_s: slot-seconds of those tasks, and of the client's locks.
    :ivar input_bytes: input of the tasks that have ended with a result.
    :ivar output_bytes: these results.
    :ivar waiting: tasks that wait in the client's queues now.
    :ivar running: tasks that are running now.
    """

    arrived: int = 0
    ended: int = 0
    busy_s: float = 0.0
    input_bytes: int = 0
    output_bytes: int = 0
    waiting: int = 0
    running: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class Client:
    """A program attached to the group; :meth:`Clients.attach` creates it.

    :param slots: number of the host's slots; the client has a queue for each.
    :ivar owner: the owner of its data; members are cleared between owners.
    :ivar project: the share of the client's project.
    :ivar paused: whether the client lacks room for results and is not served.
    :ivar grace_due_s: when the locks of a lost client end.
    :ivar scope: project and application, whose clients share blocks.
    :ivar lengths: number of waiting and running tasks in each queue.
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

    :ivar charged_s: end of its last lock, up to which a client was charged.
    :ivar served: owner of the data that it may hold; None after programming.
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
    """Grant a lock: notify the client; make the member keep its state."""

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
    """Answer a task with a code instead of a result."""

    task: Task
    code: str


class LockRefused(typing.NamedTuple):
    """A client's request for a lock is refused."""

    client: Client
    lock_id: int
    code: str


class Left(typing.NamedTuple):
    """A member has left the group and can be reprogrammed."""

    member: int


Decision: typing.TypeAlias = (
    Start | Locked | Unlocked | Answer | LockRefused | Left
)
