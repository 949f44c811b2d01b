# SPDX-License-Identifier: Apache-2.0

"""Find the hosts of a group, connect to them, and leave them."""

from __future__ import annotations

import contextlib
import threading
import time

from fpgapool.client import errors
from fpgapool.client.doors import groupdoor
from fpgapool.client.groups import grouplink
from fpgapool.client.groups import grouptasks
from fpgapool.client.links import link as connecting
from fpgapool.client.links import waiting as waits
from fpgapool.client.links import wires
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

# Pauses between attempts to reach a desk.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0

#: Error codes of a desk after which this client can do nothing more.
_FATAL = frozenset(
    {codes.ACCESS_REVOKED, codes.PROTOCOL_ERROR, codes.TLS_REQUIRED}
)
# Error codes of a door if this client, or the whole group, has ended.
_GONE = frozenset({codes.GROUP_CLIENT_NOT_FOUND, codes.GROUP_NOT_FOUND})
# How long to retry: a desk that has just started rejects its clients until it
# has been notified of them.
_PATIENCE_S = 30.0


class Hosts(grouptasks.Tasks):
    """The hosts of a group, each with a thread that keeps it connected.

    :param door: queried for the hosts when no desk is reachable.
    """

    def __init__(
        self,
        door: groupdoor.GroupDoor,
        access: groupdoor.Access,
        window_tasks: int,
        absence: waits.Absence,
    ) -> None:
        super().__init__(window_tasks)
        self._door = door
        self._access = access
        self._absence = absence
        self._revision = -1
        with self._lock:
            self._use_members(access.members)

    def close(self, deadline_s: float | None) -> bool:
        """Leave the group; return False if it was already left."""
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
                link.thread.join(channel.remaining_s(deadline_s))
        return True

    def _use_members(self, members: groups.MemberList) -> None:
        if members.revision <= self._revision or not members.hosts:
            # If the list is empty, keep trying the previous hosts.
            return
        self._revision = members.revision
        hosts = {host.host_id: host for host in members.hosts}
        for host_id, link in [*self._links.items()]:
            host = hosts.pop(host_id, None)
            link.listed = host is not None
            link.host = host or link.host._replace(members=0)
        for host in hosts.values():
            link = grouplink.HostLink(host, self._lock)
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

    def _leave(self, link: grouplink.HostLink) -> None:
        """Leave a host without members, unless this client holds a lock."""
        is_connected = link.wire is not None and not link.broken
        if is_connected and self._has_lock(link):
            # Wait until the lock ends.
            return
        if not link.listed:
            self._forget(link)
        # Its tasks might otherwise wait there forever.
        stuck = link.unanswered and any(
            one.host.members for one in self._links.values()
        )
        # Its thread may be blocked while receiving.
        blocked = not link.wanted and link.wire and not link.wire.leads
        if stuck or blocked:
            link.give_up()
        link.changed.notify_all()

    def _leave_locked(self) -> None:
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

    def _forget(self, link: grouplink.HostLink) -> None:
        link.wanted = False
        if self._links.get(link.host.host_id) is link:
            del self._links[link.host.host_id]

    def _serve(self, link: grouplink.HostLink) -> None:
        """Keep a host connected, and receive if no other thread does."""
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
                wire = wires.connect(
                    host, self._access, self._door, self._window_tasks
                )
            except connecting.Refused as exc:
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
        """Query the door for the group's hosts, because no desk is reachable.

        The pool is unavailable while neither a desk nor the door responds.
        """
        try:
            members = self._door.members(self._access)
        except errors.TooManyOpenFiles as exc:
            self.fail(exc)
        except (errors.FpgapoolError, OSError) as exc:
            self._note_refusal(exc)
        else:
            self._absence.end()
            with self._lock:
                if self.failure is None:
                    self._use_members(members)
                    self._go_on()

    def _note_refusal(self, exc: errors.FpgapoolError | OSError) -> None:
        with self._lock:
            links = self._links.values()
            has_desk = any(link.wire is not None for link in links)
        if isinstance(exc, errors.FpgapoolError) and exc.code in _GONE:
            # The group's desks may no longer exist to report this.
            self.fail(errors.TaskFailed(codes.ACCESS_REVOKED, exc.message))
        elif isinstance(exc, errors.RequestRejected) or has_desk:
            self._absence.end()
        else:
            try:
                self._absence.note(exc)
            except errors.FrontDoorUnavailable as unavailable:
                self.fail(unavailable)

    def _attend(self, link: grouplink.HostLink, wire: wires.Wire) -> None:
        """Use a connection until it is lost or no longer needed."""
        self._absence.end()
        with self._lock:
            link.connected(wire)
            self._learn_limit()
            self._leave_locked()
            for number in link.stale_locks:
                link.send(records.header(groups.UNLOCK, number))
            link.stale_locks.clear()
            # Send the tasks under a lock, which were queued in the link.
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
        """Use the limit of the strictest desk; call with the lock held."""
        self._most_bytes = min(
            (
                link.wire.opened.max_task_bytes
                for link in self._links.values()
                if link.wire is not None
            ),
            default=group.MAX_TASK_BYTES,
        )

    def _is_needed(self, link: grouplink.HostLink, wire: wires.Wire) -> bool:
        """Wait until this thread must receive; return False at the end."""
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

    def _lose_tasks(self, link: grouplink.HostLink) -> None:
        """Requeue the tasks of a lost connection."""
        error = errors.TaskFailed(
            codes.LOCK_LOST, "the lock was lost with the connection"
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
            ended: list[tuple[grouplink.GroupTask, errors.FpgapoolError]] = []
            for task in reversed(lost):
                failure: errors.FpgapoolError | None = error
                if task.lock is None or task.kind == groups.LOCK:
                    failure = self._wait_again(task)
                else:
                    # Tasks under the lock may have changed the core's state.
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
