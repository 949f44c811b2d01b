# SPDX-License-Identifier: Apache-2.0

"""The desk's process: carries out the decisions of the queues.

The main thread owns queues, rings and members. The threads that accept
clients, receive frames and serve the agent only pass calls to it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import typing
from collections.abc import Callable
from collections.abc import Container
from collections.abc import Mapping

from fpgapool.agent.child import control
from fpgapool.agent.child import crew
from fpgapool.agent.child import process
from fpgapool.agent.child import room as rooms
from fpgapool.agent.child import sockets
from fpgapool.agent.groupdesk import accounts
from fpgapool.agent.groupdesk import connections
from fpgapool.agent.groupdesk import loop as loops
from fpgapool.agent.groupdesk import members as group_members
from fpgapool.agent.groupdesk import orders
from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk import settings as desk_settings
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

LOG = logging.getLogger(__name__)

# Maximum time for which results are batched.
_LATE_S = 0.005
# Time for which locks hold all members before clients use other hosts.
_LOCKED_S = 0.1
# Time for which a revoked client may still receive answers.
_GOODBYE_S = 1.0
# Maximum number of clients in one message with counts.
_COUNTS_CLIENTS = 128
# Time for which a revoked client's counts are kept for the agent.
_REVOKED_S = 60.0


class _News:
    """What clients are notified of. While locks hold all members here, clients
    send their tasks to other hosts.

    :ivar due_s: when to notify clients that locks hold all members, or None.
    """

    def __init__(self) -> None:
        self.due_s: float | None = None
        self.is_watching = False
        self._hosts: groups.MemberList | None = None
        self._is_locked = False

    def take(self, hosts: groups.MemberList) -> bool:
        """Set the hosts of the group; return whether they changed."""
        known = self._hosts
        if known is not None and hosts.revision <= known.revision:
            return False
        self._hosts = hosts
        return True

    def update_locked(self, have_all: bool, now: float) -> bool:
        """Set whether locks hold all members; return whether to notify."""
        self.is_watching = have_all
        if not have_all:
            was_locked, self._is_locked = self._is_locked, False
            self.due_s = None
            return was_locked
        if self._is_locked:
            return False
        if self.due_s is None:
            self.due_s = now + _LOCKED_S
        if now < self.due_s:
            return False
        self.due_s = None
        self._is_locked = True
        return True

    def send(self, clients: Mapping[str, ports.ClientPort]) -> None:
        for port in [*clients.values()]:
            self.send_to(port)

    def send_to(self, port: ports.ClientPort) -> None:
        if self._hosts is not None:
            document = self._hosts.document()
            document["locked"] = self._is_locked
            port.notify(groups.MEMBERS, 0, document)


class _Totals:
    """Clients' counts since this process started, for its agent.

    :ivar boot_id: identifies this process, whose counts start at 0.
    """

    def __init__(self) -> None:
        self.boot_id = f"{time.time_ns()}-{os.getpid()}"
        self._totals: dict[str, model.Usage] = {}
        self._revoked_s: dict[str, float] = {}

    def admitted(self, client_id: str) -> None:
        """Keep a client's counts for as long as it is admitted."""
        self._revoked_s.pop(client_id, None)

    def revoked(self, client_id: str, now: float) -> None:
        """Keep a client's counts for a limited time from now."""
        self._revoked_s[client_id] = now

    def add(self, taken: Mapping[str, model.Usage], now: float) -> None:
        """Add the counts of a period, which ends now."""
        totals = self._totals
        for client_id in taken.keys() - totals.keys():
            totals[client_id] = model.Usage()
        for client_id, total in totals.items():
            counts = taken.get(client_id) or model.Usage()
            total.arrived += counts.arrived
            total.ended += counts.ended
            total.busy_s += counts.busy_s
            total.input_bytes += counts.input_bytes
            total.output_bytes += counts.output_bytes
            total.waiting, total.running = counts.waiting, counts.running
        for client_id, revoked_s in [*self._revoked_s.items()]:
            if now >= revoked_s + _REVOKED_S:
                del self._revoked_s[client_id]
                totals.pop(client_id, None)

    def page(
        self, clients: Container[str], after: str = ""
    ) -> dict[str, typing.Any]:
        """Return a page of counts, ordered by the clients' ids.

        :param clients: ids of the connected clients.
        :param after: the page starts after this id.
        """
        names = sorted(one for one in self._totals if one > after)
        return {
            "boot_id": self.boot_id,
            "clients": {
                client_id: {
                    **dataclasses.asdict(self._totals[client_id]),
                    "connected": client_id in clients,
                }
                for client_id in names[:_COUNTS_CLIENTS]
            },
            "more": len(names) > _COUNTS_CLIENTS,
        }


class Desk:
    """The desk of one group on this host.

    :raises process.Taken: if another process already serves this desk.
    :raises OSError: if a socket or directory cannot be created.
    """

    #: It opens nothing later.
    room = rooms.Room()

    def __init__(self, settings: desk_settings.DeskSettings) -> None:
        self._settings = settings
        self._orphan_since_s: float | None = time.monotonic()
        self._lock_fd = process.claim(
            settings.control_socket,
            settings.data_socket,
            settings.member_socket,
        )
        self._queues = queues.Queues(
            len(settings.slots),
            arbitration=settings.arbitration,
            resume_grace_s=settings.resume_grace_s,
            lock_idle_s=settings.lock_idle_s,
            max_waiting_tasks=settings.window_tasks,
            max_task_bytes=settings.max_task_bytes,
        )
        self._loop = loops.RingLoop(
            self._decide,
            self._after_round,
            self._queues.members.has_free,
            self._deadline_s,
        )
        self._newest = control.Newest(
            self._call, self._obey, self._agent_came, self._agent_went
        )
        self._clients: dict[str, ports.ClientPort] = {}
        # Clients with batched results, and the time at which to send these.
        self._late: set[ports.ClientPort] = set()
        self._late_due_s = 0.0
        self._news = _News()
        # Clients admitted since the agent's last complete list.
        self._admitted: set[str] = set()
        self._clear_between = settings.clear_between
        self._revision = 0
        self._totals = _Totals()
        self._goodbyes = crew.Later(_GOODBYE_S, "goodbye")
        self._accounts = accounts.Accounts(
            settings.max_group_project_connections, self._loop.wake
        )
        self._connections = connections.GroupServer(
            settings, self.attach, self.detach, self._accounts
        )
        self._sockets = sockets.Sockets(
            settings,
            self._newest,
            self._connections.serve,
            groups.Hello.parse,
        )
        self._members = group_members.MemberPorts(
            settings.member_socket,
            settings.slots,
            self._loop,
            self._queues,
            self._ended,
            self._notify_member,
            self._decide,
        )

    def run(self) -> None:
        """Serve until the agent ends the desk, or until the desk has had
        neither agent nor client for too long.
        """
        self._sockets.serve()
        self._members.serve()
        LOG.info(
            "the desk serves group %s, data port %s",
            self._settings.group_id,
            self._sockets.tcp_port,
        )
        try:
            self._loop.run()
        finally:
            self._sockets.close()
            self._members.close()
            for port in [*self._clients.values()]:
                port.shutdown()
                port.close()

    def exit(self, reason: str) -> None:
        """End the process; may be called from any thread."""
        LOG.info("the desk is stopping: %s", reason)
        self._loop.call(self._loop.stop)

    # Clients.

    def attach(
        self,
        client_id: str,
        channel: ports.Channel,
        shutdown: Callable[[], None],
        application: str,
    ) -> ports.ClientPort:
        """Let a client send records; its earlier connection ends."""
        port = ports.ClientPort(
            client_id,
            channel,
            shutdown,
            self._queues,
            self._decide,
            self._client_failed,
        )
        self._loop.call(lambda: self._attach(port, application))
        return port

    def detach(self, port: ports.ClientPort, for_good: bool) -> None:
        self._loop.call(lambda: self._detach(port, for_good))

    def _attach(self, port: ports.ClientPort, application: str) -> None:
        now = time.monotonic()
        former = self._clients.get(port.client_id)
        if former is not None:
            self._remove(former)
            former.close()
            self._queues.detach(former.client, now)
            former.shutdown()
        access = self._connections.access(port.client_id)
        if access is None:
            port.close()
            port.shutdown()
            return
        self._orphan_since_s = None
        port.client = self._queues.attach(
            port.client_id, self._owner(port.client_id), access.project_id
        )
        # A client that names no application does not share its blocks.
        own = f"\0{port.client_id}"
        port.client.scope = access.project_id, application or own
        port.account = self._accounts.of(access.project_id)
        self._clients[port.client_id] = port
        self._loop.add(port)
        self._news.send_to(port)

    def _owner(self, client_id: str) -> str:
        """Return a client's owner; members are cleared between owners."""
        access = self._connections.access(client_id)
        if access is None or self._clear_between == group.CLIENTS:
            return client_id
        return access.project_id

    def _detach(self, port: ports.ClientPort, for_good: bool) -> None:
        if self._clients.get(port.client_id) is not port:
            port.close()
            return
        now = time.monotonic()
        if for_good:
            # Handle what the client sent before it closed the connection.
            while port.work(now):
                pass
        if self._clients.get(port.client_id) is not port:
            return
        self._remove(port)
        port.close()
        if for_good:
            self._queues.close(port.client, now)
        else:
            self._queues.detach(port.client, now)
        self._start_orphan_time(now)

    def _client_failed(self, port: ports.ClientPort, reason: str) -> None:
        if self._clients.get(port.client_id) is port:
            self._remove(port)
            port.close()
            self._queues.detach(port.client, time.monotonic())
        port.shutdown()

    def _remove(self, port: ports.ClientPort) -> None:
        del self._clients[port.client_id]
        self._loop.remove(port)
        port.leave()

    def _revoke(self, client_id: str) -> None:
        self._connections.revoke(client_id)
        now = time.monotonic()
        self._totals.revoked(client_id, now)
        self._queues.revoke(client_id, now)
        self._decide(now)
        port = self._clients.get(client_id)
        if port is not None:
            # Its waiting tasks have been answered; a record without a task
            # notifies the client that its connection ends.
            port.fail_task(0, codes.ACCESS_REVOKED)
            self._remove(port)
            self._goodbyes.call(
                lambda: self._loop.call(lambda: self._end(port))
            )

    @staticmethod
    def _end(port: ports.ClientPort) -> None:
        port.close()
        port.shutdown()

    # Tasks.

    def _ended(
        self,
        number: int,
        kind: int,
        task_id: int,
        busy_ns: int,
        parts: ports.Payload,
        now: float,
    ) -> None:
        output_bytes = None
        if kind == records.DONE:
            output_bytes = sum(map(len, parts)) - records.HEADER_BYTES
        task = self._queues.ended(
            number, busy_ns * 1e-9, now, kind != records.MISS, output_bytes
        )
        if task is None:
            return
        if task.task_id != task_id:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                f"the result is for task {task_id}, but task {task.task_id}"
                " is running",
            )
        port = self._port_of(task.client)
        if port is not None:
            port.answered(task)
            if port.send_result(busy_ns, *parts):
                if not self._late:
                    self._late_due_s = now + _LATE_S
                self._late.add(port)

    def _port_of(self, client: model.Client) -> ports.ClientPort | None:
        """Return a client's port, unless a newer client has its id."""
        port = self._clients.get(client.client_id)
        return port if port is not None and port.client is client else None

    def _after_round(self, now: float) -> None:
        if self._late and now >= self._late_due_s:
            late, self._late = self._late, set()
            for port in late:
                port.send_late()
        locks, news = self._queues.locks, self._news
        if (locks.held or news.is_watching) and news.update_locked(
            locks.have_all, now
        ):
            news.send(self._clients)

    def _decide(self, now: float) -> None:
        """Carry out the queues' decisions until there are no more; a member
        that fails causes new ones.
        """
        due_s = self._queues.deadline_s
        if due_s is not None and now >= due_s:
            self._queues.expire(now)
        while decisions := self._queues.decide(now):
            for decision in decisions:
                if decision.__class__ is model.Start:
                    self._start(now, *decision)
                else:
                    self._carry_out(decision)
        if self._orphan_since_s is not None:
            self._check_orphan(now)

    def _start(
        self, now: float, number: int, task: model.Task, clear: bool
    ) -> None:
        member = self._members.get(number)
        if member is None:
            # The member and its task were lost after this decision.
            return
        if not member.start(
            task.payload, bool(task.blocks), clear, task.client.scope, now
        ):
            LOG.error("member dropped: its ring has no room")
            self._members.forget(member)
            return
        if len(task.payload) > 1:
            # A long task is not kept: its space in the client's ring is
            # reused.
            task.payload = None

    def _carry_out(self, decision: model.Decision) -> None:
        match decision:
            case model.Answer(task, code):
                port = self._port_of(task.client)
                if port is not None:
                    port.answered(task)
                    port.fail_task(task.task_id, code)
            case model.Locked(client, lock_id, number, clear):
                member = self._members.get(number)
                if member is not None and not member.keep(clear, client.scope):
                    self._members.forget(member)
                elif client.client_id in self._clients:
                    self._clients[client.client_id].notify(
                        groups.LOCKED, lock_id
                    )
            case model.Unlocked(client, lock_id, code) | model.LockRefused(
                client, lock_id, code
            ):
                port = self._clients.get(client.client_id)
                if port is not None and code != codes.OK:
                    text = ports.text_of(code)
                    port.notify(
                        groups.UNLOCK, lock_id, {"code": code, "message": text}
                    )
            case model.Left(number):
                self._members.stop(number)

    # The agent.

    def _notify_member(self, member: dict[str, object]) -> None:
        self._newest.notify("member", **member)
        self._newest.flush()

    def _call(self, function: Callable[[], None]) -> None:
        """Run a function for the agent's connection in the loop's thread."""

        def run() -> None:
            function()
            self._newest.flush()
            self._decide(time.monotonic())

        self._loop.call(run)

    def _agent_came(self) -> None:
        self._admitted.clear()
        self._orphan_since_s = None

    def _agent_went(self) -> None:
        if self._settings.exit_with_agent:
            self._loop.stop()
        self._start_orphan_time(time.monotonic())

    def _start_orphan_time(self, now: float) -> None:
        if self._newest.agent is None and not self._clients:
            self._orphan_since_s = now

    def _deadline_s(self) -> float | None:
        dues = [self._queues.deadline_s]
        if self._late:
            dues.append(self._late_due_s)
        dues.append(self._news.due_s)
        if self._orphan_since_s is not None:
            dues.append(self._orphan_since_s + self._settings.orphan_s)
        return min((due for due in dues if due is not None), default=None)

    def _check_orphan(self, now: float) -> None:
        since_s = self._orphan_since_s
        if since_s is not None and now >= since_s + self._settings.orphan_s:
            LOG.info("the desk is stopping: it has neither agent nor client")
            self._loop.stop()

    def _obey(self, message: messages.Message) -> dict[str, typing.Any]:
        operation, arguments = orders.parse(message)
        match operation:
            case "status":
                # Agents request the status every second, so check here.
                self._members.drop_forgetful()
                return {"status": self.status()}
            case "members":
                self._members.want(**arguments)
            case "admit":
                self._admit(**arguments)
            case "keep":
                self._keep(**arguments)
            case "hosts":
                self._set_hosts(**arguments)
            case "counts":
                now = time.monotonic()
                self._totals.add(self._queues.take_counts(now), now)
                return self._totals.page(clients=self._clients, **arguments)
            case "exit":
                LOG.info("the desk is stopping: requested by its agent")
                self._loop.stop()
        return {}

    def _admit(self, clients: list[connections.Access]) -> None:
        self._connections.admit(clients)
        for client in clients:
            self._admitted.add(client.client_id)
            self._totals.admitted(client.client_id)

    def _keep(
        self,
        revision: int = 0,
        arbitration: str | None = None,
        clear_between: str | None = None,
    ) -> None:
        """Apply an order: revoke all clients that were not admitted for it.

        :param arbitration: as in the settings; None for no change.
        :param clear_between: as in the settings; None for no change.
        """
        if arbitration is not None:
            self._queues.arbitrate(arbitration)
        if clear_between is not None:
            self._clear_between = clear_between
            for port in self._clients.values():
                port.client.owner = self._owner(port.client_id)
        for client_id in self._connections.client_ids:
            if client_id not in self._admitted:
                self._revoke(client_id)
        self._admitted.clear()
        self._revision = revision

    def _set_hosts(
        self, members: groups.MemberList, spares_member: bool = True
    ) -> None:
        """Notify clients of the hosts on which the group has members.

        :param spares_member: whether a member here is reserved for clients
            without locks.
        """
        self._queues.locks.spare_member(spares_member)
        if self._news.take(members):
            self._news.send(self._clients)

    def status(self) -> dict[str, typing.Any]:
        return {
            "pid": os.getpid(),
            "boot_id": self._totals.boot_id,
            "revision": self._revision,
            "group_id": self._settings.group_id,
            "introduced": True,
            "members": self._members.status(),
            "clients": len(self._clients),
            "admitted": len(self._connections.client_ids),
            "data_port": self._sockets.tcp_port,
            "data_socket": self._settings.data_socket,
            "member_socket": self._settings.member_socket,
            "certificate_sha256": self._sockets.certificate_sha256(),
        }
