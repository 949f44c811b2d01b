# SPDX-License-Identifier: Apache-2.0

"""Hosts, devices and slots as the API shows them."""

from __future__ import annotations

import collections
import hashlib
import json
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from fpgapool.api.http import times
from fpgapool.db import api as db_api
from fpgapool.db import inventory
from fpgapool.objects import bounds
from fpgapool.vocabulary import states


def probation(
    fault: db_api.FaultRecord | None, sees_all: bool
) -> dict[str, Any]:
    """Return the members about a fault and its self-tests.

    :param fault: the fault; None if the slot, device or accelerator works, or
        only its driver reports a fault.
    :param sees_all: whether the caller may see messages from hosts.
    """
    return {
        "failures": fault.failures if fault else 0,
        "self_tests": fault.tests if fault else 0,
        "last_self_test": fault.last_test if fault and sees_all else "",
        "next_self_test_at": times.text(fault.next_test_at if fault else None),
    }


def counts(
    database: db_api.Database, pool: inventory.Inventory
) -> dict[str, Any]:
    """Return the pool in numbers, from the database's rows.

    They replace those of
    :meth:`fpgapool.rpcapi.conductor.ConductorAPI.pool_counts` while the leader
    does not answer. The strategy is unknown.
    """
    sessions: collections.Counter[str] = collections.Counter()
    queued: collections.Counter[str] = collections.Counter()
    for one in database.count_sessions():
        sessions[one.state] += one.sessions
        if one.state == states.QUEUED:
            queued[one.accelerator] += one.sessions
    return {
        "strategy": None,
        "sessions": dict(sessions),
        "queued": dict(queued.most_common(bounds.MAX_COUNTED_ACCELERATORS)),
        "builtins": {},
        **pool.counts(),
    }


def hosts_now(
    database: db_api.Database, pool: inventory.Inventory
) -> dict[str, Any]:
    """Return the figures of hosts that the database has, by UUID."""
    origins: collections.Counter[int | None] = collections.Counter()
    for one in database.count_sessions():
        if one.state == states.QUEUED:
            origins[one.host_id] += one.sessions
    return {host.uuid: {"queued": origins[host.id]} for host in pool.hosts}


def unusable(hosts: Mapping[str, Any]) -> frozenset[int]:
    """Return the row ids of the slots that the leader cannot use now.

    :param hosts: the leader's figures of hosts, by UUID.
    """
    return frozenset(
        slot_id
        for one in hosts.values()
        for slot_id in one.get("unusable_slots", ())
    )


def snapshot(
    pool: inventory.Inventory,
    shapes: Mapping[str, Collection[str]],
    queued: Mapping[str, int],
    hosts_now: Mapping[str, Any],
    generated_at: float,
) -> dict[str, Any]:
    """Return the snapshot for Nova.

    A host's accelerators are only those for which it has a usable slot.

    :param shapes: shapes of slots that each accelerator fits; empty: all.
    :param queued: numbers of waiting sessions by accelerator.
    :param hosts_now: figures of hosts, by UUID.
    :param generated_at: current time, in seconds since the epoch.
    """
    not_now = unusable(hosts_now)
    totals: collections.Counter[int] = collections.Counter()
    counts: dict[int, dict[str, list[int]]] = {}
    for slot in pool.slots:
        host_id = slot.device.host.id
        totals[host_id] += 1
        if slot.is_usable and slot.record.id not in not_now:
            count = counts.setdefault(host_id, {}).setdefault(
                slot.record.shape, [0, 0]
            )
            count[0] += 1
            count[1] += not (slot.holder or slot.record.reserved_for)
    # Most hosts of a cloud have the same slots, so they share the result.
    known: dict[tuple[tuple[str, int, int], ...], dict[str, Any]] = {}
    hosts = {}
    for host in pool.hosts:
        key = tuple(
            (shape, usable, free)
            for shape, (usable, free) in sorted(
                counts.get(host.id, {}).items()
            )
        )
        if key not in known:
            known[key] = _accelerators(key, shapes)
        figures = hosts_now.get(host.uuid, {})
        hosts[host.uuid] = {
            "name": host.name,
            "up": host.up,
            "nic_bytes_per_s": host.nic_bytes_per_s,
            "nic_load": figures.get("nic_load", 0.0),
            "queued": figures.get("queued", 0),
            "slots": {
                "total": totals[host.id],
                "usable": sum(usable for _, usable, _ in key),
                "free": sum(free for _, _, free in key),
            },
            "accelerators": known[key],
        }
    content = {"hosts": hosts, "queued": dict(queued)}
    text = json.dumps(content, sort_keys=True).encode()
    return {
        "generated_at": times.text(generated_at),
        "generation": hashlib.sha256(text).hexdigest()[:32],
        **content,
    }


def _accelerators(
    counts: tuple[tuple[str, int, int], ...],
    library: Mapping[str, Collection[str]],
) -> dict[str, dict[str, int]]:
    """Return the numbers of usable and free slots for each accelerator."""
    found = {}
    for name, shapes in library.items():
        fitting = [one for one in counts if not shapes or one[0] in shapes]
        if fitting:
            found[name] = {
                "usable": sum(usable for _, usable, _ in fitting),
                "free": sum(free for _, _, free in fitting),
            }
    return found
