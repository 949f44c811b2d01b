# SPDX-License-Identifier: Apache-2.0

"""The pool's summary, its hosts and its snapshot."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.backends import inventory
from fpgapool.api.http import rights
from fpgapool.db import api as db_api
from fpgapool.db import inventory as inventories
from fpgapool.vocabulary import inventory as description
from fpgapool.vocabulary import states

#: The version since which the summary has numbers only.
COUNTS_SINCE = (1, 1)

_COUNTS = ("hosts", "hosts_up", "devices", "devices_healthy", "slots")


def show(call: calls.Call) -> calls.Answer:
    """Show a summary of the pool."""
    counts, call.recorded = call.backends.pool_counts()
    document = {
        "strategy": counts["strategy"],
        "waiting": counts["sessions"].get(states.QUEUED, 0),
        "sessions": counts["sessions"],
    }
    if call.version >= COUNTS_SINCE:
        document["counts"] = {name: counts[name] for name in _COUNTS}
    else:
        pool = call.backends.inventory.get()
        seen = call.places.inventory(pool).hosts
        may_see = call.allows(rights.POOL_HOSTS)
        document["hosts"] = _hosts(call, pool, seen if may_see else ())
    return calls.Answer(document={"pool": document})


def hosts(call: calls.Call) -> calls.Answer:
    """List the hosts with their devices and slots."""
    pool = call.backends.inventory.get()
    seen = call.places.inventory(pool).hosts
    found = {host.id for host in seen if _matches(call, pool, host)}
    page = paging.chosen(
        call,
        description.POOL_HOST,
        seen,
        operator.attrgetter,
        key="uuid",
        wanted=lambda host: host.id in found,
    )
    document = paging.document(
        call,
        "hosts",
        _hosts(call, pool, page),
        key="uuid",
        path=("pool", "hosts"),
    )
    return calls.Answer(document={"total": len(found), **document})


def _matches(
    call: calls.Call, pool: inventories.Inventory, host: db_api.HostRecord
) -> bool:
    """Whether the query asks for a host."""
    state = call.query.get("slot_state")
    return call.query.get("name_part", "").lower() in host.name.lower() and (
        state is None
        or any(
            slot.state == state
            for device in pool.devices_of(host)
            for slot in pool.slots_of(device)
        )
    )


def _hosts(
    call: calls.Call,
    pool: inventories.Inventory,
    chosen: Sequence[db_api.HostRecord],
) -> list[dict[str, Any]]:
    """Return the hosts with their devices and slots.

    :param chosen: the hosts as the caller sees them.
    """
    uuids = [pool.host_uuids[host.id] for host in chosen]
    now = call.backends.hosts_now(uuids)
    # The use of this privilege is audited, so it is checked at most once, and
    # only if the response would show another project's data.
    sees_all = functools.cache(lambda: call.may(rights.SESSIONS_ALL_PROJECTS))
    return pool.summary(
        inventory.unusable(now),
        lambda key: calls.public_key(call, key, sees_all),
        chosen,
    )


def snapshot(call: calls.Call) -> calls.Answer:
    """Show the data that Nova's scheduler uses."""
    found, call.recorded = call.backends.snapshot.get()
    return call.tagged(found["generation"], document={"snapshot": found})
