# SPDX-License-Identifier: Apache-2.0

"""What the clients of each project use of a desk, and how much they may.

A project at its limit affects no other one.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.agent.worker.data import session as sessions
from fpgapool.common.monitoring import ratelimit
from fpgapool.vocabulary import codes

#: While so much of a project waits at the desk, its clients are not read from.
MAX_WAITING_BYTES = 64 * 1024 * 1024
#: What a waiting task takes beside its record.
TASK_BYTES = 512

# New connections, each with rings of its own: per second in the long run, and
# at once. All clients of a project come at once when a desk is restarted.
_CLIENT_PER_S, _CLIENT_BURST = 5.0, 30
_PROJECT_PER_S, _PROJECT_BURST = 50.0, 256


class Reader(typing.Protocol):
    """A client's port, as its account needs it."""

    @property
    def may_read(self) -> bool:
        """Whether it may take more of its client's records."""


class Account:
    """The tasks of one project that wait at the desk.

    All of it runs in the loop's thread.

    :ivar wake: lets the loop look at a port again.
    :ivar waiting_bytes: of all clients.
    :ivar stalled: ports that are not read from, and have to be woken.
    """

    def __init__(self, wake: Callable[[typing.Any], None]) -> None:
        self.wake = wake
        self.waiting_bytes = 0
        self.stalled: set[Reader] = set()

    def wake_readers(self) -> None:
        """Wake those that may be read again."""
        for port in [one for one in self.stalled if one.may_read]:
            self.stalled.discard(port)
            self.wake(port)


class Accounts:
    """The accounts of all projects.

    :param max_connections: of each project.
    :param wake: lets the loop look at a port again.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self,
        max_connections: int,
        wake: Callable[[typing.Any], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        clock = clock or time.monotonic
        self._max_connections = max_connections
        self._wake = wake
        self._accounts: dict[str, Account] = {}
        self._lock = threading.Lock()
        self._connections: collections.Counter[str] = collections.Counter()
        self._by_client = ratelimit.Limiter(
            _CLIENT_PER_S, _CLIENT_BURST, clock
        )
        self._by_project = ratelimit.Limiter(
            _PROJECT_PER_S, _PROJECT_BURST, clock
        )

    def of(self, project_id: str) -> Account:
        """Return the account of a project; in the loop's thread."""
        account = self._accounts.get(project_id)
        if account is None:
            account = self._accounts[project_id] = Account(self._wake)
        return account

    @contextlib.contextmanager
    def connection(self, project_id: str, client_id: str) -> Iterator[None]:
        """Count a connection of a client, which may attach; thread-safe.

        :raises sessions.Refused: ``RATE_LIMITED`` or ``QUOTA_EXCEEDED``.
        """
        wait_s = self._by_client.wait_s(client_id) or self._by_project.wait_s(
            project_id
        )
        if wait_s:
            raise sessions.Refused(
                codes.RATE_LIMITED,
                f"too many new connections: try again in {wait_s:.1f} s",
            )
        with self._lock:
            if self._connections[project_id] >= self._max_connections:
                raise sessions.Refused(
                    codes.QUOTA_EXCEEDED,
                    f"programs of a project may have {self._max_connections}"
                    " connections to a group on one host",
                )
            self._connections[project_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._connections[project_id] -= 1
                if not self._connections[project_id]:
                    del self._connections[project_id]
