# SPDX-License-Identifier: Apache-2.0

"""Groups of the demo's pool, through its REST API."""

from __future__ import annotations

import json
import time
import typing
import urllib.error
import urllib.request
from collections.abc import Callable
from collections.abc import Hashable

from fpgapool.demo import errors
from fpgapool.vocabulary import states

#: For each request; a working pool takes less.
_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.05
_HEADERS = {
    "Content-Type": "application/json",
    "OpenStack-API-Version": "fpgapool 1.1",
}


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
        _wait(
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
        _wait(
            lambda: all(
                group["id"] != group_id
                for group in self._ask("GET", "")["groups"]
            ),
            f"group {group_id} does not end",
        )

    def _ask(
        self, method: str, path: str, body: object = None
    ) -> dict[str, typing.Any]:
        request = urllib.request.Request(
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            _HEADERS,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise errors.DemoError(
                errors.POOL_FAILED, f"the API refused a request: {said}"
            ) from error
        except OSError as error:
            raise errors.DemoError(
                errors.POOL_FAILED, f"the API did not answer: {error}"
            ) from error
        found: dict[str, typing.Any] = json.loads(text) if text else {}
        return found


def _wait(is_true: Callable[[], bool], complaint: str) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not is_true():
        if time.monotonic() > deadline_s:
            raise errors.DemoError(errors.POOL_FAILED, complaint)
        time.sleep(_POLL_INTERVAL_S)
