# SPDX-License-Identifier: Apache-2.0

"""The desks of groups on a host: one process for each group with members.

A desk is started with the first member, when the conductor's order for the
group is here, and ends with the group, or when the group has neither members
nor clients here. It outlives its agent, as :mod:`fpgapool.agent.supervision.children`
says.
"""

from __future__ import annotations

import collections
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
from fpgapool.agent.slots import table
from fpgapool.agent.supervision import children
from fpgapool.agent.supervision import processes
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

LOG = logging.getLogger(__name__)

#: How long reports show the last counts of a desk that has ended.
LINGER_S = 60.0
#: A message has room for so many clients.
CLIENTS_AT_ONCE = 128

#: Settings that desks take from their agent unchanged.
_SAME = (
    "data_address data_ports tls block_cache_bytes hello_timeout_s log_level"
    " max_group_project_connections"
).split()

Members: typing.TypeAlias = Mapping[orders.Key, table.Member]


def member_path(state_dir: str, group_id: str) -> str:
    """Return the path of the socket where a desk awaits its members."""
    return _path(state_dir, group_id, "member")


def data_path(state_dir: str, group_id: str) -> str:
    """Return the path of the socket of a desk's local clients."""
    return _path(state_dir, group_id, "data")


def longest_path(state_dir: str) -> str:
    """Return a path that is as long as the longest of a desk's sockets."""
    return _path(state_dir, str(uuid.UUID(int=0)), "control")


def _path(state_dir: str, group_id: str, name: str) -> str:
    return os.path.join(_desks_dir(state_dir), group_id, f"{name}.sock")


def _desks_dir(state_dir: str) -> str:
    return os.path.join(os.path.abspath(state_dir), "desks")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Numbers of the desk of one group, for metrics.

    :ivar members: slots that serve the group.
    :ivar clients: those that are connected.
    :ivar waiting: tasks in its queues.
    :ivar running: tasks in its members.
    :ivar tasks: those that have ended since the first desk of the group.
    :ivar busy_s: slot-seconds of these.
    """

    group_id: str
    members: int
    clients: int
    waiting: int
    running: int
    tasks: int
    busy_s: float


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class _Desk(children.Child):
    """The process of one group, or its absence.

    :ivar order: that it shall follow, of the leader with this epoch.
    :ivar members: slots of this host that the group holds.
    :ivar joined: the slots that the process has, with their generations.
    :ivar sent: the members that the process was told last, if it was.
    :ivar boot_id: of the process that the counts are of.
    :ivar revision: of the order that the process follows.
    :ivar clients: how many are connected.
    :ivar counts: of each client, by its name.
    :ivar partial: counts whose rest is not here yet.
    :ivar is_counted: a process has told all counts to this agent.
    :ivar idle_since_s: when it was of use for the last time.
    """

    group_id: str
    epoch: int = 0
    order: objects.GroupOrder | None = None
    members: Members = dataclasses.field(default_factory=dict)
    joined: dict[orders.Key, int] = dataclasses.field(default_factory=dict)
    sent: dict[orders.Key, int] | None = None
    boot_id: str = ""
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

    @property
    def is_wanted(self) -> bool:
        """Whether the process has to be started."""
        return (
            self.order is not None
            and not self.order.deleted
            and bool(self.members)
        )


class Desks(children.Keeper[_Desk]):
    """Keeps the desks of the host alive, and makes them follow their orders.

    Everything but :meth:`close` runs in the loop's thread.

    :param settings: of the agent.
    :param loop: serves the control connections.
    :param keys: all slots of the host.
    :param tell: passes the events of members to the slot table.
    :param changed: called when the next report has news.
    """

    KIND = "desk"

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        loop: agent_loop.Loop,
        keys: Iterable[orders.Key],
        tell: Callable[[orders.Key, table.Change], None],
        changed: Callable[[], None],
    ) -> None:
        super().__init__(settings, loop)
        self._keys = list(keys)
        self._tell = tell
        self._changed = changed
        self._desks: dict[str, _Desk] = {}
        self._untold: frozenset[orders.Key] = frozenset(self._keys)
        # Of all processes, by group.
        self._tasks = collections.Counter[str]()
        self._busy_s = collections.defaultdict[str, float](float)

    def start(self) -> None:
        """Take over the living desks."""
        directory = pathlib.Path(_desks_dir(self._state_dir))
        if directory.is_dir():
            for path in sorted(directory.iterdir()):
                self._adopt(self._desk(path.name))

    def _desk(self, group_id: str) -> _Desk:
        desk = self._desks.get(group_id)
        if desk is None:
            desk = self._desks[group_id] = _Desk(
                title=f"Desk of group {group_id}",
                control_path=_path(self._state_dir, group_id, "control"),
                log_file=children.log_file(
                    self._settings, f"desk-{group_id}.log"
                ),
                group_id=group_id,
                idle_since_s=self._loop.now(),
            )
        return desk

    # What there shall be.

    def keep(self, epoch: int, order: objects.GroupOrder) -> None:
        """Take an order; an older one than the last changes nothing.

        :param epoch: of the leader that sent it.
        :param order: for one group.
        """
        if order.deleted and order.group_id not in self._desks:
            return
        desk = self._desk(order.group_id)
        if desk.order is not None:
            if (epoch, order.revision) < (desk.epoch, desk.order.revision):
                return
            if order == desk.order and desk.revision == order.revision:
                desk.epoch = epoch
                return
        before = self._report(desk)
        desk.epoch, desk.order = epoch, order
        desk.idle_since_s = self._loop.now()
        self._send_order(desk)
        self._run(desk)
        if self._report(desk) != before:
            self._changed()

    def set_members(
        self, members: Mapping[str, Members], untold: frozenset[orders.Key]
    ) -> None:
        """Take the slots that groups have here.

        :param members: by the group's id.
        :param untold: slots that may have any holder: their workers have not
            reported yet.
        """
        self._untold = untold
        for group_id in members:
            self._desk(group_id)
        for desk in self._desks.values():
            mine = members.get(desk.group_id, {})
            if mine != desk.members:
                desk.members = mine
                self._run(desk)
            self._send_members(desk)

    def _run(self, desk: _Desk) -> None:
        """Start a process, if one is wanted and there is none."""
        if desk.pidfd is None and desk.timer is None and desk.is_wanted:
            self._take_over(desk)

    def _spawn(self, child: _Desk) -> None:
        child.timer = None
        if child.is_wanted:
            super()._spawn(child)

    def tick(self) -> None:
        """Ask all desks how they are, and forget those of no use."""
        super().tick()
        now = self._loop.now()
        for desk in [*self._desks.values()]:
            if desk.pidfd is not None or desk.members or desk.timer:
                desk.idle_since_s = now
            elif now >= desk.idle_since_s + LINGER_S or _is_deleted(desk):
                self._forget(desk)

    def _forget(self, desk: _Desk) -> None:
        # An earlier agent may have started a process that was not there yet.
        if self._adopt(desk):
            return
        del self._desks[desk.group_id]
        self._tasks.pop(desk.group_id, None)
        self._busy_s.pop(desk.group_id, None)
        shutil.rmtree(os.path.dirname(desk.control_path), ignore_errors=True)
        self._changed()

    # What there is.

    def settled(self) -> bool:
        """Whether all desks found running have told their counts."""
        return all(
            desk.pidfd is None or desk.is_counted
            for desk in self._desks.values()
        )

    def reports(self) -> tuple[objects.GroupReport, ...]:
        """Return the part of the host's report that is about groups."""
        return tuple(
            self._report(desk)
            for desk in self._desks.values()
            if self._is_reported(desk)
        )

    @staticmethod
    def _is_reported(desk: _Desk) -> bool:
        if desk.members or desk.pidfd is not None:
            return True
        # Else only its directory is left.
        return not _is_deleted(desk) and bool(desk.boot_id or desk.order)

    def _report(self, desk: _Desk) -> objects.GroupReport:
        runs = desk.sock is not None and desk.heard
        if desk.order is None:
            # The desk may follow the one that a former agent had.
            revision = 0
        elif runs or desk.is_wanted:
            revision = desk.revision if runs else 0
        else:
            revision = desk.order.revision
        return objects.GroupReport(
            group_id=desk.group_id,
            revision=revision,
            desk_boot_id=desk.boot_id,
            endpoints=self._endpoints(desk) if runs else (),
            certificate_sha256=desk.certificate_sha256 if runs else None,
            clients=tuple(desk.counts.values()),
        )

    def _endpoints(self, desk: _Desk) -> tuple[objects.Endpoint, ...]:
        settings = self._settings
        return table.endpoints(
            table.HostFacts(
                settings.host_uuid,
                settings.data_network,
                settings.data_address,
            ),
            desk.data_port,
        )

    def figures(self) -> list[Figures]:
        """Return the numbers of all desks."""
        return [
            Figures(
                group_id=desk.group_id,
                members=len(desk.joined) if desk.pidfd is not None else 0,
                clients=desk.clients,
                waiting=sum(one.waiting for one in desk.counts.values()),
                running=sum(one.running for one in desk.counts.values()),
                tasks=self._tasks[desk.group_id],
                busy_s=self._busy_s[desk.group_id],
            )
            for desk in self._desks.values()
            if self._is_reported(desk)
        ]

    def connect(self, project_id: str, group_id: str) -> socket.socket:
        """Return a connection to the data socket of a desk.

        :raises: rules.RequestError if no client of the project may use the
            group, or it has no desk here.
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
        sock = processes.dial(data_path(self._state_dir, group_id))
        if sock is None:
            raise rules.RequestError(
                codes.WORKER_LOST, "the group's desk takes no connections"
            )
        # The client's descriptor shares this open file description.
        sock.setblocking(True)
        return sock

    # Requests.

    def _send_order(self, desk: _Desk) -> None:
        order = desk.order
        if order is None or not desk.heard:
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
            self._ask(desk, "admit", {"clients": admitted}, "admit")
        rules_now = {
            "revision": order.revision,
            "arbitration": order.arbitration,
            "clear_between": order.clear_between,
        }
        self._ask(desk, "keep", rules_now, "keep")
        hosts = [_host(one) for one in order.hosts]
        self._ask(
            desk,
            "hosts",
            {
                "revision": order.revision,
                "hosts": hosts,
                "spares_member": self._spares_member(order),
            },
            "hosts",
        )
        self._ask_status(desk)

    def _spares_member(self, order: objects.GroupOrder) -> bool:
        """Whether locks leave a member of this host to the other clients.

        One host of a group does so: the one with the most members, the lowest
        id of equals. Where it is not certain, this host does.
        """
        members = {one.host_uuid: one.members for one in order.hosts}
        mine = self._settings.host_uuid
        first = max(sorted(members), key=members.__getitem__, default=mine)
        return first == mine or not members.get(mine)

    def _send_members(self, desk: _Desk) -> None:
        if not desk.heard:
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
        members = [
            {"device": device, "slot": slot, "generation": generation}
            for (device, slot), generation in wanted.items()
        ]
        self._ask(desk, "members", {"members": members}, "members")

    def _unknown(self, desk: _Desk) -> dict[orders.Key, int]:
        """Return what may still be members, and must not be sent away."""
        return {
            key: generation
            for key, generation in desk.joined.items()
            if key in self._untold
        }

    def _is_needed(self, desk: _Desk) -> bool:
        """Whether the process may not end."""
        if desk.members or self._unknown(desk):
            return True
        return desk.clients > 0 and not _is_deleted(desk)

    def _ask_status(self, child: _Desk) -> None:
        self._ask(child, "status", {}, "status")
        if "counts" not in child.requests.values():
            # Pages of two questions would mix.
            self._ask_counts(child)

    def _ask_counts(self, child: _Desk, after: str = "") -> None:
        self._ask(child, "counts", {"after": after}, "counts")

    # Of the keeper.

    def _children(self) -> Iterable[_Desk]:
        return self._desks.values()

    def _module(self) -> str:
        return processes.DESK_MODULE

    def _document(self, child: _Desk) -> dict[str, object]:
        order, settings = child.order, self._settings
        assert order is not None, "without an order no desk is wanted"
        return {
            "group_id": child.group_id,
            "slots": [list(key) for key in self._keys],
            "control_socket": child.control_path,
            "data_socket": data_path(self._state_dir, child.group_id),
            "member_socket": member_path(self._state_dir, child.group_id),
            **{name: getattr(settings, name) for name in _SAME},
            "arbitration": order.arbitration,
            "clear_between": order.clear_between,
            "max_task_bytes": order.max_task_bytes,
            "orphan_s": settings.worker_orphan_s,
            "exit_with_agent": not settings.workers_outlive_agent,
            "log_file": child.log_file,
        }

    def _greet(self, child: _Desk) -> None:
        child.revision = 0
        child.sent = None
        child.partial = {}
        self._ask_status(child)

    def _hung_up(self, child: _Desk) -> None:
        self._changed()

    def _died(self, child: _Desk, how: str | None) -> None:
        child.clients = 0
        # A client without a desk has no task there.
        child.counts = {
            name: dataclasses.replace(
                counts, waiting=0, running=0, connected=False
            )
            for name, counts in child.counts.items()
        }

    def _unstartable(self, child: _Desk, message: str) -> None:
        LOG.error("%s does not work: %s", child.title, message)

    def _handle(self, child: _Desk, message: messages.Message) -> None:
        child.silent_s = 0.0
        if "event" in message:
            # A member has joined or left; the status says more.
            return
        operation = child.requests.pop(message["id"], None)
        if not message["ok"]:
            LOG.error(
                "%s refused %s: %s",
                child.title,
                operation,
                message["error"]["message"],
            )
        elif operation == "status":
            self._take_status(child, message["status"])
        elif operation == "counts":
            self._take_counts(child, message)

    def _take_status(
        self, child: _Desk, status: Mapping[str, typing.Any]
    ) -> None:
        before, is_first = self._report(child), not child.heard
        child.heard = child.proved = True
        child.joined = {
            (str(one["device"]), int(one["slot"])): int(one["generation"])
            for one in status["members"]
            if one["state"] == "joined"
        }
        child.clients = int(status["clients"])
        child.revision = int(status["revision"])
        child.data_port = status["data_port"]
        child.certificate_sha256 = status["certificate_sha256"]
        if is_first:
            self._send_members(child)
            self._send_order(child)
        if self._report(child) != before:
            self._changed()
        for one in status["members"]:
            if one["state"] == "leaving":
                self._leaves(
                    (str(one["device"]), int(one["slot"])),
                    int(one["generation"]),
                )

    def _leaves(self, key: orders.Key, generation: int) -> None:
        self._tell(
            key,
            lambda slots, now: slots.member_leaves(key, generation, now),
        )

    def _take_counts(
        self, child: _Desk, message: Mapping[str, typing.Any]
    ) -> None:
        told = {
            client_id: objects.ClientCounts(client_id=client_id, **counts)
            for client_id, counts in message["clients"].items()
        }
        child.partial.update(told)
        if message["more"]:
            self._ask_counts(child, max(told))
            return
        # Only whole: what one report lacks would count twice in the next.
        is_new = child.boot_id != message["boot_id"]
        former = {} if is_new else child.counts
        child.counts, child.partial = child.partial, {}
        self._add_up(child, former)
        child.boot_id = str(message["boot_id"])
        child.is_counted = True
        if is_new:
            self._changed()
        if not self._is_needed(child):
            # The next report has its last counts.
            self._ask(child, "exit", {}, "exit")

    def _add_up(
        self, desk: _Desk, former: Mapping[str, objects.ClientCounts]
    ) -> None:
        """Add what clients did since former counts."""
        for name, one in desk.counts.items():
            old = former.get(name, _NOTHING)
            self._tasks[desk.group_id] += one.ended - old.ended
            self._busy_s[desk.group_id] += one.busy_s - old.busy_s


_NOTHING = objects.ClientCounts(
    client_id="",
    ended=0,
    arrived=0,
    waiting=0,
    running=0,
    busy_s=0.0,
    connected=False,
)


def _is_deleted(desk: _Desk) -> bool:
    return desk.order is not None and desk.order.deleted


def _host(host: objects.GroupHost) -> dict[str, object]:
    return {
        "host_id": host.host_uuid,
        "members": host.members,
        "endpoints": [dataclasses.asdict(one) for one in host.endpoints],
        "certificate_sha256": host.certificate_sha256,
    }
