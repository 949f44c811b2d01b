# SPDX-License-Identifier: Apache-2.0

"""Hosts as callers see them: by name and UUID, or by a hash."""

from __future__ import annotations

import dataclasses
import functools

from fpgapool.db import inventory
from fpgapool.objects import identity

# Maximum number of inventories with hashes; only a changed policy needs any.
_MOST_KEPT = 8


@dataclasses.dataclass(frozen=True)
class Places:
    """Hosts as one caller sees them.

    :ivar project_id: the project for which hosts are hashed, so that projects
        cannot compare theirs; None: the caller sees names and UUIDs.
    """

    project_id: str | None

    @property
    def are_named(self) -> bool:
        return self.project_id is None

    def uuid(self, host_uuid: str | None) -> str | None:
        if host_uuid is None or self.project_id is None:
            return host_uuid
        return identity.host_hash(host_uuid, self.project_id)

    def name(self, host_uuid: str, host_name: str | None) -> str | None:
        if self.project_id is None:
            return host_name
        hashed = identity.host_hash(host_uuid, self.project_id)
        return f"host-{hashed[:8]}"

    def inventory(self, pool: inventory.Inventory) -> inventory.Inventory:
        """Return the pool's hardware, whose identifiers follow its hosts'."""
        return pool if self.are_named else _hashed(pool, self)


@functools.lru_cache(_MOST_KEPT)
def _hashed(pool: inventory.Inventory, places: Places) -> inventory.Inventory:
    return pool.with_hosts(
        [
            dataclasses.replace(
                host,
                uuid=str(places.uuid(host.uuid)),
                name=str(places.name(host.uuid, host.name)),
            )
            for host in pool.hosts
        ]
    )
