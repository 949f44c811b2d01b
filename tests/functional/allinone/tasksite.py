# SPDX-License-Identifier: Apache-2.0

"""A pool whose projects run tasks in groups."""

from __future__ import annotations

import os
import pathlib
import subprocess

from tests.functional.allinone import groupsite
from tests.functional.allinone import harness
from tests.harness import waiting

# As programs without a token are.
USER = "noauth:default:member,reader"


class Site(groupsite.Site):
    """A pool whose programs have no tokens."""

    def __init__(
        self, pool: harness.Pool, url: str, state_dir: pathlib.Path
    ) -> None:
        super().__init__(pool, url, state_dir)
        self.pool = pool
        self.user = self._connect(USER)

    def start(
        self, directory: pathlib.Path, *command: str | pathlib.Path
    ) -> str:
        """Run a program to its end, and return what it prints."""
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "FPGAPOOL_API_URL": self.url},
            capture_output=True,
            text=True,
            timeout=harness.LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def user_members(self, group_id: str, count: int) -> None:
        """Wait until the user's group has so many members."""

        def ready() -> bool:
            members = self.user.get_group(group_id).members
            return [one["state"] for one in members] == ["ACTIVE"] * count

        waiting.wait_until(ready, f"{count} members", harness.LIMIT_S)

    def slot_states(self) -> set[str]:
        return {slot.state for slot in self.admin.slots()}
