# SPDX-License-Identifier: Apache-2.0

"""The desk's process: carries out the decisions of the queues.

The main thread owns queues, rings and members. Threads that accept clients,
receive frames and talk to the agent only hand it calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import selectors
import time
import typing
from collections.abc import Callable

from fpgapool.agent.child import certificate as certificates
from fpgapool.agent.child import control
from fpgapool.agent.child import crew
from fpgapool.agent.child import port as data_ports
from fpgapool.agent.child import process
from fpgapool.agent.groupdesk import accounts
from fpgapool.agent.groupdesk import connections
from fpgapool.agent.groupdesk import loop as loops
from fpgapool.agent.groupdesk import orders
from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk import settings as desk_settings
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import rings
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group

LOG = logging.getLogger(__name__)

# The longest time for which results are kept back.
_LATE_S = 0.005
# Locks that have all members for so long drive other clients away; for shorter
# ones they wait.
_LOCKED_S = 0.1
# How long a revoked client may read its last answers.
_GOODBYE_S = 1.0
# The message with counts has room for so many clients.
_COUNTS_CLIENTS = 256
# How long the counts of a revoked client are kept for its agent.
_REVOKED_S = 60.0

Place: typing.TypeAlias = tuple[str, int]


class Desk:
    """The desk of one group on this host.

    :param settings: from the agent.
    :raises process.Taken: if another process is this desk.
    :raises data_ports.PortUnavailable: if there is no data port.
    :raises OSError: if a socket or directory cannot be made.
    """

    def __init__(self, settings: desk_settings.Settings) -> None:
        self._settings = settings
        self._agent: control.Agent | None = None
        self._orphan_since_s: float | None = time.monotonic()
        for path in (
            settings.control_socket,
            settings.data_socket,
            settings.member_socket,
        ):
            os.makedirs(os.path.dirname(path) or ".", 0o700, exist_ok=True)
        self._lock_fd = process.lock(settings.control_socket + ".lock")
        self._numbers = {
            place: number for number, place in enumerate(settings.slots)
        }
        self._queues = queues.Queues(
            len(settings.slots),
            arbitration=settings.arbitration,
            resume_grace_s=settings.resume_grace_s,
            lock_idle_s=settings.lock_idle_s,
            max_waiting_tasks=settings.window_tasks,
            max_task_bytes=settings.max_task_bytes,
        )
        self._loop = loops.Loop(
            self._decide,
            self._after_round,
            self._queues.has_free_member,
            self._deadline_s,
        )
        self._clients: dict[str, ports.ClientPort] = {}
        # All connected members; those that joined, by number; the slots that
        # shall be members, with their generations; those that have left.
        self._connected: set[ports.MemberPort] = set()
        self._members: dict[int, ports.MemberPort] = {}
        # Clients that may have results which were kept back, until then.
        self._late: set[ports.ClientPort] = set()
        self._late_due_s = 0.0
        self._wanted: dict[Place, int] = {}
        self._left: dict[Place, int] = {}
        self._hosts: groups.MemberList | None = None
        # Since when locks have had all members, and whether clients know.
        self._locked_since_s: float | None = None
        self._is_locked_told = False
        # Clients admitted since the agent last said which ones to keep.
        self._admitted: set[str] = set()
        self._clear_between = settings.clear_between
        self._revision = 0
        # Names this process: its counts, of all clients, begin at 0.
        self._boot_id = f"{time.time_ns()}-{os.getpid()}"
        self._totals: dict[str, model.Counts] = {}
        self._revoked_s: dict[str, float] = {}
        self._goodbyes = crew.Later(_GOODBYE_S, "goodbye")
        self._certificate = (
            certificates.Certificate()
            if settings.tls and settings.data_address is not None
            else None
        )
        self._accounts = accounts.Accounts(
            settings.max_group_project_connections, self._loop.wake
        )
        self._connections = connections.Connections(
            settings, self, self._accounts
        )
        self._port = data_ports.DataPort(
            settings,
            self._connections,
            self._certificate,
            groups.Hello.parse,
        )
        self._control = control.ControlSocket(
            settings.control_socket,
            lambda agent: self._loop.call(lambda: self._agent_came(agent)),
            lambda agent, message: self._loop.call(
                lambda: self._requested(agent, message)
            ),
            lambda agent: self._loop.call(lambda: self._agent_went(agent)),
        )
        self._member_listener = data_ports.listen_unix(settings.member_socket)

    def run(self) -> None:
        """Serve until the agent, or the time without one, ends the desk."""
        selector = selectors.DefaultSelector()
        self._control.register(selector)
        self._port.register(selector)
        crew.CREW.start("accept", process.accept_forever, selector)
        if self._certificate is not None:
            crew.CREW.start("certificate", self._certificate.context)
        self._member_listener.setblocking(False)
        self._loop.watch(self._member_listener.fileno(), self._accept_member)
        LOG.info(
            "desk of group %s, data port %s",
            self._settings.group_id,
            self._port.tcp_port,
        )
        try:
            self._loop.run()
        finally:
            self._control.close()
            self._port.close()
            self._member_listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self._settings.member_socket)
            for port in [*self._clients.values()]:
                port.shutdown()
                port.close()
            for member in self._connected:
                member.close()

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
        # Without an application a client has its blocks for itself.
        own = f"\0{port.client_id}"
        port.client.scope = access.project_id, application or own
        port.account = self._accounts.of(access.project_id)
        self._clients[port.client_id] = port
        self._loop.add(port)
        self._tell_members_to(port)

    def _owner(self, client_id: str) -> str:
        """Return whose tasks follow each other without clearing."""
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
            # What it has sent before counts.
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
        now = self._revoked_s[client_id] = time.monotonic()
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

    # Members.

    def _accept_member(self) -> None:
        try:
            sock, _ = self._member_listener.accept()
        except OSError as exc:
            LOG.warning("accepting a member failed: %s", exc)
            return
        connection = channels.PlainChannel(sock)
        try:
            channel = rings.Channel.create(records.RING_BYTES)
            connection.send_with_fds(b"\0", channel.fds)
        except OSError as exc:
            LOG.warning("a member cannot be connected: %s", exc)
            connection.close()
            return
        channel.forget_fds()
        port = ports.MemberPort(
            connection,
            channel,
            self._member_ready,
            self._ended,
            self._member_left,
        )
        self._connected.add(port)
        self._loop.add(port, first=True)
        self._loop.watch(connection.fileno(), lambda: self._hang_up(port))

    def _hang_up(self, port: ports.MemberPort) -> None:
        """The connection of a member is over; its last records count."""
        if port not in self._connected:
            return
        while port.work(time.monotonic()):
            pass
        if port in self._connected:
            self._forget_member(port)
            self._decide(time.monotonic())

    def _member_ready(
        self, port: ports.MemberPort, document: dict[str, typing.Any]
    ) -> None:
        place = (
            frames.require(document, "device", str),
            frames.require(document, "slot", int),
        )
        generation = frames.require(document, "generation", int)
        if place not in self._numbers or port.place is not None:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "a member of no slot of this host"
            )
        port.place = (*place, generation)
        for other in [*self._connected]:
            if other is not port and other.place and other.place[:2] == place:
                self._forget_member(other)
        self._join_wanted()

    def _join_wanted(self) -> None:
        for port in self._connected:
            if port.place is None or port.number is not None:
                continue
            place, generation = port.place[:2], port.place[2]
            if (
                self._wanted.get(place) == generation
                and self._left.get(place) != generation
            ):
                port.number = self._numbers[place]
                self._members[port.number] = port
                self._queues.join(port.number)
                self._tell_agent_of(port, "joined")

    def _member_left(self, port: ports.MemberPort) -> None:
        """The member has left as it was told to, or without that."""
        if port.number is None and port.place is not None:
            self._report_left(port)
        self._forget_member(port)

    def _report_left(self, port: ports.MemberPort) -> None:
        assert port.place is not None
        self._left[port.place[:2]] = port.place[2]
        self._tell_agent_of(port, "left")

    def _forget_member(self, port: ports.MemberPort) -> None:
        if port not in self._connected:
            return
        self._connected.discard(port)
        self._loop.remove(port)
        self._loop.unwatch(port.sock.fileno())
        if port.number is not None:
            self._members.pop(port.number, None)
            self._queues.lost(port.number, time.monotonic())
            self._tell_agent_of(port, "lost")
        port.close()

    def _tell_agent_of(self, port: ports.MemberPort, what: str) -> None:
        assert port.place is not None
        device, slot, generation = port.place
        LOG.info("slot %d of %s has %s", slot, device, what)
        if self._agent is not None:
            self._agent.send(
                messages.notification(
                    "member",
                    device=device,
                    slot=slot,
                    generation=generation,
                    state=what,
                )
            )
            self._agent.flush()

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
                frames.PROTOCOL_ERROR, "a result of another task"
            )
        port = self._port_of(task.client)
        if port is not None:
            port.answered(task)
            if port.send_result(busy_ns, *parts):
                if not self._late:
                    self._late_due_s = now + _LATE_S
                self._late.add(port)

    def _port_of(self, client: model.Client) -> ports.ClientPort | None:
        """Return the port of a client, unless another one has its name now."""
        port = self._clients.get(client.client_id)
        return port if port is not None and port.client is client else None

    def _after_round(self, now: float) -> None:
        if self._late and now >= self._late_due_s:
            late, self._late = self._late, set()
            for port in late:
                port.send_late()
        if self._queues.is_locked or self._locked_since_s is not None:
            self._update_locked(now)

    def _decide(self, now: float) -> None:
        """Carry out what the queues decide; again if a member fails."""
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
            # It was lost after this was decided, with this task.
            return
        if not member.start(
            task.payload, bool(task.blocks), clear, task.client.scope, now
        ):
            LOG.error("a member does not work: it is dropped")
            self._forget_member(member)
            return
        if len(task.payload) > 1:
            # It is not kept: its room in the client's ring is needed.
            task.payload = None

    def _drop_forgetful(self) -> None:
        """Drop members that have freed their task without an answer."""
        now = time.monotonic()
        for port in [*self._members.values()]:
            if port.has_forgotten(now):
                LOG.error("a member has forgotten its task: it is dropped")
                self._forget_member(port)

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
                    self._forget_member(member)
                elif client.client_id in self._clients:
                    self._clients[client.client_id].tell(
                        groups.LOCKED, lock_id
                    )
            case model.Unlocked(client, lock_id, code) | model.LockRefused(
                client, lock_id, code
            ):
                port = self._clients.get(client.client_id)
                if port is not None and code != codes.OK:
                    text = ports.text_of(code)
                    port.tell(
                        groups.UNLOCK, lock_id, {"code": code, "message": text}
                    )
            case model.Left(number):
                member = self._members.pop(number, None)
                if member is not None:
                    member.number = None
                    member.stop()

    # The agent.

    def _agent_came(self, agent: control.Agent) -> None:
        if self._agent is not None:
            self._agent.hang_up()
        self._agent = agent
        self._admitted.clear()
        self._orphan_since_s = None

    def _agent_went(self, agent: control.Agent) -> None:
        # The loss of a replaced agent does not matter.
        if agent is not self._agent:
            return
        self._agent = None
        if self._settings.exit_with_agent:
            self._loop.stop()
        self._start_orphan_time(time.monotonic())

    def _start_orphan_time(self, now: float) -> None:
        if self._agent is None and not self._clients:
            self._orphan_since_s = now

    def _deadline_s(self) -> float | None:
        dues = [self._queues.deadline_s]
        if self._late:
            dues.append(self._late_due_s)
        if self._locked_since_s is not None and not self._is_locked_told:
            dues.append(self._locked_since_s + _LOCKED_S)
        if self._orphan_since_s is not None:
            dues.append(self._orphan_since_s + self._settings.orphan_s)
        return min((due for due in dues if due is not None), default=None)

    def _check_orphan(self, now: float) -> None:
        since_s = self._orphan_since_s
        if since_s is not None and now >= since_s + self._settings.orphan_s:
            LOG.info("the desk ends: neither agent nor client")
            self._loop.stop()

    def _requested(
        self, agent: control.Agent, message: messages.Message
    ) -> None:
        if agent is not self._agent:
            return
        number = message.get("id")
        try:
            answer = self._obey(orders.parse(message))
        except frames.ProtocolError as exc:
            agent.send(messages.error_reply(number, exc.code, exc.message))
        else:
            agent.send(messages.reply(number, **answer))
        agent.flush()
        self._decide(time.monotonic())

    def _obey(self, order: orders.Order) -> dict[str, typing.Any]:
        """Do what the agent wants; return the members of the reply."""
        match order:
            case orders.Status():
                # Agents ask for it every second.
                self._drop_forgetful()
                return {"status": self.status()}
            case orders.Members(wanted, surplus):
                self._want(wanted, surplus)
            case orders.Admit(clients):
                self._admit(clients)
            case orders.Keep():
                self._keep(order)
            case orders.Hosts(members, spares_member):
                self._queues.spare_member(spares_member)
                self._announce(members)
            case orders.Counts(after):
                return self._count(after)
            case orders.Exit():
                LOG.info("the desk ends: its agent asked for it")
                self._loop.stop()
        return {}

    def _want(self, wanted: dict[Place, int], surplus: int) -> None:
        unknown = wanted.keys() - self._numbers.keys()
        if unknown:
            raise frames.ProtocolError(
                codes.SLOT_NOT_FOUND, f"this host has no slot {min(unknown)}"
            )
        self._wanted = wanted
        for place in [*self._left]:
            if place not in wanted or wanted[place] != self._left[place]:
                del self._left[place]
        for number, port in self._members.items():
            assert port.place is not None
            if wanted.get(port.place[:2]) != port.place[2]:
                self._queues.leave(number)
        self._join_wanted()
        self._queues.expected = len(wanted) - len(self._left)
        self._queues.shrink(surplus)

    def _announce(self, hosts: groups.MemberList) -> None:
        if self._hosts is not None and hosts.revision <= self._hosts.revision:
            return
        self._hosts = hosts
        self._tell_members()

    def _tell_members(self) -> None:
        """Tell all clients of the hosts, and whether this one is locked."""
        for port in [*self._clients.values()]:
            self._tell_members_to(port)

    def _tell_members_to(self, port: ports.ClientPort) -> None:
        if self._hosts is not None:
            document = self._hosts.document()
            document["locked"] = self._is_locked_told
            port.tell(groups.MEMBERS, 0, document)

    def _update_locked(self, now: float) -> None:
        """Tell clients if locks have all members here, or not any more.

        They send their tasks to another host then, if there is one.
        """
        if not self._queues.is_locked:
            since_s = None
        elif self._locked_since_s is None:
            since_s = now
        else:
            since_s = self._locked_since_s
        self._locked_since_s = since_s
        is_told = since_s is not None and now >= since_s + _LOCKED_S
        if is_told != self._is_locked_told:
            self._is_locked_told = is_told
            self._tell_members()

    def _admit(self, clients: list[connections.Access]) -> None:
        self._connections.admit(clients)
        for client in clients:
            self._admitted.add(client.client_id)
            self._revoked_s.pop(client.client_id, None)

    def _keep(self, order: orders.Keep) -> None:
        if order.arbitration is not None:
            self._queues.arbitrate(order.arbitration)
        if order.clear_between is not None:
            self._clear_between = order.clear_between
            for port in self._clients.values():
                port.client.owner = self._owner(port.client_id)
        for client_id in self._connections.client_ids:
            if client_id not in self._admitted:
                self._revoke(client_id)
        self._admitted.clear()
        self._revision = order.revision

    def _count(self, after: str) -> dict[str, typing.Any]:
        totals, now = self._totals, time.monotonic()
        taken = self._queues.take_counts(now)
        for client_id in taken.keys() - totals.keys():
            totals[client_id] = model.Counts()
        for client_id, total in totals.items():
            counts = taken.get(client_id) or model.Counts()
            total.arrived += counts.arrived
            total.ended += counts.ended
            total.busy_s += counts.busy_s
            total.waiting, total.running = counts.waiting, counts.running
        for client_id, revoked_s in [*self._revoked_s.items()]:
            if now >= revoked_s + _REVOKED_S:
                del self._revoked_s[client_id]
                totals.pop(client_id, None)
        told = sorted(one for one in totals if one > after)
        return {
            "boot_id": self._boot_id,
            "clients": {
                client_id: {
                    **dataclasses.asdict(totals[client_id]),
                    "connected": client_id in self._clients,
                }
                for client_id in told[:_COUNTS_CLIENTS]
            },
            "more": len(told) > _COUNTS_CLIENTS,
        }

    def status(self) -> dict[str, typing.Any]:
        """Return the status of this desk for the agent."""
        leaving = self._queues.members
        members = []
        for port in self._connected:
            if port.place is None:
                continue
            device, slot, generation = port.place
            state = "waiting"
            if port.number is not None:
                state = "leaving" if leaving.get(port.number) else "joined"
            members.append(_member(device, slot, generation, state))
        members += [
            _member(*place, generation, "left")
            for place, generation in self._left.items()
        ]
        return {
            "pid": os.getpid(),
            "boot_id": self._boot_id,
            "revision": self._revision,
            "group_id": self._settings.group_id,
            "members": members,
            "clients": len(self._clients),
            "admitted": len(self._connections.client_ids),
            "data_port": self._port.tcp_port,
            "data_socket": self._settings.data_socket,
            "member_socket": self._settings.member_socket,
            "certificate_sha256": None
            if self._certificate is None
            else self._certificate.sha256(),
        }


def _member(
    device: str, slot: int, generation: int, state: str
) -> dict[str, object]:
    return {
        "device": device,
        "slot": slot,
        "generation": generation,
        "state": state,
    }
