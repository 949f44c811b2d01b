# SPDX-License-Identifier: Apache-2.0

"""Answers queries about the pool, from users and audits."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions import restoring
from fpgapool.conductor.decisions.assignments import desks
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.budgets import keeping
from fpgapool.conductor.decisions.calendar import keeping as calendar_keeping
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import opening as openings
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.conductor.decisions.views import census
from fpgapool.conductor.decisions.views import shares
from fpgapool.conductor.decisions.views import summary
from fpgapool.db import api as db_api
from fpgapool.objects import bounds
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import states

# Maximum length of messages from hosts in answers, in characters.
_MAX_MESSAGE_LENGTH = 200
#: It says of each wall what to do about it.
_MAX_ISOLATION_LENGTH = 1000
_MAX_VERSION_LENGTH = 64


def _short(message: str | None, most: int = _MAX_MESSAGE_LENGTH) -> str | None:
    return message and message[:most]


@dataclasses.dataclass(eq=False, repr=False)
class Questions:
    """Answers queries, in the thread that owns the pool."""

    pool: pools.Pool
    opening: openings.Opening
    _serving: servings.Serving
    _restoring: restoring.Restoring
    _desks: desks.Desks
    budgets: keeping.Keeping
    calendar: calendar_keeping.CalendarKeeping
    _strategy_name: str

    def __post_init__(self) -> None:
        self._census = self.pool.room(census.Census)

    # -- sessions ----------------------------------------------------------

    @property
    def queued_count(self) -> int:
        """The number of sessions that are waiting for a slot."""
        return self.pool.sessions.queued.total()

    def changed(
        self, revisions: Mapping[str, int], host_uuid: str = ""
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Return the sessions that have changed since the caller read them.

        :param host_uuid: host of the calling front door, which gets the
            secrets of the sessions opened there.
        :returns: the sessions whose revision differs, and the ids of sessions
            that are not in memory.
        """
        changed, missing = [], []
        for session_id, revision in revisions.items():
            session = self.pool.sessions.by_id.get(session_id)
            if session is None:
                missing.append(session_id)
            elif session.revision != revision:
                changed.append(self.pool.lives.view(session, host_uuid))
        return changed, missing

    def session(
        self, session_id: str, project_id: str
    ) -> objects.SessionView | None:
        """Return a session's view; None if it is not in memory.

        :param project_id: if the session's client may connect and it belongs
            to this project, the view includes its secret.
        """
        session = self.pool.sessions.by_id.get(session_id)
        if session is None:
            return None
        lives = self.pool.lives
        if session.project_id == project_id:
            return lives.project_view(session)
        return lives.view(session)

    def stage_endpoints(
        self,
        host_uuid: str,
        project_id: str,
        session_id: str,
        generation: int,
    ) -> list[dict[str, Any]]:
        """Return where the worker of a chain's next stage listens.

        :param host_uuid: host of the stage before, which learns nothing unless
            it has a session of the project.
        :returns: the networks' addresses and ports.
        """
        session = self.pool.sessions.by_id.get(session_id)
        host = self.pool.registry.hosts.get(host_uuid)
        if (
            session is None
            or session.project_id != project_id
            or session.hold is None
            or session.hold.generation != generation
            or host is None
            or not self._has_session_on(host, project_id)
        ):
            return []
        reported = session.hold.slot.reported
        offer = reported.offer if reported else None
        return [
            {"address": one.address, "port": one.port}
            for one in (offer.endpoints if offer else ())
            if one.port
        ]

    def _has_session_on(
        self, host: registry.HostEntry, project_id: str
    ) -> bool:
        found = (
            self.pool.holds.get(slot.id)
            for device in host.devices.values()
            for slot in device.slots.values()
        )
        return any(
            isinstance(hold, sessions.SessionHold)
            and hold.session.project_id == project_id
            for hold in found
        )

    # -- the pool ----------------------------------------------------------

    def groups(self, group_ids: Iterable[str]) -> list[objects.GroupView]:
        known = self.pool.groups.groups
        members = collections.defaultdict[str, list[holds.Member]](list)
        for one in self.pool.holds.members():
            members[one.public_id].append(one)
        waiting = self._desks.waiting_tasks()
        return [
            self._group_view(
                known[group_id], members[group_id], waiting.get(group_id, 0)
            )
            for group_id in group_ids
            if group_id in known
        ]

    def groups_named(
        self, project_id: str, name: str
    ) -> list[objects.GroupView]:
        """Return the groups with this name that a project may use."""
        known = self.pool.groups.groups
        usable = {
            group_id
            for group_id, group in known.items()
            if description.is_open_to(group, project_id)
            and group.state != states.GROUP_DRAINING
        }
        named = [one for one in sorted(usable) if known[one].name == name]
        return self.groups(named or usable & {name.lower()})

    def has_client(
        self, project_id: str, group_id: str, client_id: str
    ) -> bool:
        return any(
            one.client_id == client_id and one.project_id == project_id
            for one in self.pool.groups.clients_of(group_id)
        )

    def _group_view(
        self,
        group: db_api.GroupRecord,
        members: list[holds.Member],
        waiting_tasks: int,
    ) -> objects.GroupView:
        pool = self.pool
        goal: dict[str, Any] = {}
        going = pool.core.goal_progress(group.id)
        if going is not None:
            goal = {
                "goal_slots": going.asked,
                "expected_finish_at": going.expected_finish_s,
                "goal_progress": (
                    going.progress if math.isfinite(going.progress) else None
                ),
            }
        return objects.GroupView.of(
            group,
            members=tuple(
                objects.GroupMember(
                    host_uuid=one.slot.host.uuid,
                    host_name=one.slot.host.name,
                    device=one.slot.device.name,
                    slot=one.slot.number,
                    phase=one.phase.value,
                )
                for one in members
            ),
            hosts=self._desks.hosts_of(members),
            hosts_revision=self._desks.revision_of(group.group_id),
            waiting_tasks=waiting_tasks,
            **pool.first_slots.shown(group.group_id),
            **goal,
        )

    def reservable_slots(self, device_id: str) -> int:
        """Return a device's number of reservable slots; 0 if it is unknown."""
        device = self.pool.registry.find_device(device_id)
        return device.reservable_slots if device else 0

    def counts(self) -> dict[str, Any]:
        """Return the pool in numbers, as JSON."""
        book = self.pool.sessions
        queued = book.queued_by_accelerator.most_common(
            bounds.MAX_COUNTED_ACCELERATORS
        )
        waits, waited_s = self.pool.counts.waits_s.read()
        return {
            "strategy": self._strategy_name,
            "moved_bytes": self.pool.counts.moved_bytes,
            "waits": int(waits[-1][1]),
            "waited_s": waited_s,
            "sessions": book.count_by_state(self._served()),
            "queued": {name: count for name, count in queued if count},
            "builtins": self.pool.catalogue.library.builtins_as_json(),
            **self._census.hardware(),
        }

    def hosts_now(self, host_uuids: Iterable[str]) -> dict[str, Any]:
        """Return what is not in the database about hosts, by UUID, as JSON."""
        hosts = self.pool.registry.hosts
        return {
            uuid: self._host_now(hosts[uuid])
            for uuid in host_uuids
            if uuid in hosts
        }

    def _host_now(self, host: registry.HostEntry) -> dict[str, Any]:
        return {
            "nic_load": self._census.nic_loads().get(host.id, 0.0),
            "queued": self.pool.sessions.queued_by_host.get(host.id, 0),
            "last_report_at": host.heard_at,
            "link_message": _short(host.link_message),
            "isolation_message": _short(
                host.isolation_message, _MAX_ISOLATION_LENGTH
            ),
            "agent_version": _short(host.agent_version, _MAX_VERSION_LENGTH),
            "unusable_slots": [
                slot.id for slot in host.slots() if not slot.usable
            ],
        }

    def now(self) -> dict[str, Any]:
        """Return the summary's part that is not in the database, as JSON.

        Only services of release 1.0.0 ask for it: it grows with the pool.
        """
        pool, book = self.pool, self.pool.sessions
        hosts = self.hosts_now(pool.registry.hosts)
        unusable = [one.pop("unusable_slots") for one in hosts.values()]
        for host in hosts.values():
            # That release does not know them.
            del host["isolation_message"], host["agent_version"]
        return {
            "strategy": self._strategy_name,
            "sessions": book.count_by_state(self._served()),
            "queued": {
                name: count
                for name, count in book.queued_by_accelerator.items()
                if count
            },
            "unusable_slots": list(itertools.chain.from_iterable(unusable)),
            "hosts": hosts,
            "builtins": pool.catalogue.library.builtins_as_json(),
        }

    def _served(self) -> Iterator[sessions.Session]:
        return (
            hold.session
            for hold in self.pool.holds.with_successors()
            if isinstance(hold, sessions.SessionHold) and hold.wanted
        )

    def figures(self, max_projects: int, max_groups: int) -> summary.Figures:
        """Return the figures for metrics.

        Waiting sessions are counted already, as there may be very many.
        """
        pool, book = self.pool, self.pool.sessions
        hosts = pool.registry.hosts.values()
        served = collections.Counter(one.state for one in self._served())
        kept, most = pool.core.view.slots.kept_for_local()
        return summary.Figures(
            queued_by_project=summary.largest(book.queued, max_projects),
            queued_by_size=book.queued_by_size,
            queued_bytes=book.queued_bytes.total(),
            sessions={state: served[state] for state in states.ASSIGNED}
            | {states.QUEUED: self.queued_count},
            slots=summary.slots_by_state(pool.registry, pool.holds),
            hosts={host.name: host.up for host in hosts},
            clocks_behind_s={
                host.name: host.clock_behind_s
                for host in hosts
                if host.up and host.clock_readings_s
            },
            devices=summary.devices_by_state(pool.registry),
            reservations=summary.reservations_by_state(
                pool.registry, pool.core.view.reservations.pending
            ),
            budgets=self.budgets.counts(),
            calendar=self.calendar.counts(),
            local_reserve={"kept": kept, "open": most - kept},
            groups=summary.groups(
                pool.groups.groups.values(),
                pool.holds.members(),
                self._desks.waiting_tasks(),
                max_groups,
            ),
        )

    def share(self, project_id: str, session_id: str) -> dict[str, Any]:
        """Return a project's share, as JSON; see :func:`.shares.document`."""
        return shares.document(
            self.pool, self._strategy_name, project_id, session_id
        )

    # -- audits ------------------------------------------------------------

    @property
    def live_sessions(self) -> Iterator[sessions.Session]:
        """All sessions that have not ended."""
        return (one for one in self.pool.sessions.by_id.values() if one.live)

    def ask_reports(self, host_uuid: str | None = None) -> set[str]:
        """Request reports from hosts that are up; return their UUIDs."""
        up = {
            host.uuid
            for host in self.pool.registry.hosts.values()
            if host.up and host_uuid in (None, host.uuid)
        }
        self.pool.outbox.send(*map(effects.AskReport, up))
        return up

    def record_again(
        self, session_id: str | None, slot_id: int | None
    ) -> None:
        """Write the rows of a session and a slot again.

        :param slot_id: row id of the slot; None: the session's slot, if any.
        """
        pool = self.pool
        session = pool.sessions.by_id.get(session_id or "")
        if session is not None:
            pool.lives.touch(session)
            slot_id = session.slot_id if slot_id is None else slot_id
        if slot_id is None:
            return
        hold = pool.holds.get(slot_id)
        if hold is not None:
            self._serving.entered(hold)
        else:
            pool.outbox.write_assignment(slot_id, None)

    def adopt(self, record: db_api.SessionRecord) -> None:
        """Adopt a session that is only in the database."""
        if (
            record.session_id not in self.pool.sessions.by_id
            and record.state in states.LIVE
        ):
            self._restoring.adopt(record)
            self.pool.decide()
