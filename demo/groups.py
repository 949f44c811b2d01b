# SPDX-License-Identifier: Apache-2.0

"""Groups of the demo's pool, through its REST API."""

from __future__ import annotations

import typing
from collections.abc import Hashable

from demo import rest
from fpgapool.vocabulary import states


class Groups:
    """The groups of a pool without Keystone.

    :param api_url: of its API, without the version.
    """

    def __init__(self, api_url: str) -> None:
        self._url = f"{api_url}/v1/groups"

    def create(
        self,
        name: str,
        accelerator: str,
        size: int,
        *,
        most: int,
        elastic: bool,
    ) -> str:
        """Create a group, and wait for its members.

        :param most: its members, if it is elastic.
        :returns: its ID.
        :raises DemoError: if there is none.
        """
        wanted: dict[str, object] = {
            "name": name,
            "accelerator": accelerator,
            "size": size,
            "elastic": elastic,
        }
        if elastic:
            wanted |= {"min_size": 1, "max_size": most}
        made = self._ask("POST", "", {"group": wanted})["group"]
        group_id: str = made["id"]
        rest.wait(
            lambda: len(self.members(group_id)) == size,
            f"group {name} has no members",
        )
        return group_id

    def members(self, group_id: str) -> set[Hashable]:
        """Return the slots that serve a group.

        :raises DemoError: if the pool does not say it.
        """
        group = self._ask("GET", f"/{group_id}")["group"]
        return {
            (member["host_uuid"], member["device"], member["slot"])
            for member in group["members"]
            if member["state"] == states.ACTIVE
        }

    def delete(self, group_id: str) -> None:
        """Delete a group, and wait until its slots are free.

        :raises DemoError: if the pool refuses it.
        """
        self._ask("DELETE", f"/{group_id}")
        rest.wait(
            lambda: all(
                group["id"] != group_id
                for group in self._ask("GET", "")["groups"]
            ),
            f"group {group_id} does not end",
        )

    def _ask(
        self, method: str, path: str, body: object = None
    ) -> dict[str, typing.Any]:
        return rest.ask(self._url + path, method, body)
