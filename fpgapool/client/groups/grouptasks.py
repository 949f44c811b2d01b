# SPDX-License-Identifier: Apache-2.0

"""Send a program's tasks to a group, receive results, and retry tasks.

A task goes to the host with the fewest unfinished tasks per member. One of the
threads that wait for a host's results receives them; if several threads may be
waiting, the host's own thread does.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

from fpgapool.client import errors
from fpgapool.client.groups import grouplink
from fpgapool.common.channels import channel
from fpgapool.common.channels import rings
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

_MAX_TASK_ID = 2**32 - 1

#: A task fails if it loses more members than this: it may be the cause.
_MAX_LOSSES = 2


class Tasks:
    """A program's tasks and locks at the hosts of a group.

    :ivar failure: the error that has ended all tasks; None until then.
    """

    def __init__(self, window_tasks: int) -> None:
        self._window_tasks = window_tasks
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._links: dict[str, grouplink.HostLink] = {}
        # Tasks that exceed the window, or that no host can take now.
        self._waiting: collections.deque[grouplink.GroupTask] = (
            collections.deque()
        )
        self._sent = 0
        self._last_task_id = 0
        self._last_lock_id = 0
        self._locks: dict[int, grouplink.MemberLock] = {}
        # Limit for a task's parameters and input.
        self._most_bytes = group.MAX_TASK_BYTES
        self.failure: errors.FpgapoolError | None = None
        self._closed = False
        self._closing = False

    def _use_members(self, members: groups.MemberList) -> None:
        """Use a newer list of hosts; call with the lock held."""
        raise NotImplementedError

    def _leave(self, link: grouplink.HostLink) -> None:
        """Leave a host without members, unless this client holds a lock."""
        raise NotImplementedError

    def _leave_locked(self) -> None:
        """Move tasks from hosts whose members are all locked by others."""
        raise NotImplementedError

    @property
    def members(self) -> int:
        """The number of the group's members, as last reported."""
        with self._lock:
            return sum(link.host.members for link in self._links.values())

    def make_lock(self) -> grouplink.MemberLock:
        """Make a lock that no host has granted yet."""
        with self._lock:
            self._last_lock_id = self._last_lock_id % groups.MAX_LOCK_ID + 1
            held = grouplink.MemberLock(self._last_lock_id)
            self._locks[held.number] = held
            return held

    def start(self, task: grouplink.GroupTask) -> None:
        """Send a task as soon as the window has room."""
        self._check_process()
        with self._lock:
            if self.failure is not None:
                raise self.failure.again()
            if self._closed:
                raise errors.SessionClosed("the group is closed")
            size_bytes = task.size_bytes
            if size_bytes > self._most_bytes:
                raise errors.InvalidRequest(
                    codes.TASK_TOO_LARGE,
                    f"the task's parameters and input are {size_bytes} bytes,"
                    f" larger than the limit of {self._most_bytes}",
                )
            if task.has_arguments and not all(
                link.knows_blocks for link in self._links.values()
            ):
                raise errors.InvalidRequest(
                    codes.INVALID_ARGUMENT,
                    "a desk of the group does not accept arguments",
                )
            held = task.lock
            if held is not None and task.kind == records.TASK:
                if held.lost is not None:
                    raise held.lost.again()
                # The lock has already chosen the member.
                self._send(task, held.link)
                return
            self._waiting.append(task)
            self._dispatch()

    def _dispatch(self) -> None:
        """Send tasks while the window has room; call with the lock held."""
        waiting = self._waiting
        while waiting and self._sent < self._window_tasks:
            link = self._best_link(waiting[0])
            if link is None:
                return
            self._send(waiting.popleft(), link)

    def _best_link(
        self, task: grouplink.GroupTask
    ) -> grouplink.HostLink | None:
        """Return the host for one more task; call with the lock held."""
        return min(
            (link for link in self._links.values() if link.has_room()),
            key=lambda link: link.load(task),
            default=None,
        )

    def _send(
        self, task: grouplink.GroupTask, link: grouplink.HostLink
    ) -> None:
        """Send a task to a host; call with the lock held."""
        if task.kind == groups.LOCK:
            task.number = task.lock.number
            if task.lock.link is not None:
                # That desk's reply may have been lost with a connection.
                link.send(records.header(groups.UNLOCK, task.number))
            task.lock.link = link
        else:
            number = self._last_task_id
            while True:
                number = number % _MAX_TASK_ID + 1
                if (records.TASK, number) not in link.unanswered:
                    break
            self._last_task_id = task.number = number
        link.unanswered[task.key] = task
        self._sent += 1
        link.send(*task.parts(link))
        if task.followed:
            link.follow()

    def wait(
        self, task: grouplink.GroupTask, deadline_s: float | None
    ) -> None:
        """Wait for the end of a task, receiving if no other thread does."""
        while not task.done:
            with self._lock:
                link = self._led_by_me(task)
                if link is None:
                    if task.finished is None:
                        task.finished = threading.Event()
                    if task.done:
                        return
                    self._follow(task)
            if link is None:
                assert task.finished is not None
                if not task.finished.wait(channel.remaining_s(deadline_s)):
                    raise errors.OperationTimeout(
                        "the task did not finish in time"
                    )
                return
            is_over = functools.partial(_is_over, link, task)
            try:
                self._lead(link, is_over, deadline_s)
            except channel.DeadlineExceeded:
                raise errors.OperationTimeout(
                    "the task did not finish in time"
                ) from None

    def _led_by_me(
        self, task: grouplink.GroupTask
    ) -> grouplink.HostLink | None:
        """Claim the right to receive from the host of a task."""
        for link in self._links.values():
            if (
                link.wire is not None
                and link.wire.leads
                and not link.led
                and not link.broken
                and link.has(task)
            ):
                link.led = True
                return link
        return None

    def _follow(self, task: grouplink.GroupTask) -> None:
        """Hand a task to its host's own thread; call with the lock held."""
        if task.followed:
            return
        task.followed = True
        for link in self._links.values():
            if link.has(task):
                link.follow()

    def _needs_its_thread(self, link: grouplink.HostLink) -> bool:
        """Return whether a host's thread must receive if no other does.

        A thread that waits for a task of one host does not serve other hosts.
        """
        if link.locked:
            # Keep receiving: the desk reports when a member is unlocked.
            return True
        return bool(link.unanswered) and (
            link.followed > 0 or self._closing or len(self._links) > 1
        )

    def _wake(self) -> None:
        """Wake hosts' threads that must receive; call with the lock held."""
        for link in self._links.values():
            if not link.led and self._needs_its_thread(link):
                link.changed.notify_all()

    def _go_on(self) -> None:
        """Send waiting tasks and receive results; call with the lock held."""
        self._dispatch()
        self._wake()

    def _lead(
        self,
        link: grouplink.HostLink,
        is_over: Callable[[], bool],
        deadline_s: float | None = None,
    ) -> None:
        """Receive from a host; the caller must have set ``led``."""
        wire, received = link.wire, link.received
        assert wire is not None, "only a connection is led"
        try:
            while not is_over():
                if not received:
                    received.extend(wire.take(deadline_s))
                if received:
                    while received:
                        ended = self._handle(link, received.popleft())
                        if ended is not None:
                            ended()
                    continue
                record = wire.receive(deadline_s)
                try:
                    ended = self._handle(link, record)
                finally:
                    wire.free()
                if ended is not None:
                    ended()
        except channel.ChannelClosed:
            with self._lock:
                link.broken = True
        finally:
            with self._lock:
                link.led = False
                if link.broken or self._needs_its_thread(link):
                    link.changed.notify_all()

    def _handle(
        self, link: grouplink.HostLink, record: rings.Record | bytes
    ) -> Callable[[], None] | None:
        """Handle a record from a desk.

        :returns: a function to call once the record is free, or None.
        """
        try:
            if type(record) is bytes:
                # The usual case: the desk cannot change this private copy.
                task_id, kind, middle_bytes, _ = records.head(record)
                if kind == records.DONE:
                    start = records.HEADER_BYTES + middle_bytes
                    return self._take_output(link, task_id, record[start:])
            task_id, kind, _, detail, output = records.split(record)
            if kind == records.DONE:
                return self._take_output(link, task_id, output)
            document = frames.decode_json(detail) if detail else {}
            return self._handle_other(link, kind, task_id, document)
        except frames.ProtocolError as exc:
            raise channel.ChannelClosed(
                f"the desk violated the protocol: {exc.message}"
            ) from exc

    def _take_output(
        self, link: grouplink.HostLink, task_id: int, output: rings.Buffer
    ) -> Callable[[], None] | None:
        key = records.TASK, task_id
        with self._lock:
            task = self._answered(link, key)
            if self._waiting or link.unsent:
                link.flush()
                self._go_on()
        if task is None:
            return None
        try:
            task.result = task.out(output)
        except Exception as exc:
            message = f"cannot convert the result: {exc}"
            task.error = errors.TaskFailed(codes.INVALID_INPUT, message)
        assert link.wire is not None, "it is led"
        if type(output) is bytes or link.wire.is_whole():
            return task.finish
        with self._lock:
            if self.failure is not None:
                return functools.partial(task.finish, self.failure)
            # The desk cleared the record while it was read, so it is invalid.
            task.error = None
            link.unanswered[key] = task
            link.followed += task.followed
            self._sent += 1
        raise channel.ChannelClosed("the desk closed the connection")

    def _answered(
        self, link: grouplink.HostLink, key: tuple[int, int]
    ) -> grouplink.GroupTask | None:
        """Remove a task from the unanswered ones; call with the lock held."""
        task = link.unanswered.pop(key, None)
        if task is not None:
            link.followed -= task.followed
            self._sent -= 1
            if not self._sent:
                self._idle.notify_all()
        return task

    def _handle_other(
        self,
        link: grouplink.HostLink,
        kind: int,
        number: int,
        document: dict[str, Any],
    ) -> Callable[[], None] | None:
        code = str(document.get("code", codes.INTERNAL_ERROR))
        error = errors.TaskFailed(code, str(document.get("message", "")))
        with self._lock:
            link.flush()
            if kind == groups.MEMBERS:
                self._use_members(groups.MemberList.parse(document))
                link.locked = document.get("locked") is True
                self._leave_locked()
                self._go_on()
                return None
            if kind == groups.LOCKED:
                task = self._answered(link, (groups.LOCK, number))
                if task is None:
                    return None
                task.lock.granted = True
                return task.finish
            if kind == groups.UNLOCK:
                task = self._answered(link, (groups.LOCK, number))
                if (
                    task is not None
                    and code == codes.LOCK_LIMIT
                    and self._ask_another(link, task)
                ):
                    return None
                if (held := self._locks.get(number)) is not None:
                    held.lost = error.again()
                if task is None:
                    return None
                return functools.partial(task.finish, error)
            if kind == records.MISS:
                task = link.unanswered.get((records.TASK, number))
                if task is not None:
                    link.missed(task, document.get("arguments"))
                    self._answered(link, (records.TASK, number))
                    self._send(task, link)
                return None
            if kind != records.FAILED:
                raise channel.ChannelClosed(
                    f"unexpected record of kind {kind}"
                )
            if number == 0:
                return functools.partial(self.fail, error)
            task = self._answered(link, (records.TASK, number))
            failure: errors.FpgapoolError | None = error
            if task is not None and code == codes.TASK_LOST:
                # The desk has no copy of the task's input, so send it again.
                task.losses += 1
                if task.losses > _MAX_LOSSES:
                    failure = errors.TaskFailed(
                        codes.WORKER_DIED,
                        "several members died while running the task",
                    )
                else:
                    failure = self._wait_again(task)
            self._go_on()
        if task is None or failure is None:
            return None
        return functools.partial(task.finish, failure)

    def _wait_again(
        self, task: grouplink.GroupTask
    ) -> errors.FpgapoolError | None:
        """Requeue a task for another host; call with the lock held.

        :returns: the error if all tasks have ended, else None. The caller must
            report the error, because :meth:`fail` has not seen this task.
        """
        if self.failure is None:
            self._waiting.appendleft(task)
        return self.failure

    def _ask_another(
        self, link: grouplink.HostLink, task: grouplink.GroupTask
    ) -> bool:
        """After one host refused a lock, request it from another, if any.

        Each host has its own limits.
        """
        refused = task.lock.refused
        refused.add(link.host.host_id)
        links = [
            one
            for one in self._links.values()
            if one.has_room() and one.host.host_id not in refused
        ]
        if links:
            self._send(task, min(links, key=lambda one: one.load(task)))
            self._wake()
        return bool(links)

    def unlock(
        self, request: grouplink.GroupTask, held: grouplink.MemberLock
    ) -> None:
        """Release a lock, or stop waiting for it."""
        with self._lock:
            del self._locks[held.number]
            link = held.link
            if link is None:
                # The request has not been sent to a desk yet.
                with contextlib.suppress(ValueError):
                    self._waiting.remove(request)
                return
            self._answered(link, (groups.LOCK, held.number))
            if link.wire is None or link.broken:
                link.stale_locks.add(held.number)
            else:
                link.send(records.header(groups.UNLOCK, held.number))
            if not link.host.members:
                self._leave(link)

    def _has_lock(self, link: grouplink.HostLink) -> bool:
        return any(
            held.link is link and held.granted and held.lost is None
            for held in self._locks.values()
        )

    def fail(self, error: errors.FpgapoolError) -> None:
        """End all tasks and connections."""
        with self._lock:
            if self.failure is None:
                self.failure = error.again()
            ended = [*self._waiting]
            self._waiting.clear()
            links = [*self._links.values()]
            for link in links:
                ended += link.unanswered.values()
                link.unanswered.clear()
                link.followed = 0
                link.wanted = False
                link.changed.notify_all()
            self._sent = 0
            self._idle.notify_all()
        for task in ended:
            task.finish(error)
        for link in links:
            wire = link.wire
            if wire is None:
                continue
            if not wire.leads:
                with contextlib.suppress(OSError):
                    wire.say_goodbye()
            if not wire.leads or link.led:
                # The thread that receives would wait for the current task.
                wire.shutdown()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.FpgapoolError(
                codes.SESSION_FORKED,
                "another process opened the group; open it in this process",
            )


def _is_over(link: grouplink.HostLink, task: grouplink.GroupTask) -> bool:
    """Return whether a task has ended or moved to another host."""
    return task.done or not link.has(task)
