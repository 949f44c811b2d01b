# SPDX-License-Identifier: Apache-2.0

"""The desk's process: carries out the decisions of the queues.

The main thread owns queues, rings and members. Threads that accept clients,
receive frames and talk to the agent only pass calls to it.
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

# The longest time for which results are batched.
_LATE_S = 0.005
# How long locks must have all members before clients are sent to other hosts.
_LOCKED_S = 0.1
# How long a revoked client may still receive answers.
_GOODBYE_S = 1.0
# Clients per message with counts.
_COUNTS_CLIENTS = 256
# How long the counts of a revoked client are kept for its agent.
_REVOKED_S = 60.0


class _News:
    """What clients know of their group. While locks have all members here,
    clients send their tasks to another host.

    :ivar due_s: when to notify clients; None: not now.
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
        """Set whether locks have all members; return whether that is news."""
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
        """Notify a client."""
        if self._hosts is not None:
            document = self._hosts.document()
            document["locked"] = self._is_locked
            port.notify(groups.MEMBERS, 0, document)


class _Totals:
    """Counts of clients since the process began, for its agent.

    :ivar boot_id: names this process, whose counts begin at 0.
    """

    def __init__(self) -> None:
        self.boot_id = f"{time.time_ns()}-{os.getpid()}"
        self._totals: dict[str, model.Usage] = {}
        self._revoked_s: dict[str, float] = {}

    def admitted(self, client_id: str) -> None:
        """Keep the counts of a client."""
        self._revoked_s.pop(client_id, None)

    def revoked(self, client_id: str, now: float) -> None:
        """Keep the counts of a client for a while."""
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
            total.waiting, total.running = counts.waiting, counts.running
        for client_id, revoked_s in [*self._revoked_s.items()]:
            if now >= revoked_s + _REVOKED_S:
                del self._revoked_s[client_id]
                totals.pop(client_id, None)

    def page(
        self, clients: Container[str], after: str = ""
    ) -> dict[str, typing.Any]:
        """Return the counts of clients whose names are greater.

        :param clients: those that are connected.
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

    :raises process.Taken: if another process is this desk.
    :raises OSError: if a socket or directory cannot be made.
    """

    is_spent = False

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
        # Clients with batched results, and the time to send them.
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
        """Serve until the agent, or the lack of one, ends the desk."""
        self._sockets.serve()
        self._members.serve()
        LOG.info(
            "desk of group %s, data port %s",
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
        """End the process, from any thread."""
        LOG.info("the desk ends: %s", reason)
        self._loop.call(self._loop.stop)

    # Clients.

    def attach(
        self,
        client_id: str,
        channel: ports.Channel,
        shutdown: Callable[[], None],
        application: str,
    ) -> ports.ClientPort:
        """Let a client send records; an earlier connection of it ends."""
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
        """Handle the end of a client's connection."""
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
        # A client without an application has its blocks to itself.
        own = f"\0{port.client_id}"
        port.client.scope = access.project_id, application or own
        port.account = self._accounts.of(access.project_id)
        self._clients[port.client_id] = port
        self._loop.add(port)
        self._news.send_to(port)

    def _owner(self, client_id: str) -> str:
        """Return the owner whose tasks follow each other without clearing."""
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
            # What it sent before still counts.
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
            # Its waiting tasks were answered; this ends the connection.
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
        ran = kind != records.MISS
        task = self._queues.ended(number, busy_ns * 1e-9, now, ran)
        if task is None:
            return
        if task.task_id != task_id:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the result belongs to another task"
            )
        port = self._port_of(task.client)
        if port is not None:
            port.answered(task)
            if port.send_result(busy_ns, *parts):
                if not self._late:
                    self._late_due_s = now + _LATE_S
                self._late.add(port)

    def _port_of(self, client: model.Client) -> ports.ClientPort | None:
        """Return the port of a client, unless another one now has its name."""
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
        """Carry out the decisions of the queues; repeat if a member fails."""
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
            # It was lost after this decision, with this task.
            return
        if not member.start(
            task.payload, bool(task.blocks), clear, task.client.scope, now
        ):
            LOG.error("member dropped: its ring has no room")
            self._members.forget(member)
            return
        if len(task.payload) > 1:
            # Not kept, because its room in the client's ring is needed.
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
        """Run a function of the agent's connection in the loop's thread."""

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
            LOG.info("the desk ends: neither agent nor client")
            self._loop.stop()

    def _obey(self, message: messages.Message) -> dict[str, typing.Any]:
        operation, arguments = orders.parse(message)
        match operation:
            case "status":
                # Agents request it every second.
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
                LOG.info("the desk ends: requested by its agent")
                self._loop.stop()
        return {}

    def _admit(self, clients: list[connections.Access]) -> None:
        """Allow more clients to attach."""
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
        """Follow an order: revoke the clients that it does not admit.

        :param arbitration: as in the settings; None: as before.
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
        """Notify clients on which hosts the group has members.

        :param spares_member: whether one member here is reserved for clients
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
            "members": self._members.status(),
            "clients": len(self._clients),
            "admitted": len(self._connections.client_ids),
            "data_port": self._sockets.tcp_port,
            "data_socket": self._settings.data_socket,
            "member_socket": self._settings.member_socket,
            "certificate_sha256": self._sockets.certificate_sha256(),
        }
