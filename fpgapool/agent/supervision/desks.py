# SPDX-License-Identifier: Apache-2.0

"""The groups' desks on a host: one process for each group with members.

A desk is started for the first member, once the conductor's order for the
group has arrived. It ends with the group, or when the group has neither
members nor clients here. It may outlive its agent; see :mod:`.children`.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import socket
import typing
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot
from fpgapool.agent.slots import table
from fpgapool.agent.supervision import cgroups
from fpgapool.agent.supervision import children
from fpgapool.agent.supervision import forks
from fpgapool.agent.supervision import processes
from fpgapool.objects import bounds
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

#: Time for which reports contain the last counts of a desk that has ended.
LINGER_S = 60.0
#: Maximum number of clients in one message.
CLIENTS_AT_ONCE = 128
# A desk may count twice as many clients as it has, because it keeps the counts
# of revoked ones for a while, and as many more if it has no order yet.
_MORE_CLIENTS = 10_000

_STATUS = shapes.Members(
    {
        "members": shapes.list_of(
            shapes.Members(
                {
                    "device": shapes.text(255),
                    "slot": shapes.integer(0),
                    "generation": messages.GENERATION,
                    "state": slot.CODE,
                },
                others=True,
            )
        ),
        "clients": slot.COUNT,
        "revision": slot.COUNT,
        "data_port": shapes.nullable(slot.COUNT),
        "certificate_sha256": slot.CERTIFICATE,
    },
    {"introduced": shapes.flag},
    others=True,
)
_COUNTS = shapes.Members(
    {
        "boot_id": shapes.text(64, printable=True),
        "more": shapes.flag,
        "clients": shapes.mapping_of(
            shapes.Members(
                {
                    **dict.fromkeys(
                        ("ended", "arrived", "waiting", "running"), slot.COUNT
                    ),
                    "busy_s": shapes.number(0, 10**12),
                    "connected": shapes.flag,
                },
                # Desks of earlier releases do not count bytes.
                dict.fromkeys(("input_bytes", "output_bytes"), slot.COUNT),
                others=True,
            ),
            name=shapes.text(64, least=1, printable=True),
        ),
    },
    others=True,
)

Members: typing.TypeAlias = Mapping[orders.Key, table.Member]


def member_path(state_dir: str, group_id: str) -> str:
    """Return the path of the socket where a desk accepts its members."""
    return _path(state_dir, group_id, "member")


def longest_path(state_dir: str) -> str:
    """Return a path as long as the longest path of a desk's sockets."""
    return _path(state_dir, str(uuid.UUID(int=0)), "control")


def _path(state_dir: str, group_id: str, name: str) -> str:
    return os.path.join(_desks_dir(state_dir), group_id, f"{name}.sock")


def _desks_dir(state_dir: str) -> str:
    return os.path.join(os.path.abspath(state_dir), "desks")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures about a group's desk, for metrics.

    :ivar tasks: number of tasks that have ended in the group's desk processes
        that this agent has started or adopted.
    :ivar busy_s: slot-seconds of these tasks.
    """

    group_id: str
    members: int
    clients: int
    waiting: int
    running: int
    tasks: int
    busy_s: float


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class _DeskProcess(children.Child):
    """A group's process, which may be absent.

    :ivar epoch: epoch of the leader that sent ``order``.
    :ivar order: the current order.
    :ivar members: slots that the group has here, according to the slot table.
    :ivar joined: slots that have joined the process, with their generations.
    :ivar sent: the members in the last request to this process, or None.
    :ivar introduced: whether the process reads who a member is.
    :ivar revision: revision of the order that the process follows.
    :ivar counts: the last complete counts.
    :ivar partial: the pages of the next counts that have arrived so far.
    :ivar is_counted: whether this agent has received complete counts.
    :ivar tasks: number of tasks that have ended.
    :ivar busy_s: slot-seconds of these tasks.
    """

    group_id: str
    epoch: int = 0
    order: objects.GroupOrder | None = None
    members: Members = dataclasses.field(default_factory=dict)
    joined: dict[orders.Key, int] = dataclasses.field(default_factory=dict)
    sent: dict[orders.Key, int] | None = None
    boot_id: str = ""
    introduced: bool = False
    revision: int = 0
    clients: int = 0
    data_port: int | None = None
    certificate_sha256: str | None = None
    counts: dict[str, objects.ClientCounts] = dataclasses.field(
        default_factory=dict
    )
    partial: dict[str, objects.ClientCounts] = dataclasses.field(
        default_factory=dict
    )
    is_counted: bool = False
    idle_since_s: float = 0.0
    tasks: int = 0
    busy_s: float = 0.0

    @property
    def is_wanted(self) -> bool:
        return (
            self.order is not None
            and not self.order.deleted
            and bool(self.members)
        )

    @property
    def is_deleted(self) -> bool:
        return self.order is not None and self.order.deleted

    @property
    def is_reported(self) -> bool:
        if self.members or self.pidfd is not None:
            return True
        return not self.is_deleted and bool(self.boot_id or self.order)

    def report(self, host: table.HostFacts) -> objects.GroupReport:
        runs = self.link.sock is not None and self.link.heard
        if self.order is None:
            # The desk may follow an order that an earlier agent received.
            revision = 0
        elif runs or self.is_wanted:
            revision = self.revision if runs else 0
        else:
            revision = self.order.revision
        return objects.GroupReport(
            group_id=self.group_id,
            revision=revision,
            desk_boot_id=self.boot_id,
            endpoints=table.endpoints(host, self.data_port) if runs else (),
            certificate_sha256=self.certificate_sha256 if runs else None,
            clients=tuple(self.counts.values()),
        )

    def figures(self) -> Figures:
        return Figures(
            group_id=self.group_id,
            members=len(self.joined) if self.pidfd is not None else 0,
            clients=self.clients,
            waiting=sum(one.waiting for one in self.counts.values()),
            running=sum(one.running for one in self.counts.values()),
            tasks=self.tasks,
            busy_s=self.busy_s,
        )

    def take_partial(self, boot_id: str) -> bool:
        """Adopt the collected counts, which are now complete.

        :returns: whether they are the first from a new process.
        """
        # Incomplete counts must not be used: a client that is missing from
        # them would be counted again, from 0, the next time.
        is_new = self.boot_id != boot_id
        former = {} if is_new else self.counts
        self.counts, self.partial = self.partial, {}
        for name, one in self.counts.items():
            old = former.get(name)
            self.tasks += one.ended - (old.ended if old else 0)
            self.busy_s += one.busy_s - (old.busy_s if old else 0.0)
        self.boot_id = boot_id
        self.is_counted = True
        return is_new


class Desks(children.Keeper[_DeskProcess]):
    """Keeps the host's desks alive, and sends them their orders.

    Everything except :meth:`close` runs in the loop's thread.

    :param emit: passes events of members to the slot table; see
        :class:`.workers.Workers`.
    :param changed: called when the report about the groups has changed.
    """

    KIND = "desk"
    MODULE = processes.DESK_MODULE

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        loop: agent_loop.Loop,
        keys: Iterable[orders.Key],
        emit: Callable[..., None],
        changed: Callable[[], None],
        server: forks.ForkServer,
        groups: cgroups.Cgroups,
    ) -> None:
        limits = cgroups.Limits(
            memory_bytes=settings.desk_memory_bytes,
            pids=settings.worker_pids_max,
        )
        super().__init__(settings, loop, server, groups, limits)
        self._keys = list(keys)
        self._emit = emit
        self._changed = changed
        self._host = agent_settings.host_facts(settings)
        self._desks: dict[str, _DeskProcess] = {}
        self._unreported = set(self._keys)

    def start(self) -> None:
        directory = pathlib.Path(_desks_dir(self._state_dir))
        if directory.is_dir():
            for path in sorted(directory.iterdir()):
                self._adopt(self._desk(path.name))

    def _desk(self, group_id: str) -> _DeskProcess:
        desk = self._desks.get(group_id)
        if desk is None:
            desk = self._desks[group_id] = self._link(
                _DeskProcess(
                    title=f"Desk of group {group_id}",
                    name=f"desk-{group_id}",
                    control_path=_path(self._state_dir, group_id, "control"),
                    data_path=_path(self._state_dir, group_id, "data"),
                    log_file=children.log_file(
                        self._settings, f"desk-{group_id}.log"
                    ),
                    group_id=group_id,
                    idle_since_s=self._loop.now(),
                )
            )
        return desk

    # Desired state.

    def keep(self, epoch: int, order: objects.GroupOrder) -> None:
        """Store an order, unless it is outdated, and apply it."""
        if order.deleted and order.group_id not in self._desks:
            return
        desk = self._desk(order.group_id)
        if desk.order is not None:
            if (epoch, order.revision) < (desk.epoch, desk.order.revision):
                return
            if order == desk.order and desk.revision == order.revision:
                desk.epoch = epoch
                return
        before = desk.report(self._host)
        desk.epoch, desk.order = epoch, order
        desk.idle_since_s = self._loop.now()
        self._send_order(desk)
        self._run(desk)
        if desk.report(self._host) != before:
            self._changed()

    def set_members(
        self,
        members: Mapping[str, Members],
        unreported: set[orders.Key],
    ) -> None:
        """Set the slots that groups hold here.

        :param unreported: slots whose holders are unknown, because their
            workers have not reported yet.
        """
        self._unreported = unreported
        for group_id in members:
            self._desk(group_id)
        for desk in self._desks.values():
            mine = members.get(desk.group_id, {})
            if mine != desk.members:
                desk.members = mine
                self._run(desk)
            self._send_members(desk)

    def _run(self, desk: _DeskProcess) -> None:
        """Start a desk's process if it is needed and absent."""
        if desk.pidfd is None and desk.timer is None and desk.is_wanted:
            self._take_over(desk)

    def _spawn(self, child: _DeskProcess) -> bool:
        child.timer = None
        return child.is_wanted and super()._spawn(child)

    def tick(self) -> None:
        """Request the status of all desks, and forget unneeded ones."""
        super().tick()
        now = self._loop.now()
        for desk in [*self._desks.values()]:
            if desk.pidfd is not None or desk.members or desk.timer:
                desk.idle_since_s = now
            elif now >= desk.idle_since_s + LINGER_S or desk.is_deleted:
                self._forget(desk)

    def _forget(self, desk: _DeskProcess) -> None:
        # An earlier agent may have started a process whose socket did not
        # exist when this agent looked for it.
        if self._adopt(desk):
            return
        del self._desks[desk.group_id]
        shutil.rmtree(os.path.dirname(desk.control_path), ignore_errors=True)
        self._changed()

    # Actual state.

    def settled(self) -> bool:
        """Whether all running desks have reported complete counts."""
        return all(
            desk.pidfd is None or desk.is_counted
            for desk in self._desks.values()
        )

    def reports(self) -> tuple[objects.GroupReport, ...]:
        return tuple(
            desk.report(self._host)
            for desk in self._desks.values()
            if desk.is_reported
        )

    def figures(self) -> list[Figures]:
        return [
            desk.figures() for desk in self._desks.values() if desk.is_reported
        ]

    def connect(self, project_id: str, group_id: str) -> socket.socket:
        """Return a connection to a desk's data socket.

        :raises: rules.RequestError if none of the project's clients may use
            the group, or if it has no desk here.
        """
        desk = self._desks.get(group_id)
        if (
            desk is None
            or desk.order is None
            or all(one.project_id != project_id for one in desk.order.clients)
        ):
            raise rules.RequestError(
                codes.GROUP_NOT_FOUND, "the group has no desk on this host"
            )
        return children.connect_client(desk.data_path, "the group's desk")

    def dial_for(
        self, key: orders.Key, generation: int
    ) -> socket.socket | None:
        """Return a connection with which a slot can join its group's desk.

        Its first message tells the desk which slot that is, because members
        could name another one.

        :returns: None if the slot is no member with this generation, or the
            desk accepts no connection now.
        """
        for desk in self._desks.values():
            member = desk.members.get(key)
            if member is not None and member.generation == generation:
                return self._dial(desk, key, generation)
        return None

    def _dial(
        self, desk: _DeskProcess, key: orders.Key, generation: int
    ) -> socket.socket | None:
        if not desk.link.heard:
            return None
        sock = processes.dial(member_path(self._state_dir, desk.group_id))
        if sock is not None and desk.introduced:
            member = _member(key, generation)
            try:
                sock.sendall(messages.encode(member))
            except OSError:
                sock.close()
                return None
        return sock

    # Requests.

    def _send_order(self, desk: _DeskProcess) -> None:
        order = desk.order
        if order is None or not desk.link.heard:
            return
        clients = () if order.deleted else order.clients
        for first in range(0, len(clients), CLIENTS_AT_ONCE):
            some = clients[first : first + CLIENTS_AT_ONCE]
            admitted = [
                {
                    "client_id": one.client_id,
                    "project_id": one.project_id,
                    "secret_sha256": one.secret_sha256,
                }
                for one in some
            ]
            self._ask(desk, "admit", {"clients": admitted})
        self._ask(
            desk,
            "keep",
            {
                "revision": order.revision,
                "arbitration": order.arbitration,
                "clear_between": order.clear_between,
            },
        )
        hosts = objects.hosts_from(order.hosts, self._settings.host_uuid)
        self._ask(
            desk,
            "hosts",
            {
                "revision": order.revision,
                "hosts": bounds.fitting(
                    _host(one.seen_in(order.group_id)) for one in hosts
                ),
                "hosts_total": len(hosts),
                "spares_member": self._spares_member(order),
            },
        )
        self._ask_status(desk)

    def _spares_member(self, order: objects.GroupOrder) -> bool:
        """Whether this host reserves a member for clients without locks.

        In each group, only the host with the most members does; among equals,
        the one with the lowest id. If the order is inconclusive, this host
        does.
        """
        members = {one.host_uuid: one.members for one in order.hosts}
        mine = self._settings.host_uuid
        first = max(sorted(members), key=members.__getitem__, default=mine)
        return first == mine or not members.get(mine)

    def _send_members(self, desk: _DeskProcess) -> None:
        if not desk.link.heard:
            return
        wanted = {
            **self._unknown(desk),
            **{
                key: member.generation
                for key, member in desk.members.items()
                if not member.leaves
            },
        }
        if wanted == desk.sent:
            return
        desk.sent = wanted
        members = [_member(*one) for one in wanted.items()]
        self._ask(desk, "members", {"members": members})

    def _unknown(self, desk: _DeskProcess) -> dict[orders.Key, int]:
        """Return joined slots whose holders are unknown; they must stay,
        because they may still be members.
        """
        return {
            key: generation
            for key, generation in desk.joined.items()
            if key in self._unreported
        }

    def _ask(
        self,
        desk: _DeskProcess,
        operation: str,
        members: Mapping[str, object],
    ) -> None:
        desk.link.ask(operation, members, operation)

    def _ask_status(self, child: _DeskProcess) -> None:
        self._ask(child, "status", {})
        if "counts" not in child.link.requests.values():
            # Only one request at a time: the pages of two would be mixed up.
            self._ask(child, "counts", {"after": ""})

    # Methods of the keeper.

    def _children(self) -> Iterable[_DeskProcess]:
        return self._desks.values()

    def _document(self, child: _DeskProcess) -> dict[str, object]:
        order = child.order
        assert order is not None, "a desk needs an order first"
        return {
            **super()._document(child),
            "group_id": child.group_id,
            "slots": [list(key) for key in self._keys],
            "member_socket": member_path(self._state_dir, child.group_id),
            "max_group_project_connections": (
                self._settings.max_group_project_connections
            ),
            "arbitration": order.arbitration,
            "clear_between": order.clear_between,
            "max_task_bytes": order.max_task_bytes,
        }

    def _greet(self, child: _DeskProcess) -> None:
        child.revision = 0
        child.sent = None
        child.partial = {}
        self._ask_status(child)

    def _hung_up(self, child: _DeskProcess) -> None:
        self._changed()

    def _died(self, child: _DeskProcess, how: str | None) -> None:
        child.clients = 0
        # Without the desk, its clients have no tasks.
        child.counts = {
            name: dataclasses.replace(
                counts, waiting=0, running=0, connected=False
            )
            for name, counts in child.counts.items()
        }

    def _unstartable(self, child: _DeskProcess, message: str) -> None:
        LOG.error("%s fails repeatedly: %s", child.title, message)

    def _handle(self, child: _DeskProcess, message: messages.Message) -> None:
        child.link.silent_s = 0.0
        if "event" in message:
            # A member has joined or left; the next status has the details.
            return
        answer = children.ANSWER(message, "answer")
        operation = child.link.requests.pop(answer["id"], None)
        if operation is not None and not answer["ok"]:
            LOG.error(
                "%s refused %s: %s",
                child.title,
                operation,
                answer["error"]["message"],
            )
        elif operation == "status":
            self._take_status(child, _STATUS(message.get("status"), "status"))
        elif operation == "counts":
            self._take_counts(child, _COUNTS(message, "counts"))

    def _take_status(
        self, child: _DeskProcess, status: Mapping[str, typing.Any]
    ) -> None:
        before, is_first = child.report(self._host), not child.link.heard
        members = [
            (one["state"], (one["device"], one["slot"]), one["generation"])
            for one in status["members"]
        ]
        if any(key not in self._keys for _, key, _ in members):
            raise shapes.Invalid("status.members", "must be of this host")
        child.link.heard = child.proved = True
        child.joined = {
            key: generation
            for state, key, generation in members
            if state == "joined"
        }
        child.clients = status["clients"]
        child.introduced = status.get("introduced", False)
        child.revision = status["revision"]
        child.data_port = status["data_port"]
        child.certificate_sha256 = status["certificate_sha256"]
        if is_first:
            self._send_members(child)
            self._send_order(child)
        if child.report(self._host) != before:
            self._changed()
        for state, key, generation in members:
            # Other groups' desks decide about their slots.
            if state == "leaving" and key in child.members:
                self._emit(key, table.SlotTable.member_leaves, generation)

    def _take_counts(
        self, child: _DeskProcess, message: Mapping[str, typing.Any]
    ) -> None:
        page = {
            client_id: objects.ClientCounts(client_id=client_id, **counts)
            for client_id, counts in message["clients"].items()
        }
        child.partial.update(page)
        known = child.order.clients if child.order is not None else ()
        if len(child.partial) > 2 * len(known) + _MORE_CLIENTS:
            raise shapes.Invalid("counts.clients", "are too many")
        if message["more"]:
            self._ask(child, "counts", {"after": max(page)})
            return
        if child.take_partial(message["boot_id"]):
            self._changed()
        needed = child.members or self._unknown(child)
        if not needed and (child.is_deleted or not child.clients):
            # Its last counts have arrived, so they will be reported.
            self._ask(child, "exit", {})


def _member(key: orders.Key, generation: int) -> dict[str, object]:
    return {"device": key[0], "slot": key[1], "generation": generation}


def _host(host: objects.GroupHost) -> dict[str, object]:
    return {
        "host_id": host.host_uuid,
        "members": host.members,
        "endpoints": [dataclasses.asdict(one) for one in host.endpoints],
        "certificate_sha256": host.certificate_sha256,
    }
