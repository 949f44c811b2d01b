# SPDX-License-Identifier: Apache-2.0

"""Answers from the database for a conductor that does not answer.

They show the pool as a leader recorded it last. They lack all that leaders
keep in memory only: places in the queue, expected waits, secrets, rates.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from fpgapool import objects
from fpgapool.api import inventory as inventories
from fpgapool.api.schemas import quotas as quota_schemas
from fpgapool.bitstreams import library as libraries
from fpgapool.db import api as db_api
from fpgapool.vocabulary import group
from fpgapool.vocabulary import states

_FROM_KEYSTONE = "keystone"
_FROM_PROJECT = "project"
_FROM_DEFAULT = "default"


class _Board(NamedTuple):
    device: inventories.Device
    slots: list[inventories.Slot]


class Recorded:
    """Answers questions of :class:`fpgapool.rpcapi.conductor.ConductorAPI`.

    :param database: the database to read.
    :param inventory: returns the pool's hardware.
    :param default_limits: default limits of projects, by resource; None if
        only Keystone knows them.
    """

    def __init__(
        self,
        database: db_api.Database,
        inventory: Callable[[], inventories.Inventory],
        default_limits: Mapping[str, int] | None,
    ) -> None:
        self._database = database
        self._inventory = inventory
        self._default_limits = default_limits

    def get_sessions(
        self, session_ids: Iterable[str]
    ) -> list[objects.SessionView]:
        """Return the sessions that exist."""
        records = self._database.sessions_by_ids(session_ids)
        if not records:
            return []
        pool = self._inventory()
        hosts = {host.id: host.uuid for host in pool.hosts}
        slots = {slot.record.id: slot for slot in pool.slots}
        return [
            _view(record, hosts.get(record.host_id or 0), slots)
            for record in records
        ]

    def get_groups(self, group_ids: Iterable[str]) -> list[objects.GroupView]:
        """Return the groups that exist."""
        return [
            objects.GroupView.of(record)
            for record in self._database.groups(*group_ids)
        ]

    def session_secret(
        self, session_id: str, project_id: str, generation: int
    ) -> str:
        """Return nothing: secrets are not recorded."""
        return ""

    def changed_sessions(
        self, revisions: Mapping[str, int]
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Return the sessions that have a later revision, or do not exist."""
        views = self.get_sessions(revisions)
        found = {view.session_id for view in views}
        changed = [
            view
            for view in views
            # A caller with a later revision has it from a leader.
            if view.revision > revisions[view.session_id]
        ]
        return changed, [name for name in revisions if name not in found]

    def get_quota(
        self, project_id: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return a project's limits and usage."""
        own: dict[str, int] = {}
        if project_id is not None and self._default_limits is not None:
            own = {
                row.resource: row.hard_limit
                for row in self._database.quotas(project_id)
                if row.hard_limit is not None
            }
        told = {
            resource: self._limit(resource, own)
            for resource in quota_schemas.RESOURCES
        }
        if project_id is not None:
            for resource, count in self._in_use(project_id).items():
                told[resource]["in_use"] = count
        return told

    def _limit(self, resource: str, own: Mapping[str, int]) -> dict[str, Any]:
        if self._default_limits is None:
            return {"limit": None, "source": _FROM_KEYSTONE}
        if resource in own:
            return {"limit": own[resource], "source": _FROM_PROJECT}
        return {
            "limit": self._default_limits[resource],
            "source": _FROM_DEFAULT,
        }

    def _in_use(self, project_id: str) -> dict[str, int]:
        counts = self._database.count_sessions(project_id)
        queued = [one for one in counts if one.state == states.QUEUED]
        groups = [
            one
            for one in self._database.groups()
            if one.project_id == project_id
        ]
        return {
            "sessions": sum(
                one.sessions for one in counts if one.state != states.QUEUED
            ),
            "queued": sum(one.sessions for one in queued),
            "queued_bytes": sum(one.claimed_bytes for one in queued),
            "bitstream_bytes": sum(
                one.size_bytes for one in self._database.bitstreams(project_id)
            ),
            "groups": len(groups),
            "group_slots": sum(
                group.charged_slots(
                    one.size, one.max_size, elastic=one.elastic
                )
                for one in groups
            ),
            "group_clients": len(
                self._database.group_clients(project_id=project_id)
            ),
        }

    def pool_summary(self) -> dict[str, Any]:
        """Return figures about the pool; its strategy is unknown."""
        pool = self._inventory()
        boards = _boards(pool)
        sessions: collections.Counter[str] = collections.Counter()
        for one in self._database.count_sessions():
            sessions[one.state] += one.sessions
        return {
            "strategy": None,
            "waiting": sessions[states.QUEUED],
            "sessions": {
                state: count for state, count in sessions.items() if count
            },
            "hosts": [
                _host(pool, host, boards.get(host.id, ()))
                for host in pool.hosts
            ],
        }

    def pool_snapshot(self) -> dict[str, Any]:
        """Return the state of the pool for placement.

        The load of network cards is unknown: all count as idle.
        """
        pool = self._inventory()
        boards = _boards(pool)
        by_host: collections.Counter[int | None] = collections.Counter()
        by_accelerator: collections.Counter[str] = collections.Counter()
        for one in self._database.count_sessions():
            if one.state == states.QUEUED:
                by_host[one.host_id] += one.sessions
                by_accelerator[one.accelerator] += one.sessions
        library = libraries.Library.load(self._database)
        return {
            "generated_at": time.time(),
            "hosts": {
                host.uuid: {
                    "name": host.name,
                    "up": host.up,
                    "nic_bytes_per_s": host.nic_bytes_per_s,
                    "nic_load": 0.0,
                    "queued": by_host[host.id],
                    **_slots(boards.get(host.id, ())),
                }
                for host in pool.hosts
            },
            "queued": dict(by_accelerator),
            "accelerators": {
                profile.name: sorted(profile.shapes)
                for profile in library.profiles.values()
            },
        }


def _view(
    record: db_api.SessionRecord,
    host_uuid: str | None,
    slots: Mapping[int, inventories.Slot],
) -> objects.SessionView:
    place: dict[str, Any] = {}
    slot = slots.get(record.slot_id or 0)
    if slot is not None:
        place = {
            "slot_host_uuid": slot.device.host.uuid,
            "slot_host_name": slot.device.host.name,
            "device": slot.device.record.name,
            "slot": slot.record.number,
        }
    # A READY view without its secret gets an older revision than one with it:
    # a client that waits for a later one then gets it from the next leader.
    is_ready = record.state == states.READY
    return objects.SessionView.of(
        record,
        revision=max(record.revision - is_ready, 0),
        host_uuid=host_uuid,
        **place,
    )


def _boards(pool: inventories.Inventory) -> dict[int, list[_Board]]:
    """Return devices with their slots, by the ids of their hosts."""
    slots: dict[str, list[inventories.Slot]] = {}
    for slot in pool.slots:
        slots.setdefault(slot.device.id, []).append(slot)
    found: dict[int, list[_Board]] = {}
    for device in pool.devices:
        board = _Board(device, slots.get(device.id, []))
        found.setdefault(device.host.id, []).append(board)
    return found


def _host(
    pool: inventories.Inventory,
    host: db_api.HostRecord,
    boards: Iterable[_Board],
) -> dict[str, Any]:
    return {
        "uuid": host.uuid,
        "name": host.name,
        "up": host.up,
        "devices": [
            {
                "name": device.record.name,
                "healthy": device.record.healthy,
                "reservable_slots": device.record.reservable_slots,
                "reserved_slots": device.reserved_slots,
                "pending_reservations": pool.pending_reservations(device),
                "slots": [_slot(slot) for slot in slots],
            }
            for device, slots in boards
        ],
    }


def _slot(slot: inventories.Slot) -> dict[str, Any]:
    return {
        "slot": slot.record.number,
        "shape": slot.record.shape,
        "state": slot.state,
        "accelerator": slot.holder.accelerator if slot.holder else None,
        "programmed": slot.record.programmed,
    }


def _slots(boards: Iterable[_Board]) -> dict[str, Any]:
    """:returns: the number of slots, and of working free ones by shape."""
    total = 0
    shapes: dict[str, list[int]] = {}
    for device, slots in boards:
        total += len(slots)
        for slot in slots:
            if device.state == "up" and not slot.record.faulty:
                count = shapes.setdefault(slot.record.shape, [0, 0])
                count[0] += 1
                is_taken = slot.holder or slot.record.reserved_for
                count[1] += not is_taken
    return {"slots": total, "shapes": shapes}
