# SPDX-License-Identifier: Apache-2.0

"""Who is served next: queues, locks and members of one group on one host.

Pure: events and the time go in, decisions come out. The caller tells events
in the order in which they happen, and then asks :meth:`Queues.decide` for the
decisions. Times are seconds of one clock that never goes back.

Each client has as many queues as the host has slots. A task joins the
shortest queue of its client and stays there. A queue is sequential: its head
asks for a member, runs, returns its result, and then the next head asks.
Members belong to no queue, so that resizing the group touches no queue.
"""

from __future__ import annotations

import heapq
import math
import typing

from fpgapool.agent.groupdesk.decisions import heads
from fpgapool.agent.groupdesk.decisions import holding
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

#: Waiting tasks of one client; more are refused with ``QUEUE_FULL``.
MAX_WAITING_TASKS = 4096
#: A lock ends when its client sends no task for so long.
LOCK_IDLE_S = 60.0
#: A task that loses more members than this fails: it may be what kills them.
MAX_LOSSES = 2

# Added to the length of a queue with a lock: tasks without that lock choose
# another one while there is one.
_LOCKED = 1 << 40
# The member of a lock that has ended may hold state: it is cleared even for
# the same client.
_UNCLEAN = ""


class Queues:
    """The tasks, locks and members of a group on one host.

    :param slots: of this host; each client has as many queues.
    :param arbitration: ``fifo`` serves the project that was served the fewest
        tasks, and its heads in the order in which they asked; ``time`` serves
        the project with the least busy time, and its client with the least.
    :param resume_grace_s: how long the locks of a lost client last.
    :param lock_idle_s: how long a lock lasts without a task.
    :param max_waiting_tasks: of one client.
    :param max_task_bytes: longest input of a task.
    :ivar expected: how many members are here or to come: a lock waits for
        them, and is not refused. Call :meth:`shrink` after a change.
    """

    def __init__(
        self,
        slots: int,
        *,
        arbitration: str = group.FIFO,
        resume_grace_s: float = 10.0,
        lock_idle_s: float = LOCK_IDLE_S,
        max_waiting_tasks: int = MAX_WAITING_TASKS,
        max_task_bytes: int = group.MAX_TASK_BYTES,
    ) -> None:
        self._slots = slots
        self._resume_grace_s = resume_grace_s
        self._lock_idle_s = lock_idle_s
        self._max_waiting_tasks = max_waiting_tasks
        self._max_task_bytes = max_task_bytes
        # Whether one member is kept from locks for the other clients. Of all
        # hosts of a group, one does so.
        self._spares_member = True
        self._members: dict[int, model.Member] = {}
        self._free: list[int] = []
        self.expected = 0
        # Members to give away as soon as they have no task.
        self._surplus = 0
        self.clients: dict[str, model.Client] = {}
        self._whole = model.Share(None)
        self._projects: dict[str, model.Share] = {}
        self._use_arbitration(arbitration)
        # Queues whose head may not be served now: a lock above the limit, or
        # that of a paused client.
        self._blocked: list[model.Queue] = []
        # All locks that are held, with those that wait.
        self._held = 0
        self._locks = 0
        # Of clients that are gone, until the period ends.
        self._gone: dict[str, model.Counts] = {}
        self._holders = holding.Holders()
        self._out: list[model.Decision] = []

    # Clients.

    def attach(
        self, client_id: str, owner: str | None = None, project_id: str = ""
    ) -> model.Client:
        """Let a client send tasks; one that was lost finds its locks again.

        :param client_id: of a client that is not attached.
        :param owner: members are cleared when they serve another owner; None:
            each client is its own.
        :param project_id: all clients of a project together have its share.
        :returns: the client, for the other methods.
        """
        client = self.clients.get(client_id)
        if client is None:
            project = self._projects.get(project_id)
            if project is None:
                project = model.Share(self._whole)
                # It outlives its clients, who could come back as newcomers.
                self._projects[project_id] = project
            client = model.Client(
                client_id, owner or client_id, self._slots, project
            )
            self.clients[client_id] = client
            counts = self._gone.pop(client_id, None)
            if counts is not None:
                client.counts = counts
        client.owner = owner or client_id
        client.attached = True
        client.paused = False
        # The others may have fewer locks now.
        self._ask_blocked()
        return client

    def detach(self, client: model.Client, now: float) -> None:
        """The connection of a client is lost.

        Its waiting tasks go, and the results of running ones; it sends them
        again. Its locks last for ``resume_grace_s``.
        """
        client.attached = False
        self._drop_tasks(client)
        for lock in [*client.locks.values()]:
            lock.tasks.clear()
            if lock.member is None:
                self._withdraw(client, lock)
        if client.locks:
            client.grace_due_s = now + self._resume_grace_s
            self._ask_blocked()
        else:
            self._forget(client)

    def close(self, client: model.Client, now: float) -> None:
        """A client leaves for good: as :meth:`detach`, without a grace."""
        self.detach(client, now)
        self._end_locks(client, codes.OK, now)

    def revoke(self, client_id: str, now: float) -> None:
        """A client may not use the group any more.

        Its waiting tasks answer ``ACCESS_REVOKED``; results of running ones
        are dropped.
        """
        client = self.clients.get(client_id)
        if client is None:
            return
        client.attached = False
        for task in self._drop_tasks(client):
            self._out.append(model.Answer(task, codes.ACCESS_REVOKED))
        for lock in [*client.locks.values()]:
            for task in lock.tasks:
                self._out.append(model.Answer(task, codes.ACCESS_REVOKED))
            lock.tasks.clear()
            if lock.member is None:
                self._withdraw(client, lock)
        self._end_locks(client, codes.ACCESS_REVOKED, now)
        self._forget(client)

    def pause(self, client: model.Client) -> None:
        """Start no further task of a client until :meth:`resume`."""
        client.paused = True

    def resume(self, client: model.Client) -> None:
        """Serve a client again."""
        client.paused = False
        self._ask_blocked()
        for lock in client.locks.values():
            member = lock.member
            if lock.tasks and member is not None and member.task is None:
                self._start_locked(lock)

    def _drop_tasks(self, client: model.Client) -> list[model.Task]:
        """Empty the queues of a client, but for locks.

        :returns: the waiting tasks.
        """
        dropped = []
        for queue in client.queues:
            locks = []
            for item in queue.waiting:
                if isinstance(item, model.Task):
                    dropped.append(item)
                else:
                    locks.append(item)
            client.lengths[queue.number] -= len(queue.waiting) - len(locks)
            queue.waiting.clear()
            queue.waiting.extend(locks)
        for member in self._members.values():
            task = member.task
            if task is not None and task.client is client and not task.dropped:
                task.dropped = True
                client.counts.running -= 1
        client.counts.waiting = 0
        return dropped

    def _forget(self, client: model.Client) -> None:
        if self.clients.pop(client.client_id, None) is not None:
            self._gone[client.client_id] = client.counts
        self._ask_blocked()

    def arbitrate(self, arbitration: str) -> None:
        """Serve heads in another order from now on.

        :param arbitration: as for the class; the present one changes nothing.
        """
        if arbitration == self._arbitration:
            return
        asking = [*iter(self._heads.pop, None)]
        # What they had before says nothing about their share now.
        shares = [self._whole, *self._projects.values()]
        shares += [client.share for client in self.clients.values()]
        for share in shares:
            share.served = share.floor = 0.0
        self._use_arbitration(arbitration)
        for queue in asking:
            self._heads.push(queue)

    def _use_arbitration(self, arbitration: str) -> None:
        self._heads = heads.Heads(arbitration, self._whole)
        self._arbitration = arbitration
        # What counts as service: tasks that begin, or the time of slots.
        self._by_time = arbitration == group.TIME
        self._per_task = 0.0 if self._by_time else 1.0

    # Tasks.

    def submit(
        self,
        client: model.Client,
        task_id: int,
        payload: typing.Any,
        size_bytes: int,
        now: float,
        lock_id: int = 0,
        blocks: tuple[holding.Key, ...] = (),
    ) -> model.Task:
        """Take a task, or answer it with a code, which changes nothing.

        :param client: an attached client.
        :param task_id: the client's number of the task.
        :param payload: belongs to the caller.
        :param size_bytes: of params and input.
        :param lock_id: of the lock that it runs under; 0: none.
        :param blocks: that it refers to: it prefers a member that has them.
        :returns: the task.
        """
        task = model.Task(client, task_id, payload, lock_id, blocks)
        counts = client.counts
        if size_bytes > self._max_task_bytes:
            self._out.append(model.Answer(task, codes.TASK_TOO_LARGE))
            return task
        if counts.waiting >= self._max_waiting_tasks:
            self._out.append(model.Answer(task, codes.QUEUE_FULL))
            return task
        if lock_id:
            self._submit_locked(client, task)
            return task
        counts.arrived += 1
        counts.waiting += 1
        queue = task.queue = client.lengthen(1)
        queue.waiting.append(task)
        if not queue.busy and not queue.asking:
            self._ask(queue, now)
        return task

    def _submit_locked(self, client: model.Client, task: model.Task) -> None:
        lock = client.locks.get(task.lock_id)
        if lock is None or lock.closing:
            self._out.append(model.Answer(task, codes.LOCK_LOST))
            return
        client.counts.arrived += 1
        client.counts.waiting += 1
        task.queue = lock.queue
        lock.tasks.append(task)
        if lock.member is not None and lock.member.task is None:
            self._start_locked(lock)

    def _ask(self, queue: model.Queue, asked_s: float) -> None:
        queue.asking = True
        queue.asked_s = asked_s
        self._heads.push(queue)

    def ended(
        self, member: int, busy_s: float, now: float, ran: bool = True
    ) -> model.Task | None:
        """A member has ended its task, well or not.

        :param member: its number.
        :param busy_s: how long it worked on it.
        :param ran: False if it lacked a block: the task comes again.
        :returns: the task whose client waits for the result; None if there
            is none, or its client is gone.
        """
        place = self._members.get(member)
        if place is None or place.task is None:
            return None
        task = place.task
        place.task = None
        self._holders.ended(member, busy_s, now)
        client = task.client
        if task.dropped:
            counts = self._counts(client.client_id)
            busy_s = min(busy_s, now - place.charged_s)
        else:
            counts = client.counts
            counts.running -= 1
        counts.ended += ran
        lock = place.lock
        if lock is not None:
            # It is charged for the whole time.
            lock.idle_since_s = now
            if lock.tasks:
                self._start_locked(lock)
            elif lock.closing:
                self._end_lock(client, lock, codes.OK, now)
        else:
            counts.busy_s += busy_s
            if self._by_time:
                client.serve(busy_s)
            queue = task.queue
            client.lengths[queue.number] -= 1
            queue.busy = False
            if queue.waiting and not queue.asking:
                self._ask(queue, now)
            self._free_member(place)
        return None if task.dropped else task

    # Locks.

    def lock(self, client: model.Client, lock_id: int, now: float) -> None:
        """Ask for a member and a queue of its own.

        :param client: an attached client.
        :param lock_id: its number for the lock, above 0 and not in use.
        """
        most = self._most_locks(client, self.expected)
        if lock_id in client.locks or self._locks >= most:
            self._out.append(
                model.LockRefused(client, lock_id, codes.LOCK_LIMIT)
            )
            return
        queue = client.lengthen(_LOCKED)
        lock = model.Lock(lock_id, queue)
        client.locks[lock_id] = lock
        self._locks += 1
        queue.waiting.append(lock)
        if not queue.busy and not queue.asking:
            self._ask(queue, now)

    def unlock(self, client: model.Client, lock_id: int, now: float) -> None:
        """End a lock after the tasks that it has."""
        lock = client.locks.get(lock_id)
        if lock is None:
            return
        if lock.member is None:
            self._withdraw(client, lock)
        elif lock.tasks or lock.member.task is not None:
            lock.closing = True
        else:
            self._end_lock(client, lock, codes.OK, now)

    def spare_member(self, spares_member: bool) -> None:
        """Say whether locks leave one member to the other clients.

        Locks that are held stay.
        """
        self._spares_member = spares_member
        self._ask_blocked()

    @property
    def is_locked(self) -> bool:
        """Whether locks have all members, so that no other task can run."""
        return 0 < len(self._members) <= self._held

    def _most_locks(self, client: model.Client, expected: int = 0) -> int:
        """How many locks there may be if this client wants one.

        With fewer members than ``expected``, so many count.
        """
        here = sum(not member.leaving for member in self._members.values())
        spared = self._spares_member and any(
            other is not client and other.attached
            for other in self.clients.values()
        )
        # Without any member a lock may wait for the first.
        return max(1, max(here, expected) - self._surplus) - spared

    def _withdraw(self, client: model.Client, lock: model.Lock) -> None:
        """Take back a lock that was not granted yet."""
        for task in lock.tasks:
            self._out.append(model.Answer(task, codes.LOCK_LOST))
        client.counts.waiting -= len(lock.tasks)
        lock.tasks.clear()
        lock.queue.waiting.remove(lock)
        client.lengths[lock.queue.number] -= _LOCKED
        del client.locks[lock.lock_id]
        self._locks -= 1
        # Its queue may have waited among the blocked ones for it alone.
        self._ask_blocked()

    def _refuse(self, lock: model.Lock) -> None:
        """Refuse a lock that is above a limit which came later.

        The members are too few now, whatever other clients unlock.
        """
        client = lock.queue.client
        lock.queue.asking = False
        self._out.append(
            model.LockRefused(client, lock.lock_id, codes.LOCK_LIMIT)
        )
        self._withdraw(client, lock)

    def _grant(
        self, lock: model.Lock, member: model.Member, now: float
    ) -> None:
        client = lock.queue.client
        lock.member = member
        lock.charged_s = lock.idle_since_s = now
        member.lock = lock
        self._held += 1
        clear = member.served not in (None, client.owner)
        member.served = client.owner
        self._out.append(
            model.Locked(client, lock.lock_id, member.number, clear)
        )
        if lock.tasks:
            self._start_locked(lock)

    def _start_locked(self, lock: model.Lock) -> None:
        if lock.queue.client.paused:
            return
        task = lock.tasks.popleft()
        member = lock.member
        assert member is not None, "only a granted lock has a member"
        member.task = task
        counts = task.client.counts
        counts.waiting -= 1
        counts.running += 1
        self._out.append(model.Start(member.number, task, False))

    def _end_locks(self, client: model.Client, code: str, now: float) -> None:
        for lock in [*client.locks.values()]:
            self._end_lock(client, lock, code, now)

    def _end_lock(
        self, client: model.Client, lock: model.Lock, code: str, now: float
    ) -> None:
        """End a lock that was granted; its member may be gone."""
        del client.locks[lock.lock_id]
        self._locks -= 1
        self._held -= 1
        for task in lock.tasks:
            self._out.append(model.Answer(task, codes.LOCK_LOST))
        client.counts.waiting -= len(lock.tasks)
        lock.tasks.clear()
        self._charge_lock(lock, now)
        self._out.append(model.Unlocked(client, lock.lock_id, code))
        queue = lock.queue
        client.lengths[queue.number] -= _LOCKED
        member = lock.member
        assert member is not None, "the lock was granted"
        member.lock = None
        member.charged_s = now
        member.served = _UNCLEAN
        if member.task is None:
            queue.busy = False
            if queue.waiting and not queue.asking:
                self._ask(queue, now)
            if member.number in self._members:
                self._free_member(member)
        else:
            # Its task ends as one without a lock.
            client.lengths[queue.number] += 1
        if client.attached or client.locks:
            self._ask_blocked()
        else:
            self._forget(client)

    def _charge_lock(self, lock: model.Lock, now: float) -> None:
        """Charge the client for the time of a member that it keeps."""
        client = lock.queue.client
        slot_s = now - lock.charged_s
        client.counts.busy_s += slot_s
        if self._by_time:
            client.serve(slot_s)
        lock.charged_s = now

    def _ask_blocked(self) -> None:
        blocked, self._blocked = self._blocked, []
        for queue in blocked:
            queue.asking = False
            if queue.waiting:
                self._ask(queue, queue.asked_s)

    # Members.

    def join(self, member: int) -> None:
        """Use a slot that was just programmed.

        :param member: its number, that of no present member.
        """
        if member in self._members:
            raise ValueError(f"member {member} is here already")
        self._members[member] = model.Member(member)
        heapq.heappush(self._free, member)
        self._ask_blocked()

    def leave(self, member: int) -> None:
        """Give a slot away: at once if it is idle, else after its task.

        A locked member stays until the lock ends. :class:`Left` says when it
        can be programmed anew.
        """
        place = self._members.get(member)
        if place is None or place.leaving:
            return
        place.leaving = True
        self._ask_blocked()
        if place.task is None and place.lock is None:
            self._free.remove(member)
            heapq.heapify(self._free)
            self._leave(place)

    def shrink(self, count: int) -> None:
        """Give away some slots: idle ones, the lowest first, else the next.

        :param count: how many; those that an earlier call wanted and are
            still here are not given away for that call any more.
        """
        self._surplus = count
        self._ask_blocked()
        while self._surplus and self._free:
            self._surplus -= 1
            self._leave(self._members[heapq.heappop(self._free)])

    def lost(self, member: int, now: float) -> None:
        """A member died: its task runs again elsewhere, its lock ends."""
        place = self._members.pop(member, None)
        if place is None:
            return
        self._holders.forget(member)
        self._ask_blocked()
        task, place.task = place.task, None
        if place.lock is None and task is None:
            self._free.remove(member)
            heapq.heapify(self._free)
        if task is not None and not task.dropped:
            task.client.counts.running -= 1
        if place.lock is not None:
            # The state that the client kept there is lost.
            if task is not None and not task.dropped:
                self._out.append(model.Answer(task, codes.LOCK_LOST))
            lock = place.lock
            self._end_lock(lock.queue.client, lock, codes.LOCK_LOST, now)
        elif task is not None:
            self._run_again(task, now)

    def _run_again(self, task: model.Task, now: float) -> None:
        queue, client = task.queue, task.client
        queue.busy = False
        task.losses += 1
        if task.dropped or task.losses > MAX_LOSSES or task.payload is None:
            client.lengths[queue.number] -= 1
            if not task.dropped:
                fatal = task.losses > MAX_LOSSES
                code = codes.WORKER_DIED if fatal else codes.TASK_LOST
                self._out.append(model.Answer(task, code))
        else:
            client.counts.waiting += 1
            queue.waiting.appendleft(task)
        if queue.waiting and not queue.asking:
            again = queue.waiting[0] is task
            self._ask(queue, queue.asked_s if again else now)

    def _free_member(self, place: model.Member) -> None:
        if place.leaving:
            self._leave(place)
        elif self._surplus:
            self._surplus -= 1
            self._leave(place)
        else:
            heapq.heappush(self._free, place.number)

    def _leave(self, place: model.Member) -> None:
        del self._members[place.number]
        self._holders.forget(place.number)
        self._out.append(model.Left(place.number))

    # Decisions.

    def decide(self, now: float) -> list[model.Decision]:
        """Give free members to asking heads.

        :returns: all decisions since the last call, in order.
        """
        free, pop = self._free, self._heads.pop
        if self._holders.due_s != math.inf:
            self._holders.due_s = math.inf
            self._ask_blocked()
        while free:
            queue = pop()
            if queue is None:
                break
            if not queue.waiting:
                # Its client is gone.
                queue.asking = False
                continue
            client = queue.client
            item = queue.waiting[0]
            if client.paused:
                self._blocked.append(queue)
                continue
            if isinstance(item, model.Lock):
                if not self._most_locks(client, self.expected):
                    self._refuse(item)
                    if queue.waiting:
                        self._ask(queue, now)
                    continue
                if self._held >= self._most_locks(client):
                    self._blocked.append(queue)
                    continue
                queue.waiting.popleft()
                queue.asking, queue.busy = False, True
                client.project.served += self._per_task
                self._grant(item, self._members[heapq.heappop(free)], now)
                continue
            if item.blocks:
                chosen = self._holders.choose(item, free, self._members, now)
                if chosen is None:
                    self._blocked.append(queue)
                    continue
                item, number = chosen
                free.remove(number)
                heapq.heapify(free)
            else:
                number = heapq.heappop(free)
            queue.waiting.popleft()
            queue.asking, queue.busy = False, True
            member = self._members[number]
            member.task = item
            served = member.served
            member.served = owner = client.owner
            client.project.served += self._per_task
            counts = client.counts
            counts.waiting -= 1
            counts.running += 1
            clear = served not in (None, owner)
            if item.blocks or clear:
                self._holders.started(number, item, clear, now)
            self._out.append(model.Start(number, item, clear))
        out = self._out
        if out:
            self._out = []
        return out

    @property
    def deadline_s(self) -> float | None:
        """When :meth:`expire` has to be called; None: not needed."""
        dues = [self._holders.due_s]
        for client in self.clients.values() if self._locks else ():
            if client.locks:
                dues += model.lock_dues(client, self._lock_idle_s)
        due_s = min(dues)
        return None if due_s == math.inf else due_s

    def expire(self, now: float) -> None:
        """End the locks of lost clients, and those without tasks."""
        for client in [*self.clients.values()]:
            if not client.locks:
                continue
            if not client.attached:
                if now >= client.grace_due_s:
                    self._end_locks(client, codes.LOCK_LOST, now)
                continue
            for lock in [*client.locks.values()]:
                member = lock.member
                if (
                    member is not None
                    and member.task is None
                    and now >= lock.idle_since_s + self._lock_idle_s
                ):
                    self._end_lock(client, lock, codes.LOCK_LOST, now)

    # Statistics.

    def has_free_member(self) -> bool:
        """Whether a member has no task."""
        return bool(self._free)

    @property
    def members(self) -> dict[int, bool]:
        """The members, by number, and whether each is leaving."""
        return {
            number: member.leaving for number, member in self._members.items()
        }

    def _counts(self, client_id: str) -> model.Counts:
        """Return the counts of a client that may be gone, or be new."""
        client = self.clients.get(client_id)
        if client is not None:
            return client.counts
        return self._gone.setdefault(client_id, model.Counts())

    def take_counts(self, now: float) -> dict[str, model.Counts]:
        """End a period.

        :returns: what each client did in it, by name. A lock without a task
            counts as a running one: its client has the member.
        """
        taken, self._gone = self._gone, {}
        for client_id, client in self.clients.items():
            idle_locks = 0
            for lock in client.locks.values():
                if lock.member is not None:
                    self._charge_lock(lock, now)
                    task = lock.member.task
                    idle_locks += task is None or task.dropped
            counts = taken[client_id] = client.counts
            client.counts = model.Counts(
                waiting=counts.waiting, running=counts.running
            )
            counts.running += idle_locks
        return taken
