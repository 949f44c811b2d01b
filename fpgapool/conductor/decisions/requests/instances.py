# SPDX-License-Identifier: Apache-2.0

"""Instances that have tokens, and how changes in Nova affect them.

Nothing here does I/O: :mod:`fpgapool.conductor.outside.instance_watch` polls
Nova with :mod:`fpgapool.clients.nova`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.clients import nova
from fpgapool.common import flavors
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.db import api as db_api
from fpgapool.objects import base
from fpgapool.objects import instance
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import shapes

# Deleted instances to remember, so that late requests do not revive them. The
# API finds older ones in the database.
_REMEMBERED = 100_000

_entry = fields.copier(base.members(objects.InstanceEntry))
#: Checks that an entry can be stored in a row.
ENTRY = shapes.Members(
    {
        "instance_id": shapes.matching(
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "a UUID"
        ),
        "project_id": shapes.text(least=1),
        "token_nonce": shapes.matching(
            r"[0-9a-f]{32,64}", "32 to 64 hexadecimal digits"
        ),
        "token_hash": shapes.matching(r"[0-9a-f]{64}", "a SHA-256"),
        "max_sessions": shapes.nullable(shapes.integer(0, 2**31 - 1)),
    },
    others=True,
)

# Queries overlap: Nova's transactions take time, its clock may be behind.
_OVERLAP_S = 120.0
# Nova may archive servers that were deleted longer ago than this.
_MAX_GAP_S = 3600.0


class Directory:
    """All instances that have tokens and are not deleted."""

    def __init__(
        self, records: Iterable[db_api.InstanceRecord], last_id: int
    ) -> None:
        self._live = {record.instance_id: record for record in records}
        self._last_id = last_id
        self._deleted: dict[str, None] = {}
        self._changed: dict[int, db_api.InstanceRecord] = {}

    @property
    def live(self) -> Mapping[str, db_api.InstanceRecord]:
        return self._live

    def take(self) -> list[db_api.InstanceRecord]:
        """Return the rows that have changed since the last call."""
        rows, self._changed = list(self._changed.values()), {}
        return rows

    def admit(
        self, entry: objects.InstanceEntry, lost_hash: str, now: float
    ) -> None:
        """Add an instance with its token, or update a known one.

        A known instance keeps its token, unless this is lost: the first of two
        concurrent requests wins.

        :param lost_hash: hash of the token to replace; another token is kept.
        """
        known = self._live.get(entry.instance_id)
        if known is not None:
            token: dict[str, Any] = {}
            if known.token_hash == lost_hash:
                token = {
                    "token_nonce": entry.token_nonce,
                    "token_hash": entry.token_hash,
                }
            self._put(
                dataclasses.replace(
                    known,
                    name=entry.name,
                    max_sessions=entry.max_sessions,
                    **token,
                )
            )
        elif entry.instance_id not in self._deleted:
            self._last_id += 1
            self._put(
                db_api.InstanceRecord(
                    id=self._last_id, created_at=now, **vars(entry)
                )
            )

    def revoke(self, instance_id: str) -> None:
        """Revoke an instance's token permanently."""
        known = self._live.get(instance_id)
        if known is not None:
            self._put(dataclasses.replace(known, token_revoked=True))

    def delete(self, instance_id: str, now: float) -> bool:
        """Record that an instance was deleted; return whether it was known."""
        known = self._live.pop(instance_id, None)
        if known is None:
            return False
        self._changed[known.id] = dataclasses.replace(known, deleted_at=now)
        self._deleted[instance_id] = None
        while len(self._deleted) > _REMEMBERED:
            del self._deleted[next(iter(self._deleted))]
        return True

    def note(
        self, instance_id: str, host_uuid: str | None, max_sessions: int | None
    ) -> None:
        """Set an instance's host and its flavor's limit on sessions."""
        known = self._live.get(instance_id)
        if known is not None:
            self._put(
                dataclasses.replace(
                    known, host_uuid=host_uuid, max_sessions=max_sessions
                )
            )

    def check(self, user_id: str, project_id: str, used: int) -> None:
        """Check that an instance may have one more session.

        :param used: the user's current number of sessions.
        """
        instance_id = instance.id_of(user_id)
        if instance_id is None:
            return
        known = self._live.get(instance_id)
        if known is None or known.project_id != project_id:
            raise admission.Rejected(
                codes.INSTANCE_DELETED,
                f"instance {instance_id} no longer exists",
            )
        limit = known.max_sessions
        if limit is not None and used >= limit:
            raise admission.Rejected(
                codes.INSTANCE_SESSION_LIMIT,
                f"the instance's flavor allows {limit} concurrent sessions",
            )

    def host_uuid(self, user_id: str) -> str | None:
        """Return the host of an instance; None if it is unknown."""
        known = self._live.get(instance.id_of(user_id) or "")
        return known.host_uuid if known else None

    def _put(self, record: db_api.InstanceRecord) -> None:
        if record != self._live.get(record.instance_id):
            self._live[record.instance_id] = record
            self._changed[record.id] = record


def changes(
    known: Mapping[str, db_api.InstanceRecord],
    servers: Iterable[nova.Server],
    computes: Mapping[str, str],
) -> Iterator[inputs.Input]:
    """Yield the inputs that result from changes in Nova.

    Until an instance is deleted, it keeps its token and sessions: also when it
    is rebuilt, resized, shelved, stopped or rescued. A new flavor applies
    only to new sessions.

    :param computes: UUIDs of compute nodes, by hypervisor name, without
        ambiguous names.
    """
    for server in servers:
        record = known.get(server.id)
        if record is None:
            continue
        if server.deleted:
            yield inputs.InstanceDeleted(server.id)
            continue
        host_uuid = computes.get(server.hypervisor or "")
        flavor = flavors.read(server.extra_specs or {})
        max_sessions = (
            record.max_sessions
            # Keep the limit if Nova did not send the extra specs, or if the
            # flavor says nothing about accelerators.
            if server.extra_specs is None
            or not (flavor.asks or flavor.max_sessions is not None)
            else flavor.max_sessions
        )
        if (host_uuid, max_sessions) != (
            record.host_uuid,
            record.max_sessions,
        ):
            yield inputs.InstanceChanged(server.id, host_uuid, max_sessions)


def changed_computes(
    hosts: Mapping[str, db_api.ComputeState], listed: Collection[str]
) -> tuple[frozenset[str], list[str]]:
    """Compare the pool's hosts with Nova's compute nodes.

    Hosts that never had a compute node are ignored: Nova is optional.

    :returns: hosts with a new compute node, and hosts that lost theirs.
    """
    known = db_api.ComputeState.KNOWN
    return (
        frozenset(u for u in hosts if u in listed and hosts[u] is not known),
        sorted(u for u in hosts if u not in listed and hosts[u] is known),
    )


def missing(
    known: Mapping[str, db_api.InstanceRecord],
    servers: Iterable[nova.Server],
    since: float | None,
    now: float,
) -> list[str]:
    """Return the instances that Nova must be queried for individually.

    A list of all servers does not include deleted ones, and a list of changes
    does not include those that last changed long before they got tokens.

    :param since: wall-clock time since which ``servers`` contains changes;
        None: it contains all servers.
    :param now: when the servers were listed.
    """
    listed_ids = {server.id for server in servers}
    return [
        record.instance_id
        for record in known.values()
        if record.instance_id not in listed_ids
        and (
            record.created_at < now
            if since is None
            else record.created_at >= since
        )
    ]


def query_start(since: float | None, now: float) -> float | None:
    """Return the time from which to query Nova's changes; None: query all.

    :param since: wall-clock time of the last successful query, if any.
    """
    if since is None or not 0 <= now - since < _MAX_GAP_S:
        return None
    return since - _OVERLAP_S


def entry_of(record: db_api.InstanceRecord) -> objects.InstanceEntry:
    """Return the RPC payload of an instance."""
    return objects.InstanceEntry(**_entry(record))
