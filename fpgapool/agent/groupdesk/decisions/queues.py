# SPDX-License-Identifier: Apache-2.0

"""The queues of a group's clients on one host, and their decisions.

Pure: methods take events and the time, and return decisions. The caller
reports events in the order in which they happen, and then calls
:meth:`Queues.decide`. Times are seconds on one monotonic clock.

Each client has as many queues as the host has slots. A task joins the
shortest queue of its client and stays there. A queue is sequential: its head
waits for a member, runs, returns its result, and then the next head waits::

    submit ──▶ waiting ──head──▶ asking ──decide──▶ running ──ended──▶ result
                  ▲                │  ▲                │
                  │      set aside ▼  │ retry          │ member lost
                  │              blocked               │
                  └────────────────────────────────────┘

A head is set aside while its client has no room for results, while it is a
lock and the limit of locks is reached, or while it waits for the member that
holds its blocks. Members belong to no queue, so resizing the group affects
none.
"""

from __future__ import annotations

import heapq
import math
import typing

from fpgapool.agent.groupdesk.decisions import clients as group_clients
from fpgapool.agent.groupdesk.decisions import heads
from fpgapool.agent.groupdesk.decisions import holding
from fpgapool.agent.groupdesk.decisions import locks as group_locks
from fpgapool.agent.groupdesk.decisions import members as group_members
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

#: Maximum number of a client's waiting tasks; see ``QUEUE_FULL``.
MAX_WAITING_TASKS = 4096
#: A lock ends when its client sends no task for this long.
LOCK_IDLE_S = 60.0
#: A task fails once more members than this have died while running it, because
#: the task itself may kill them.
MAX_LOSSES = 2


class Queues:
    """The tasks of a group on one host.

    :param slots: number of this host's slots, and of each client's queues.
    :param resume_grace_s: time for which a lost client keeps its locks.
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
        self._resume_grace_s = resume_grace_s
        self._max_waiting_tasks = max_waiting_tasks
        self._max_task_bytes = max_task_bytes
        self._out: list[model.Decision] = []
        self._holders = holding.Holders()
        self._heads = heads.Heads(arbitration)
        self._clients = group_clients.Clients(slots, self._heads)
        self.clients = self._clients.all
        self.members = group_members.Members(
            self._heads, self._holders, self._out
        )
        # Every task needs these; the aliases save look-ups.
        self._members, self._free = self.members.all, self.members.free
        self.locks = group_locks.Locks(
            self._clients, self._heads, self.members, lock_idle_s, self._out
        )

    # Clients.

    def attach(
        self, client_id: str, owner: str | None = None, project_id: str = ""
    ) -> model.Client:
        """Let a client send tasks; a client that reconnects keeps its locks.

        :param owner: owner of the client's data; members are cleared between
            owners. By default, each client is its own owner.
        :param project_id: the client's project; its clients share its service.
        """
        return self._clients.attach(client_id, owner or client_id, project_id)

    def detach(self, client: model.Client, now: float) -> None:
        """Handle the loss of a client's connection.

        Its waiting tasks and the results of its running tasks are dropped; the
        client resends these tasks. It keeps its locks for ``resume_grace_s``.
        """
        client.attached = False
        self._drop_tasks(client)
        self.locks.drop_tasks(client)
        if client.locks:
            client.grace_due_s = now + self._resume_grace_s
            self._heads.retry_blocked()
        else:
            self._clients.forget(client)

    def close(self, client: model.Client, now: float) -> None:
        """Detach a client that has closed its connection; end its locks."""
        self.detach(client, now)
        self.locks.end_all(client, codes.OK, now)

    def revoke(self, client_id: str, now: float) -> None:
        """Revoke a client's access. Its waiting tasks fail with
        ``ACCESS_REVOKED``; the results of its running tasks are dropped.
        """
        client = self.clients.get(client_id)
        if client is None:
            return
        client.attached = False
        code = codes.ACCESS_REVOKED
        self._out += [
            model.Answer(task, code) for task in self._drop_tasks(client)
        ]
        self.locks.drop_tasks(client, code)
        self.locks.end_all(client, code, now)
        self._clients.forget(client)

    def pause(self, client: model.Client) -> None:
        """Start none of a client's tasks until :meth:`resume`."""
        client.paused = True

    def resume(self, client: model.Client) -> None:
        """Start a client's tasks again."""
        client.paused = False
        self._heads.retry_blocked()
        for lock in client.locks.values():
            self.locks.start_task(lock)

    def _drop_tasks(self, client: model.Client) -> list[model.Task]:
        """Remove a client's tasks, but not its locks; return the tasks."""
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
        for member in self.members.all.values():
            task = member.task
            if task is not None and task.client is client and not task.dropped:
                task.dropped = True
                client.counts.running -= 1
        client.counts.waiting = 0
        return dropped

    def arbitrate(self, arbitration: str) -> None:
        """Change the order in which heads are served."""
        self._heads.arbitrate(arbitration, self.clients.values())

    # Tasks.

    def submit(
        self,
        client: model.Client,
        task_id: int,
        payload: typing.Any,
        size_bytes: int,
        input_bytes: int,
        now: float,
        lock_id: int = 0,
        blocks: tuple[holding.Key, ...] = (),
    ) -> model.Task:
        """Queue a task, or refuse it with a code.

        :param size_bytes: length of all that the client has sent of it.
        :param input_bytes: length of its input, of which the members may have
            parts already.
        :param lock_id: number of the lock that it runs under; 0 for none.
        :param blocks: blocks that it needs; members with them are preferred.
        """
        task = model.Task(
            client, task_id, payload, lock_id, input_bytes, blocks
        )
        counts = client.counts
        if size_bytes > self._max_task_bytes:
            self._out.append(model.Answer(task, codes.TASK_TOO_LARGE))
            return task
        if counts.waiting >= self._max_waiting_tasks:
            self._out.append(model.Answer(task, codes.QUEUE_FULL))
            return task
        if lock_id:
            self.locks.submit(client, task)
            return task
        counts.arrived += 1
        counts.waiting += 1
        queue = task.queue = client.lengthen(1)
        queue.waiting.append(task)
        if not queue.busy and not queue.asking:
            self._heads.ask(queue, now)
        return task

    def ended(
        self,
        number: int,
        busy_s: float,
        now: float,
        ran: bool = True,
        output_bytes: int | None = None,
    ) -> model.Task | None:
        """Record that a member's task has ended, with a result or an error.

        :param ran: False if a block was missing; the client resends the task.
        :param output_bytes: length of the result; None: it has none.
        :returns: the task, or None if no client waits for its result.
        """
        member = self._members.get(number)
        if member is None or member.task is None:
            return None
        task, member.task = member.task, None
        self._holders.ended(number, busy_s, now)
        client = task.client
        if task.dropped:
            counts = self._clients.counts_of(client.client_id)
            busy_s = min(busy_s, now - member.charged_s)
        else:
            counts = client.counts
            counts.running -= 1
        counts.ended += ran
        if output_bytes is not None:
            counts.input_bytes += task.input_bytes
            counts.output_bytes += output_bytes
        lock = member.lock
        if lock is not None:
            self.locks.task_ended(client, lock, now)
        else:
            counts.busy_s += busy_s
            if self._heads.by_time:
                self._heads.charge(client, busy_s)
            queue = task.queue
            client.lengths[queue.number] -= 1
            queue.busy = False
            if queue.waiting and not queue.asking:
                self._heads.ask(queue, now)
            self.members.give_back(member)
        return None if task.dropped else task

    def lost(self, number: int, now: float) -> None:
        """Handle a member's death: its task runs again, and its lock ends."""
        member = self.members.lose(number)
        if member is None:
            return
        task, member.task = member.task, None
        is_awaited = task is not None and not task.dropped
        if task is not None and is_awaited:
            task.client.counts.running -= 1
        if member.lock is not None:
            # The client's state on that member is lost.
            if task is not None and is_awaited:
                self._out.append(model.Answer(task, codes.LOCK_LOST))
            lock = member.lock
            self.locks.end(lock.queue.client, lock, codes.LOCK_LOST, now)
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
            self._heads.ask(queue, queue.asked_s if again else now)

    # Decisions.

    def decide(self, now: float) -> list[model.Decision]:
        """Give free members to waiting heads."""
        heads, free = self._heads, self._free
        if self._holders.due_s != math.inf:
            self._holders.due_s = math.inf
            heads.retry_blocked()
        while free:
            queue = heads.pop()
            if queue is None:
                break
            if not queue.waiting:
                # The queue is empty, because its client has left.
                queue.asking = False
                continue
            client = queue.client
            if client.paused:
                heads.block(queue)
                continue
            task = queue.waiting[0]
            if isinstance(task, model.Lock):
                self.locks.grant_next(queue, now)
                continue
            if task.blocks:
                chosen = self._holders.choose(task, free, self._members, now)
                if chosen is None:
                    heads.block(queue)
                    continue
                task, number = chosen
                self.members.take(number)
            else:
                number = heapq.heappop(free)
            queue.waiting.popleft()
            queue.asking, queue.busy = False, True
            member = self._members[number]
            member.task = task
            served = member.served
            member.served = owner = client.owner
            client.project.served += heads.per_task
            counts = client.counts
            counts.waiting -= 1
            counts.running += 1
            clear = served is not None and served != owner
            if task.blocks or clear:
                self._holders.started(number, task, clear, now)
            self._out.append(model.Start(number, task, clear))
        out = self._out
        if out:
            self._out = self.members.out = self.locks.out = []
        return out

    @property
    def deadline_s(self) -> float | None:
        """When :meth:`expire` must be called, or None if it need not be."""
        due_s = min([self._holders.due_s, *self.locks.dues()])
        return None if due_s == math.inf else due_s

    def expire(self, now: float) -> None:
        """End the locks whose idle time or grace period is over."""
        self.locks.expire(now)

    # Statistics.

    def take_counts(self, now: float) -> dict[str, model.Usage]:
        """End a period.

        :returns: each client's counts, by id. A lock without a task counts as
            a running task, because it keeps a member from other clients.
        """
        idle_locks = {}
        for client_id, client in self.clients.items():
            idle_locks[client_id] = 0
            for lock in client.locks.values():
                if lock.member is not None:
                    self.locks.charge(lock, now)
                    task = lock.member.task
                    idle_locks[client_id] += task is None or task.dropped
        taken = self._clients.take_counts()
        for client_id, count in idle_locks.items():
            taken[client_id].running += count
        return taken
