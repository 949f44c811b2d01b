# SPDX-License-Identifier: Apache-2.0

"""What each project uses of a desk, and the limits for that."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.agent.child import port as data_ports
from fpgapool.common.monitoring import ratelimit
from fpgapool.vocabulary import codes

#: While a project has more bytes waiting than this, its tasks are not read.
MAX_WAITING_BYTES = 64 * 1024 * 1024
#: Memory that a waiting task uses in addition to its record.
TASK_BYTES = 512

# Rate limits for new connections, each of which needs its own rings. Bursts
# are allowed, because all clients reconnect at once when a desk restarts.
_CLIENT_PER_S, _CLIENT_BURST = 5.0, 30
_PROJECT_PER_S, _PROJECT_BURST = 50.0, 256


class Account:
    """The tasks of one project that wait at the desk.

    Only the loop's thread uses it.

    :ivar stalled: ports that are not read until they are woken.
    """

    def __init__(self, wake: Callable[[typing.Any], None]) -> None:
        self.wake = wake
        self.waiting_bytes = 0
        self.stalled: set[typing.Any] = set()

    def wake_readers(self) -> None:
        """Wake ports that may be read again."""
        for port in [one for one in self.stalled if one.may_read]:
            self.stalled.discard(port)
            self.wake(port)


class Accounts:
    """The accounts of all projects."""

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
        """Return a project's account; only the loop's thread may call this."""
        account = self._accounts.get(project_id)
        if account is None:
            account = self._accounts[project_id] = Account(self._wake)
        return account

    @contextlib.contextmanager
    def connection(self, project_id: str, client_id: str) -> Iterator[None]:
        """Count a connection while it lasts; thread-safe.

        :raises data_ports.Refused: ``RATE_LIMITED`` or ``QUOTA_EXCEEDED``.
        """
        wait_s = self._by_client.wait_s(client_id) or self._by_project.wait_s(
            project_id
        )
        if wait_s:
            raise data_ports.Refused(
                codes.RATE_LIMITED,
                f"too many new connections; retry in {wait_s:.1f} s",
            )
        with self._lock:
            if self._connections[project_id] >= self._max_connections:
                raise data_ports.Refused(
                    codes.QUOTA_EXCEEDED,
                    "a project's programs may have at most"
                    f" {self._max_connections} connections to a group per"
                    " host",
                )
            self._connections[project_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._connections[project_id] -= 1
                if not self._connections[project_id]:
                    del self._connections[project_id]
