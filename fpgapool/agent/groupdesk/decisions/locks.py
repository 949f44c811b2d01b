# SPDX-License-Identifier: Apache-2.0

"""Locks: each reserves a member and a queue for one client.

A lock waits in one of its client's queues like a task. Once it is granted,
tasks with its number run on its member one after the other, and the client is
charged for the whole time, even if no task runs::

    waiting ──grant──▶ held ──unlock──▶ closing ──last task ends──▶ ended
       │                │                                             ▲
       └──unlock,───────┴──idle, client lost, member lost─────────────┘
          refused
"""

from __future__ import annotations

from fpgapool.agent.groupdesk.decisions import clients as group_clients
from fpgapool.agent.groupdesk.decisions import heads
from fpgapool.agent.groupdesk.decisions import members as group_members
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.vocabulary import codes

# Added to the length of a queue with a lock, so that tasks without the lock
# choose a different queue if possible.
_LOCKED = 1 << 40
# The owner of a member whose lock has ended. The member may hold state, so it
# is cleared even for the same client.
_UNCLEAN = ""


class Locks:
    """All locks of a group on one host.

    :param clients: the clients; a lost one is removed with its last lock.
    :param idle_s: time without a task after which a lock ends.
    :ivar held: number of granted locks.
    :ivar count: number of locks, including waiting ones.
    """

    def __init__(
        self,
        clients: group_clients.Clients,
        waiting: heads.Heads,
        members: group_members.Members,
        idle_s: float,
        out: list[model.Decision],
    ) -> None:
        self._clients = clients
        self._heads = waiting
        self._members = members
        self._idle_s = idle_s
        self.out = out
        # Whether one member is reserved for clients without locks. In each
        # group, only one host reserves one.
        self._spares_member = True
        self.held = 0
        self.count = 0

    def spare_member(self, spares_member: bool) -> None:
        """Set whether one member is reserved for clients without locks."""
        self._spares_member = spares_member
        self._heads.retry_blocked()

    @property
    def have_all(self) -> bool:
        """Whether locks hold all members, so that no other task can run."""
        return 0 < len(self._members.all) <= self.held

    def lock(self, client: model.Client, lock_id: int, now: float) -> None:
        """Handle a client's request for a member and a queue of its own.

        :param lock_id: the client's number for the lock, greater than 0.
        """
        most = self._most(client, self._members.expected)
        if lock_id in client.locks or self.count >= most:
            self.out.append(
                model.LockRefused(client, lock_id, codes.LOCK_LIMIT)
            )
            return
        queue = client.lengthen(_LOCKED)
        lock = model.Lock(lock_id, queue)
        client.locks[lock_id] = lock
        self.count += 1
        queue.waiting.append(lock)
        if not queue.busy and not queue.asking:
            self._heads.ask(queue, now)

    def unlock(self, client: model.Client, lock_id: int, now: float) -> None:
        """End a client's lock once its remaining tasks have ended."""
        lock = client.locks.get(lock_id)
        if lock is None:
            return
        if lock.member is None:
            self._withdraw(client, lock)
        elif lock.tasks or lock.member.task is not None:
            lock.closing = True
        else:
            self.end(client, lock, codes.OK, now)

    def submit(self, client: model.Client, task: model.Task) -> None:
        """Accept a task that runs under a lock."""
        lock = client.locks.get(task.lock_id)
        if lock is None or lock.closing:
            self.out.append(model.Answer(task, codes.LOCK_LOST))
            return
        client.counts.arrived += 1
        client.counts.waiting += 1
        task.queue = lock.queue
        lock.tasks.append(task)
        self.start_task(lock)

    def start_task(self, lock: model.Lock) -> None:
        """Start a lock's next task, if there is one and it may start."""
        member = lock.member
        if (
            not lock.tasks
            or member is None
            or member.task is not None
            or lock.queue.client.paused
        ):
            return
        task = member.task = lock.tasks.popleft()
        counts = task.client.counts
        counts.waiting -= 1
        counts.running += 1
        self.out.append(model.Start(member.number, task, False))

    def task_ended(
        self, client: model.Client, lock: model.Lock, now: float
    ) -> None:
        """Handle the end of a task that ran under a lock."""
        # The task itself is not charged, because the whole lock is.
        lock.idle_since_s = now
        if lock.tasks:
            self.start_task(lock)
        elif lock.closing:
            self.end(client, lock, codes.OK, now)

    def drop_tasks(
        self, client: model.Client, code: str | None = None
    ) -> None:
        """Drop all tasks under a client's locks, and its waiting locks.

        :param code: code with which to answer the tasks; None for no answers.
        """
        for lock in [*client.locks.values()]:
            if code is not None:
                self.out += [model.Answer(task, code) for task in lock.tasks]
            lock.tasks.clear()
            if lock.member is None:
                self._withdraw(client, lock)

    def grant_next(self, queue: model.Queue, now: float) -> None:
        """Grant, refuse or set aside the lock at the head of a queue."""
        client, lock = queue.client, queue.waiting[0]
        assert isinstance(lock, model.Lock)
        if not self._most(client, self._members.expected):
            # There are now too few members, even if other clients unlock.
            queue.asking = False
            self.out.append(
                model.LockRefused(client, lock.lock_id, codes.LOCK_LIMIT)
            )
            self._withdraw(client, lock)
            if queue.waiting:
                self._heads.ask(queue, now)
        elif self.held >= self._most(client):
            self._heads.block(queue)
        else:
            queue.waiting.popleft()
            queue.asking, queue.busy = False, True
            client.project.served += self._heads.per_task
            self._grant(client, lock, now)

    def _most(self, client: model.Client, expected: int = 0) -> int:
        """Return the maximum number of locks if this client requests one.

        Members that are still expected count, too.
        :param expected: number of members that the group will have here.
        """
        members = self._members
        here = sum(not member.leaving for member in members.all.values())
        spared = self._spares_member and any(
            other is not client and other.attached
            for other in self._clients.all.values()
        )
        # Even without members, one lock may wait for the first member.
        return max(1, max(here, expected) - members.surplus) - spared

    def _grant(
        self, client: model.Client, lock: model.Lock, now: float
    ) -> None:
        member = self._members.pop()
        lock.member = member
        lock.charged_s = lock.idle_since_s = now
        member.lock = lock
        self.held += 1
        clear = member.served not in (None, client.owner)
        member.served = client.owner
        self.out.append(
            model.Locked(client, lock.lock_id, member.number, clear)
        )
        self.start_task(lock)

    def _withdraw(self, client: model.Client, lock: model.Lock) -> None:
        """Withdraw a lock that has not been granted yet."""
        self._remove(client, lock)
        lock.queue.waiting.remove(lock)
        # The queue may have been blocked only because of this lock.
        self._heads.retry_blocked()

    def _remove(self, client: model.Client, lock: model.Lock) -> None:
        for task in lock.tasks:
            self.out.append(model.Answer(task, codes.LOCK_LOST))
        client.counts.waiting -= len(lock.tasks)
        lock.tasks.clear()
        client.lengths[lock.queue.number] -= _LOCKED
        del client.locks[lock.lock_id]
        self.count -= 1

    def end_all(self, client: model.Client, code: str, now: float) -> None:
        """End a client's locks, all of which are granted."""
        for lock in [*client.locks.values()]:
            self.end(client, lock, code, now)

    def end(
        self, client: model.Client, lock: model.Lock, code: str, now: float
    ) -> None:
        """End a granted lock; its member may have been lost."""
        self._remove(client, lock)
        self.held -= 1
        self.charge(lock, now)
        self.out.append(model.Unlocked(client, lock.lock_id, code))
        queue, member = lock.queue, lock.member
        assert member is not None, "the lock was granted"
        member.lock = None
        member.charged_s = now
        member.served = _UNCLEAN
        if member.task is None:
            queue.busy = False
            if queue.waiting and not queue.asking:
                self._heads.ask(queue, now)
            if member.number in self._members.all:
                self._members.give_back(member)
        else:
            # The running task ends like one without a lock.
            client.lengths[queue.number] += 1
        if not (client.attached or client.locks):
            self._clients.forget(client)
        self._heads.retry_blocked()

    def charge(self, lock: model.Lock, now: float) -> None:
        """Charge the client for the time of its locked member."""
        client = lock.queue.client
        slot_s = now - lock.charged_s
        client.counts.busy_s += slot_s
        self._heads.charge(client, slot_s)
        lock.charged_s = now

    def dues(self) -> list[float]:
        """Return when idle locks, and the locks of lost clients, expire."""
        dues = []
        for client in self._clients.all.values() if self.count else ():
            if client.locks and not client.attached:
                dues.append(client.grace_due_s)
            else:
                dues += [
                    lock.idle_since_s + self._idle_s
                    for lock in client.locks.values()
                    if lock.member is not None and lock.member.task is None
                ]
        return dues

    def expire(self, now: float) -> None:
        """End the locks whose idle time or grace period is over."""
        for client in [*self._clients.all.values()]:
            if not client.locks:
                continue
            if not client.attached:
                if now >= client.grace_due_s:
                    self.end_all(client, codes.LOCK_LOST, now)
                continue
            for lock in [*client.locks.values()]:
                member = lock.member
                if (
                    member is not None
                    and member.task is None
                    and now >= lock.idle_since_s + self._idle_s
                ):
                    self.end(client, lock, codes.LOCK_LOST, now)
