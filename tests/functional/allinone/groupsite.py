# SPDX-License-Identifier: Apache-2.0

"""A pool whose projects have groups."""

from __future__ import annotations

import pathlib
import sqlite3
from typing import Any

import openstack

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import group as sdk
from tests.functional.allinone import harness
from tests.harness import waiting


class Site:
    """A pool with an API, and two projects that use it."""

    def __init__(
        self, pool: harness.Pool, url: str, state_dir: pathlib.Path
    ) -> None:
        self.url = url
        self._pool = pool
        self._state_dir = state_dir
        self.mine = self._connect("eve:p1:member,reader")
        self.theirs = self._connect("mallory:p2:member,reader")
        self.admin = self._connect("root:p9:admin,manager,member,reader")

    def _connect(self, token: str) -> Any:
        cloud = openstack.connect(
            load_yaml_config=False,
            load_envvars=False,
            auth_type="admin_token",
            auth={"endpoint": f"{self.url}/v1", "token": token},
        )
        return fpgapool_service.proxy_of(cloud)

    def wait_members(self, group_id: str, count: int) -> sdk.Group:
        """Wait until a group has so many members that serve it."""

        def ready() -> sdk.Group | None:
            group = self.mine.get_group(group_id)
            states = [member["state"] for member in group.members]
            return group if states == ["ACTIVE"] * count else None

        return waiting.wait_until(ready, f"{count} members", harness.LIMIT_S)

    def wait_until_gone(self) -> None:
        """Wait until deleted groups have given their slots back."""
        waiting.wait_until(
            lambda: not self.rows("groups") and not self.rows("assignments"),
            "no groups",
            harness.LIMIT_S,
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table, as a new leader would find them."""
        (path,) = self._state_dir.rglob("*.sqlite")
        with sqlite3.connect(path) as connection:
            connection.row_factory = sqlite3.Row
            query = f'SELECT * FROM "{table}" ORDER BY 1'
            return [dict(row) for row in connection.execute(query)]
