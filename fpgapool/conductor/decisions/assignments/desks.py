# SPDX-License-Identifier: Apache-2.0

"""The desks of groups: orders to them, and the tasks that they report.

An order contains a desk's whole desired state. It is sent when this changes,
and again when a report shows that the desk has a different revision.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import group as description


@dataclasses.dataclass(slots=True)
class _Desk:
    """The desk of a group on a host.

    :ivar is_silent: whether the core ignores its waiting tasks.
    """

    report: objects.GroupReport | None = None
    ordered_at: float = -math.inf
    is_silent: bool = True


@dataclasses.dataclass(eq=False, repr=False)
class Desks(parts.Room):
    """The desks of all groups."""

    _registry: registry.Registry
    _catalogue: bitstreams.Catalogue
    _groups: group_book.GroupBook
    _desk_accounts: desk_accounts.DeskAccounts
    _holds: holds.Holds
    _ledger: usage.Ledger

    def __post_init__(self) -> None:
        # By group.
        self._orders: dict[str, objects.GroupOrder] = {}
        # By host and group.
        self._desks: dict[str, dict[str, _Desk]] = {}
        # The boot id of the agent that reported last, by host.
        self._boots: dict[str, str] = {}
        self._absences = Absences(
            self._settings.connect_timeout_s, self._settings.resume_grace_s
        )
        # Like generations, revisions are higher than those of former leaders.
        self._last_revision = self._core.view.next_generation

    # -- orders ------------------------------------------------------------

    def send_changes(self) -> None:
        """Send orders to the desks of groups that changed in this batch."""
        if not self._holds.changed_groups:
            return
        stirred, self._holds.changed_groups = self._holds.changed_groups, set()
        members = collections.defaultdict[str, list[holds.Member]](list)
        for one in self._holds.members():
            members[one.public_id].append(one)
        for group_id in sorted(stirred):
            self._send_change(group_id, members[group_id])

    def _send_change(self, group_id: str, members: list[holds.Member]) -> None:
        group = self._groups.groups.get(group_id)
        former = self._orders.get(group_id)
        if group is None:
            new = _deleted(group_id)
        else:
            new = self._order(group, members)
        if former is not None:
            new = dataclasses.replace(new, revision=former.revision)
        if new != former:
            self._last_revision += 1
            new = dataclasses.replace(new, revision=self._last_revision)
            self._orders[group_id] = new
        for host_uuid in {one.slot.host.uuid for one in members}:
            self._desks.setdefault(host_uuid, {}).setdefault(group_id, _Desk())
        for host_uuid, desks in self._desks.items():
            if group_id in desks and (
                new != former or desks[group_id].ordered_at == -math.inf
            ):
                self._send(host_uuid, desks[group_id], new)
        if group is None:
            for desks in self._desks.values():
                if group_id in desks and desks[group_id].report is None:
                    del desks[group_id]
            self._forget_order(group_id)
            self._desk_accounts.drop(group_id)

    def _forget_order(self, group_id: str) -> None:
        if group_id not in self._groups.groups and not any(
            group_id in desks for desks in self._desks.values()
        ):
            self._orders.pop(group_id, None)

    def _send(
        self, host_uuid: str, desk: _Desk, order: objects.GroupOrder
    ) -> None:
        desk.ordered_at = self._clock.now
        self._outbox.send(effects.KeepGroup(host_uuid, order))

    def _order(
        self, group: db_api.GroupRecord, members: list[holds.Member]
    ) -> objects.GroupOrder:
        return objects.GroupOrder(
            group_id=group.group_id,
            revision=0,
            project_id=group.project_id,
            accelerator=group.accelerator,
            arbitration=(
                description.TIME if group.shared else description.FIFO
            ),
            # Within a project, only an accelerator that keeps state must be
            # cleared between clients.
            clear_between=(
                description.PROJECTS
                if self._catalogue.is_stateless(group.accelerator)
                else description.CLIENTS
            ),
            max_task_bytes=description.MAX_TASK_BYTES,
            clients=tuple(
                objects.GroupAccess(
                    client_id=one.client_id,
                    project_id=one.project_id,
                    secret_sha256=one.secret_hash,
                )
                for one in self._groups.clients_of(group.group_id)
            ),
            hosts=self.hosts_of(members),
        )

    def revision_of(self, group_id: str) -> int:
        """Return the revision of the last order; 0 if there was none."""
        order = self._orders.get(group_id)
        return order.revision if order else 0

    def hosts_of(
        self, members: Iterable[holds.Member]
    ) -> tuple[objects.GroupHost, ...]:
        """Return the hosts to which the clients of a group can connect."""
        counts = collections.Counter(
            (one.slot.host.uuid, one.public_id)
            for one in members
            if one.serves
        )
        found = []
        for (host_uuid, group_id), count in sorted(counts.items()):
            desk = self._desks.get(host_uuid, {}).get(group_id, _Desk())
            report = desk.report
            found.append(
                objects.GroupHost(
                    host_uuid=host_uuid,
                    members=count,
                    endpoints=report.endpoints if report else (),
                    certificate_sha256=(
                        report.certificate_sha256 if report else None
                    ),
                )
            )
        return tuple(found)

    # -- reports -----------------------------------------------------------

    def heard(
        self, host: registry.HostEntry, report: objects.AgentReport
    ) -> None:
        """Process the groups in an agent's report."""
        is_new_agent = self._boots.get(host.uuid) != report.agent_boot_id
        self._boots[host.uuid] = report.agent_boot_id
        desks = self._desks.setdefault(host.uuid, {})
        reported = {one.group_id: one for one in report.groups}
        for group_id, line in reported.items():
            self._take(host, desks.setdefault(group_id, _Desk()), line)
        for group_id in list(desks):
            self._follow_up(
                host, group_id, reported.get(group_id), is_new_agent
            )
        self._desk_accounts.expire_missing(
            host.id, reported.keys(), desks.keys(), self._clock.now
        )
        self._pay_owners(host)

    def _take(
        self,
        host: registry.HostEntry,
        desk: _Desk,
        line: objects.GroupReport,
    ) -> None:
        former = desk.report
        desk.report, desk.is_silent = line, False
        group = self._groups.groups.get(line.group_id)
        if group is not None:
            self._count_tasks(host, group, line)
        if former is None or (
            former.endpoints != line.endpoints
            or former.certificate_sha256 != line.certificate_sha256
        ):
            self._holds.changed_groups.add(line.group_id)

    def _follow_up(
        self,
        host: registry.HostEntry,
        group_id: str,
        line: objects.GroupReport | None,
        is_new_agent: bool,
    ) -> None:
        """Repeat a desk's order, or forget a desk that no longer exists."""
        desk = self._desks[host.uuid][group_id]
        if line is None:
            self._silence(host, group_id, desk)
            if desk.report is not None:
                desk.report = None
                self._holds.changed_groups.add(group_id)
            if not any(
                one.public_id == group_id for one in self._members_on(host)
            ):
                del self._desks[host.uuid][group_id]
                self._forget_order(group_id)
                return
        order = self._orders.get(group_id)
        if order is None:
            # An earlier leader deleted the group.
            self._holds.changed_groups.add(group_id)
        elif is_new_agent:
            # A new agent has not received any orders.
            self._send(host.uuid, desk, order)
        elif line is None or line.revision != order.revision:
            self._send_again(host.uuid, desk, order)

    def _send_again(
        self, host_uuid: str, desk: _Desk, order: objects.GroupOrder
    ) -> None:
        interval_s = self._settings.resend_interval_s
        if self._clock.now - desk.ordered_at >= interval_s:
            self._send(host_uuid, desk, order)

    def tick(self) -> None:
        """Stop counting the waiting tasks of lost hosts."""
        for host_uuid, desks in self._desks.items():
            host = self._registry.hosts.get(host_uuid)
            if host is not None and not host.up:
                for group_id, desk in desks.items():
                    self._silence(host, group_id, desk)

    def _silence(
        self, host: registry.HostEntry, group_id: str, desk: _Desk
    ) -> None:
        group = self._groups.groups.get(group_id)
        if group is not None and not desk.is_silent:
            self._link.tell(events.TaskStats(group.id, host.id, (), 0.0, 0))
        desk.is_silent = True

    def waiting_tasks(self) -> dict[str, int]:
        """Return the number of tasks waiting at desks, by group."""
        found = collections.Counter[str]()
        for _, report in self._heard_reports():
            found[report.group_id] += sum(
                one.waiting for one in report.clients
            )
        return found

    def _heard_reports(self) -> Iterator[tuple[float, objects.GroupReport]]:
        """Yield the last reports of desks on hosts that are up, and their
        times.
        """
        for host_uuid, desks in self._desks.items():
            host = self._registry.hosts.get(host_uuid)
            if host is not None and host.up:
                for desk in desks.values():
                    if desk.report is not None:
                        yield host.heard_at, desk.report

    def absent_clients(self) -> list[db_api.GroupClientRecord]:
        """Return the clients that have been disconnected for too long."""
        if not self._groups.groups:
            return []
        reports = collections.defaultdict[
            str, list[tuple[float, objects.GroupReport]]
        ](list)
        for heard_at, report in self._heard_reports():
            reports[report.group_id].append((heard_at, report))
        members = collections.defaultdict[str, list[holds.Member]](list)
        for one in self._holds.members():
            members[one.public_id].append(one)
            # Clients may be connected to a desk whose agent is unreachable.
            if not one.slot.host.up:
                reports.pop(one.public_id, None)
        # Clients are not told of a desk that has no member.
        told = {
            group_id
            for group_id in reports
            if any(one.endpoints for one in self.hosts_of(members[group_id]))
        }
        return self._absences.find(
            (
                (
                    self._groups.clients_of(group_id),
                    reports.get(group_id, ()),
                    group_id in told,
                )
                for group_id in self._groups.groups
            ),
            self._outages.last_at,
            self._clock.now,
        )

    # -- tasks -------------------------------------------------------------

    def _count_tasks(
        self,
        host: registry.HostEntry,
        group: db_api.GroupRecord,
        line: objects.GroupReport,
    ) -> None:
        """Charge the tasks since the last report, and notify the core."""
        account = self._desk_accounts.of(
            group.group_id, host.id, self._clock.now
        )
        clients = {
            one.client_id: one
            for one in self._groups.clients_of(group.group_id)
        }

        def project_of(client_id: str) -> str:
            if (client := clients.get(client_id)) is not None:
                return client.project_id
            ended = self._groups.project_of_ended(client_id)
            return group.project_id if ended is None else ended

        found = account.new_tasks(line, project_of)
        for new in found:
            one, moved_bytes = new.stats, new.input_bytes + new.output_bytes
            if one.ended or one.busy_s or moved_bytes:
                self._counts.group_tasks += one.ended
                self._counts.group_busy_s += one.busy_s
                self._counts.moved_bytes += moved_bytes
                account.pay(one.busy_s)
                self._ledger.add(
                    new.project_id,
                    group.accelerator,
                    self._clock.now,
                    group_busy_s=one.busy_s,
                    input_bytes=new.input_bytes,
                    output_bytes=new.output_bytes,
                )
                if (client := clients.get(one.client)) is not None:
                    self._record_use(client, one)
        self._link.tell(
            events.TaskStats(
                group_id=group.id,
                host_id=host.id,
                clients=tuple(one.stats for one in found),
                busy_s=sum(one.stats.busy_s for one in found),
                busy_members=sum(one.running for one in line.clients),
            )
        )

    def _record_use(
        self, client: db_api.GroupClientRecord, more: events.ClientStats
    ) -> None:
        row = dataclasses.replace(
            client,
            tasks=client.tasks + more.ended,
            slot_s=client.slot_s + more.busy_s,
        )
        self._groups.put([row])
        self._outbox.write(row)

    # -- usage -------------------------------------------------------------

    def count_time(self, host: registry.HostEntry) -> None:
        """Add the slot time of a host's members since the last call."""
        now, held_s = self._clock.now, collections.Counter[str]()
        for one in self._members_on(host):
            time_s = max(now - one.charged_at, 0.0)
            held_s[one.public_id] += time_s
            is_ready = one.phase is not model.Phase.PREPARING
            kind = "serving" if is_ready else "programming"
            self._counts.group_slot_s[kind] += time_s
            # A new leader's clock may be behind the former one's.
            one.charged_at = max(one.charged_at, now)
        for group_id, time_s in held_s.items():
            self._desk_accounts.of(group_id, host.id, now).add_time(
                time_s, now
            )

    def _members_on(self, host: registry.HostEntry) -> Iterator[holds.Member]:
        for device in host.devices.values():
            for slot in device.slots.values():
                hold = self._holds.get(slot.id)
                if type(hold) is holds.Member:
                    yield hold

    def _pay_owners(self, host: registry.HostEntry) -> None:
        """Charge the groups' owners for the time during which no task ran."""
        for account in self._desk_accounts.on(host.id):
            idle_s = account.idle_s
            group = self._groups.groups.get(account.record.group_id)
            if group is not None and idle_s:
                account.pay(idle_s)
                self._ledger.add(
                    group.project_id,
                    group.accelerator,
                    self._clock.now,
                    group_idle_s=idle_s,
                )


def _deleted(group_id: str) -> objects.GroupOrder:
    return objects.GroupOrder(
        group_id=group_id,
        revision=0,
        project_id="",
        accelerator="",
        arbitration=description.FIFO,
        clear_between=description.CLIENTS,
        max_task_bytes=description.MAX_TASK_BYTES,
        deleted=True,
    )


@dataclasses.dataclass(slots=True)
class _Client:
    """A client's connection, as reports show it.

    :ivar since: since when no report has shown a connection; None if one does,
        or if the client cannot connect.
    """

    was_connected: bool = False
    since: float | None = None


class Absences:
    """Finds the clients that have been disconnected for too long.

    :param connect_timeout_s: maximum time until a client first connects.
    :param resume_grace_s: maximum time for which it may be disconnected later.
    """

    def __init__(
        self, connect_timeout_s: float, resume_grace_s: float
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._resume_grace_s = resume_grace_s
        self._clients: dict[str, _Client] = {}

    def find(
        self,
        groups: Iterable[
            tuple[
                Sequence[db_api.GroupClientRecord],
                Sequence[tuple[float, objects.GroupReport]],
                bool,
            ]
        ],
        failed_at: float,
        now: float,
    ) -> list[db_api.GroupClientRecord]:
        """Return the clients that must be ended.

        :param groups: the clients of each group, the last reports of its
            desks with their times, and whether clients are told where to
            connect; they are not if it is unknown which are connected.
        :param failed_at: when the database or the bus last failed: until then,
            clients could not find out where to connect.
        """
        before, self._clients = self._clients, {}
        found = []
        for clients, reports, can_connect in groups:
            connected = {
                one.client_id
                for _, report in reports
                for one in report.clients
                if one.connected
            }
            heard_at = min((at for at, _ in reports), default=now)
            for client in clients:
                known = before.get(client.client_id) or _Client()
                self._clients[client.client_id] = known
                if client.client_id in connected:
                    known.was_connected, known.since = True, None
                elif not can_connect:
                    known.since = None
                elif known.since is None:
                    known.since = now
                elif heard_at >= max(known.since, failed_at) + self._limit_s(
                    known
                ):
                    # Even the oldest report arrived after the limit.
                    found.append(client)
        return found

    def _limit_s(self, known: _Client) -> float:
        if known.was_connected:
            return self._resume_grace_s
        return self._connect_timeout_s
