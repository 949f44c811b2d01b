# SPDX-License-Identifier: Apache-2.0

"""The hosts of a group, and what a client has there."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import functools
import os
import threading
import time
import typing

from fpgapool.client import errors
from fpgapool.client.doors import groupdoor
from fpgapool.client.groups import grouplink
from fpgapool.common.channels import channel
from fpgapool.common.channels import rings
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

# Pauses between attempts to reach a desk.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0

#: A desk's answers after which this client is of no use.
_FATAL = frozenset(
    {codes.ACCESS_REVOKED, codes.PROTOCOL_ERROR, codes.TLS_REQUIRED}
)
# A new desk hears of its clients a moment after its start, and refuses them
# until then.
_PATIENCE_S = 30.0

_MAX_TASK_ID = 2**32 - 1

#: A task that loses more members than this fails: it may be what kills them.
_MAX_LOSSES = 2


class Hosts:
    """The hosts of a group, with the tasks that this client has there.

    A task goes to the host with the least unfinished tasks for each member.
    Each host has a thread that connects it. One of the threads that wait for
    results receives them; the host's own thread does if others wait, too.

    :param door: gave the access.
    :param access: of this client.
    :param window_tasks: most tasks at all desks.
    :param outages: of this client.
    :ivar failure: what has ended all tasks; None until then.
    """

    def __init__(
        self,
        door: groupdoor.GroupDoor,
        access: groupdoor.Access,
        window_tasks: int,
        outages: groupdoor.Outages,
    ) -> None:
        self._door = door
        self._access = access
        self._window_tasks = window_tasks
        self._outages = outages
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._links: dict[str, grouplink.Link] = {}
        self._revision = -1
        # Tasks beyond the window, or without a host that takes them.
        self._waiting: collections.deque[grouplink.Task] = collections.deque()
        self._sent = 0
        self._last_task_id = 0
        self._last_lock_id = 0
        self._locks: dict[int, grouplink.Lock] = {}
        # Of parameters and input of a task.
        self._most_bytes = group.MAX_TASK_BYTES
        self.failure: errors.FpgapoolError | None = None
        self._closing = False
        self._closed = False
        with self._lock:
            self._use_members(access.members)

    @property
    def members(self) -> int:
        """How many members there are, as far as this client knows."""
        with self._lock:
            return sum(link.host.members for link in self._links.values())

    def make_lock(self) -> grouplink.Lock:
        """Make a lock that no host has granted yet."""
        with self._lock:
            self._last_lock_id = self._last_lock_id % groups.MAX_LOCK_ID + 1
            held = grouplink.Lock(self._last_lock_id)
            self._locks[held.number] = held
            return held

    def close(self, deadline_s: float | None) -> bool:
        """Leave the group.

        :param deadline_s: until when to wait for unanswered tasks.
        :returns: False if it was left before.
        """
        self._check_process()
        with self._lock:
            if self._closed:
                return False
            self._closing = True
            for link in self._links.values():
                link.changed.notify_all()
            while (self._sent or self._waiting) and self.failure is None:
                left_s = channel.remaining_s(deadline_s)
                if left_s == 0:
                    break
                self._idle.wait(left_s)
            self._closed = True
            links = [*self._links.values()]
        self.fail(errors.SessionClosed("the group is closed"))
        for link in links:
            if link.thread is not None:
                link.thread.join()
        return True

    def start(self, task: grouplink.Task) -> None:
        """Send a task as soon as the window has room.

        :raises errors.FpgapoolError: if that is impossible.
        """
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
                    f"the task has {size_bytes} bytes of parameters and input;"
                    f" at most {self._most_bytes} are possible",
                )
            if task.has_arguments:
                grouplink.check_blocks(self._links.values())
            held = task.lock
            if held is not None and task.kind == records.TASK:
                if held.lost is not None:
                    raise held.lost.again()
                # The member is chosen already.
                self._send(task, held.link)
                return
            self._waiting.append(task)
            self._dispatch()

    def _dispatch(self) -> None:
        """Send waiting tasks as far as the window allows; holds the lock."""
        waiting = self._waiting
        while waiting and self._sent < self._window_tasks:
            link = self._best_link(waiting[0])
            if link is None:
                return
            self._send(waiting.popleft(), link)

    def _best_link(self, task: grouplink.Task) -> grouplink.Link | None:
        """Return the host for one more task; holds the lock."""
        return min(
            (link for link in self._links.values() if link.has_room()),
            key=lambda link: link.load(task),
            default=None,
        )

    def _send(self, task: grouplink.Task, link: grouplink.Link) -> None:
        """Send a task to a host; holds the lock."""
        if task.kind == groups.LOCK:
            task.number = task.lock.number
            if task.lock.link is not None:
                # A lost connection may have lost the answer of this desk.
                link.send(records.header(groups.UNLOCK, task.number))
            task.lock.link = link
        else:
            number = self._last_task_id
            while True:
                number = number % _MAX_TASK_ID + 1
                if (records.TASK, number) not in link.unanswered:
                    break
            self._last_task_id = task.number = number
        link.unanswered[task.kind, task.number] = task
        self._sent += 1
        link.send(*task.parts(link))
        if task.followed:
            link.follow()

    # Waiting for results.

    def wait(self, task: grouplink.Task, deadline_s: float | None) -> None:
        """Wait for the end of a task, receiving if no other thread does.

        :raises errors.OperationTimeout: if the deadline passes.
        """
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
                    raise errors.OperationTimeout("the task has no result yet")
                return
            is_over = functools.partial(
                _is_over, link, task, (task.kind, task.number)
            )
            try:
                self._lead(link, is_over, deadline_s)
            except channel.DeadlineExceeded:
                raise errors.OperationTimeout(
                    "the task has no result yet"
                ) from None

    def _led_by_me(self, task: grouplink.Task) -> grouplink.Link | None:
        """Become the one who receives from the host of a task."""
        for link in self._links.values():
            if (
                link.wire is not None
                and link.wire.leads
                and not link.led
                and not link.broken
                and link.unanswered.get((task.kind, task.number)) is task
            ):
                link.led = True
                return link
        return None

    def _follow(self, task: grouplink.Task) -> None:
        """Let a host's own thread receive a task; holds the lock."""
        if task.followed:
            return
        task.followed = True
        for link in self._links.values():
            if link.unanswered.get((task.kind, task.number)) is task:
                link.follow()

    def _needs_its_thread(self, link: grouplink.Link) -> bool:
        """Whether a host's own thread has to receive, if no other one does.

        The thread that waits for a task of one host knows nothing of others.
        """
        if link.locked:
            # The desk will say when it is not.
            return True
        return bool(link.unanswered) and (
            link.followed > 0 or self._closing or len(self._links) > 1
        )

    def _wake(self) -> None:
        """Wake the threads of links that have to receive; holds the lock."""
        for link in self._links.values():
            if not link.led and self._needs_its_thread(link):
                link.changed.notify_all()

    def _go_on(self) -> None:
        """Send waiting tasks, and receive their results; holds the lock."""
        self._dispatch()
        self._wake()

    def _lead(
        self,
        link: grouplink.Link,
        is_over: collections.abc.Callable[[], bool],
        deadline_s: float | None = None,
    ) -> None:
        """Receive from a host; the caller has set ``led``."""
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
        self, link: grouplink.Link, record: rings.Record | bytes
    ) -> collections.abc.Callable[[], None] | None:
        """Take a record of a desk.

        :returns: what to call when the record is free.
        """
        try:
            if type(record) is bytes:
                # The usual case, and nobody can change it.
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
                f"the desk sent nonsense: {exc.message}"
            ) from exc

    def _take_output(
        self, link: grouplink.Link, task_id: int, output: rings.Buffer
    ) -> collections.abc.Callable[[], None] | None:
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
            message = f"the result cannot be used: {exc}"
            task.error = errors.TaskFailed(codes.INVALID_INPUT, message)
        assert link.wire is not None, "it is led"
        if type(output) is bytes or link.wire.is_whole():
            return task.finish
        with self._lock:
            if self.failure is not None:
                return _end(task, self.failure)
            # The desk has cleared it meanwhile: it has no result.
            task.error = None
            link.unanswered[key] = task
            link.followed += task.followed
            self._sent += 1
        raise channel.ChannelClosed("the desk has ended the connection")

    def _answered(
        self, link: grouplink.Link, key: tuple[int, int]
    ) -> grouplink.Task | None:
        """Take a task off the list of unanswered ones; holds the lock."""
        task = link.unanswered.pop(key, None)
        if task is not None:
            link.followed -= task.followed
            self._sent -= 1
            if not self._sent:
                self._idle.notify_all()
        return task

    def _handle_other(
        self,
        link: grouplink.Link,
        kind: int,
        number: int,
        document: dict[str, typing.Any],
    ) -> collections.abc.Callable[[], None] | None:
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
                return _end(task)
            if kind == groups.UNLOCK:
                task = self._answered(link, (groups.LOCK, number))
                if (
                    task is not None
                    and code == codes.LOCK_LIMIT
                    and self._ask_another(link, task)
                ):
                    return None
                self._lose_lock(number, error)
                return None if task is None else _end(task, error)
            if kind == records.MISS:
                task = link.unanswered.get((records.TASK, number))
                if task is not None:
                    link.missed(task, document.get("arguments"))
                    self._answered(link, (records.TASK, number))
                    self._send(task, link)
                return None
            if kind != records.FAILED:
                raise channel.ChannelClosed(f"no record of kind {kind}")
            if number == 0:
                return functools.partial(self.fail, error)
            task = self._answered(link, (records.TASK, number))
            failure: errors.FpgapoolError | None = error
            if task is not None and code == codes.TASK_LOST:
                # The desk has no copy of its input.
                task.losses += 1
                if task.losses > _MAX_LOSSES:
                    failure = errors.TaskFailed(
                        codes.WORKER_DIED, "several members died with the task"
                    )
                else:
                    failure = self._wait_again(task)
            self._go_on()
        if task is None or failure is None:
            return None
        return _end(task, failure)

    def _wait_again(self, task: grouplink.Task) -> errors.FpgapoolError | None:
        """Let a task go to another host; holds the lock.

        :returns: why it cannot. :meth:`fail` does not find the tasks of hosts
            that were left right before it.
        """
        if self.failure is None:
            self._waiting.appendleft(task)
        return self.failure

    # Locks.

    def _ask_another(self, link: grouplink.Link, task: grouplink.Task) -> bool:
        """Ask another host for a lock that this one refuses, if there is one.

        Each host has limits of its own.
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

    def _lose_lock(self, number: int, error: errors.TaskFailed) -> None:
        held = self._locks.get(number)
        if held is not None:
            held.lost = error.again()

    def unlock(self, request: grouplink.Task, held: grouplink.Lock) -> None:
        """End a lock, or the wait for it."""
        with self._lock:
            del self._locks[held.number]
            link = held.link
            if link is None:
                # No desk has heard of it.
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

    # Hosts.

    def _use_members(self, members: groups.MemberList) -> None:
        """Use the hosts of a list, unless it is old; holds the lock."""
        if members.revision <= self._revision or not members.hosts:
            # Without hosts, the former ones are asked until there are others.
            return
        self._revision = members.revision
        hosts = {host.host_id: host for host in members.hosts}
        for host_id, link in [*self._links.items()]:
            host = hosts.pop(host_id, None)
            link.listed = host is not None
            link.host = host or link.host._replace(members=0)
        for host in hosts.values():
            link = grouplink.Link(host, self._lock)
            self._links[host.host_id] = link
            link.thread = threading.Thread(
                target=self._serve,
                args=(link,),
                name=f"fpgapool-group-{host.host_id}",
                daemon=True,
            )
            link.thread.start()
        for link in [*self._links.values()]:
            if not link.host.members:
                self._leave(link)
            link.changed.notify_all()

    def _leave(self, link: grouplink.Link) -> None:
        """Leave a host without members, unless one is locked."""
        is_connected = link.wire is not None and not link.broken
        if is_connected and self._has_lock(link):
            # It stays until the lock ends.
            return
        if not link.listed:
            self._forget(link)
        if link.unanswered and any(
            one.host.members for one in self._links.values()
        ):
            # They might wait there for ever.
            link.give_up()
        elif not link.wanted and link.wire is not None and not link.wire.leads:
            # Its thread receives, and would not notice.
            link.give_up()
        link.changed.notify_all()

    def _leave_locked(self) -> None:
        """Move tasks from hosts where others' locks have all members."""
        links = self._links.values()
        if any(link.has_room() and not link.locked for link in links):
            for link in links:
                if (
                    link.locked
                    and link.unanswered
                    and not self._has_lock(link)
                ):
                    link.give_up()
                    link.changed.notify_all()

    def _has_lock(self, link: grouplink.Link) -> bool:
        return any(
            held.link is link and held.granted and held.lost is None
            for held in self._locks.values()
        )

    def _forget(self, link: grouplink.Link) -> None:
        link.wanted = False
        if self._links.get(link.host.host_id) is link:
            del self._links[link.host.host_id]

    def _serve(self, link: grouplink.Link) -> None:
        """Keep a host connected, and receive when no other thread does."""
        pause_s = _FIRST_PAUSE_S
        unauthorized_since_s: float | None = None
        while True:
            with self._lock:
                is_over = not link.wanted or self.failure is not None
                host = link.host
            if is_over:
                self._lose_tasks(link)
                return
            try:
                wire = grouplink.connect(
                    host, self._access, self._door, self._window_tasks
                )
            except grouplink.Refused as exc:
                now = time.monotonic()
                unauthorized_since_s = unauthorized_since_s or now
                patient = now < unauthorized_since_s + _PATIENCE_S
                if exc.code in _FATAL or not patient:
                    self.fail(errors.TaskFailed(exc.code, exc.message))
                    return
            except errors.TooManyOpenFiles as exc:
                self.fail(exc)
                return
            except (OSError, frames.ProtocolError, errors.FpgapoolError):
                unauthorized_since_s = None
            else:
                pause_s, unauthorized_since_s = _FIRST_PAUSE_S, None
                self._attend(link, wire)
                continue
            self._ask_door()
            with self._lock:
                if link.wanted and self.failure is None:
                    link.changed.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _ask_door(self) -> None:
        """Ask where the group is now, as a desk cannot be reached."""
        try:
            members = self._outages.ask(self._has_desk)
        except errors.FpgapoolError as exc:
            self.fail(exc)
            return
        with self._lock:
            if members is not None and self.failure is None:
                self._use_members(members)
                self._go_on()

    def _has_desk(self) -> bool:
        with self._lock:
            return any(link.wire is not None for link in self._links.values())

    def _attend(self, link: grouplink.Link, wire: grouplink.Wire) -> None:
        """Use a connection until it is lost, or not wanted any more."""
        self._outages.end()
        with self._lock:
            link.connected(wire)
            self._learn_limit()
            self._leave_locked()
            for number in link.stale_locks:
                link.send(records.header(groups.UNLOCK, number))
            link.stale_locks.clear()
            # Tasks of locks do not wait for a connection.
            link.flush()
            self._go_on()
        while self._is_needed(link, wire):
            self._lead(
                link,
                lambda: (
                    not link.wanted
                    or (wire.leads and not self._needs_its_thread(link))
                ),
            )
        with contextlib.suppress(OSError):
            if not link.broken:
                wire.say_goodbye()
        self._lose_tasks(link)
        wire.close()

    def _learn_limit(self) -> None:
        """Use the limit of the strictest desk; holds the lock."""
        self._most_bytes = min(
            (
                link.wire.opened.max_task_bytes
                for link in self._links.values()
                if link.wire is not None
            ),
            default=group.MAX_TASK_BYTES,
        )

    def _is_needed(self, link: grouplink.Link, wire: grouplink.Wire) -> bool:
        """Wait until this thread has to receive.

        :returns: False if the connection is over.
        """
        with self._lock:
            while link.wanted and not link.broken:
                if not link.led and (
                    not wire.leads or self._needs_its_thread(link)
                ):
                    link.led = True
                    return True
                link.changed.wait()
            while link.led:
                wire.shutdown()
                link.changed.wait(_FIRST_PAUSE_S)
            return False

    def _lose_tasks(self, link: grouplink.Link) -> None:
        """Let the tasks of a lost connection go elsewhere."""
        error = errors.TaskFailed(
            codes.LOCK_LOST, "the connection was lost with the lock"
        )
        with self._lock:
            link.wire, link.broken = None, False
            self._learn_limit()
            link.unsent.clear()
            link.received.clear()
            if not link.listed:
                self._forget(link)
            lost = [*link.unanswered.values()]
            link.unanswered.clear()
            link.followed = 0
            self._sent -= len(lost)
            ended: list[tuple[grouplink.Task, errors.FpgapoolError]] = []
            for task in reversed(lost):
                failure: errors.FpgapoolError | None = error
                if task.lock is None or task.kind == groups.LOCK:
                    failure = self._wait_again(task)
                else:
                    # Part of them may have changed the core's state.
                    task.lock.lost = error.again()
                if failure is not None:
                    ended.append((task, failure))
            for number, held in self._locks.items():
                if held.link is not link:
                    continue
                if held.granted and not link.wanted:
                    held.lost = held.lost or error.again()
                if held.lost is not None:
                    link.stale_locks.add(number)
            self._go_on()
        for task, failure in ended:
            task.finish(failure)

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
            if wire is not None and not wire.leads:
                with contextlib.suppress(OSError):
                    wire.say_goodbye()
                wire.shutdown()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.FpgapoolError(
                codes.SESSION_FORKED,
                "the group was opened by another process",
            )


def _is_over(
    link: grouplink.Link, task: grouplink.Task, key: tuple[int, int]
) -> bool:
    """Whether a task has ended, or has moved to another host."""
    return task.done or link.unanswered.get(key) is not task


def _end(
    task: grouplink.Task, error: errors.FpgapoolError | None = None
) -> collections.abc.Callable[[], None]:
    return functools.partial(task.finish, error)
