# SPDX-License-Identifier: Apache-2.0

"""Elects the leader through one database row.

The row contains the lease and the epoch. A stand-by trusts only its own clock:
it takes the lease after it has seen no renewal for the duration of the lease.
The epoch fences former leaders: every write checks it, and every order to an
agent contains it.

Sessions' waiting times are measured in *pool time*, in seconds of conductors'
monotonic clocks. The leader stores it with each renewal, and a stand-by
continues it with its own clock. So setting the database's clock does not
change how long sessions have waited. A stand-by reads the database's clock
once, for the times shown to users.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator

from oslo_log import log as logging

from fpgapool.common import clock
from fpgapool.common import exception
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

# Maximum time between readings of the lease, so that a stand-by takes over
# soon after the end of even a long lease.
_LOOK_INTERVAL_S = 0.5


class _Silence:
    """Measures the time since a lease last changed.

    Only time between successful reads counts: outages of the database and
    suspensions of this process say nothing about the leader.
    """

    def __init__(self) -> None:
        self._lease: db_api.Lease | None = None
        self._seen_at_s: float | None = None
        self._total_s = 0.0

    def note(
        self, lease: db_api.Lease | None, now_s: float, longest_s: float
    ) -> float:
        """Return the time since the lease last changed.

        :param longest_s: the maximum that one interval between reads adds.
        """
        if self._seen_at_s is None or lease != self._lease:
            self._total_s = 0.0
        else:
            self._total_s += min(now_s - self._seen_at_s, longest_s)
        self._lease, self._seen_at_s = lease, now_s
        return self._total_s


class Election:
    """One conductor's part in the election.

    :param name: this conductor's name, which must be unique.
    """

    def __init__(
        self, database: db_api.Database, name: str, lease_s: float
    ) -> None:
        self._database = database
        self._name = name
        self._lease_s = lease_s
        self._clock: clock.WallClock | None = None
        # The last stored pool time, and a clock that continues it.
        self._stored_s: float | None = None
        self._pool_clock: clock.WallClock | None = None

    def pool_time_s(self) -> float | None:
        """Return the pool time, continued with this conductor's clock.

        :returns: None if no leader has stored it yet.
        """
        return self._pool_clock.now() if self._pool_clock else None

    def _update_pool_time(self, lease: db_api.Lease | None) -> None:
        stored_s = lease.pool_time_s if lease else None
        if stored_s is not None and stored_s != self._stored_s:
            self._stored_s = stored_s
            self._pool_clock = clock.WallClock(wall=lambda: stored_s)

    def now(self) -> float:
        """Return this conductor's wall-clock time.

        :raises DatabaseError: if the first call cannot query the database.
        """
        if self._clock is None:
            self._clock = clock.WallClock(wall=self._database.now)
        return self._clock.now()

    def win(self, stopping: threading.Event) -> int | None:
        """Stand by until elected.

        :returns: the epoch; None if ``stopping`` was set.
        """
        silence = _Silence()
        failing = False
        interval_s = min(self._lease_s / 6, _LOOK_INTERVAL_S)
        while not stopping.is_set():
            try:
                lease = self._database.read_lease()
                self._update_pool_time(lease)
                self.now()
                silent_s = silence.note(
                    lease, time.monotonic(), self._lease_s / 3
                )
                if self._may_take(lease, silent_s):
                    return self._database.take_lease(self._name, lease).epoch
                failing = False
            except exception.NotLeader:
                LOG.info("Another conductor was elected, standing by")
            except exception.DatabaseError as error:
                silence = _Silence()
                if not failing:
                    LOG.error("Cannot take part in the election: %s", error)
                failing = True
            stopping.wait(interval_s)
        return None

    def _may_take(self, lease: db_api.Lease | None, silent_s: float) -> bool:
        # A lease with this name is from before a restart. That process has
        # ended, or the new epoch fences it.
        if lease is None or lease.holder in ("", self._name):
            return True
        return silent_s >= self._lease_s

    def hold(
        self,
        epoch: int,
        stopping: threading.Event,
        on_renewed: Callable[[], None],
        pool_time_s: Callable[[], float | None],
    ) -> bool:
        """Renew the lease until ``stopping`` is set or it is lost.

        The leader continues while the database is unavailable, because no
        other conductor can then be elected.

        :param on_renewed: called after each renewal; may raise DatabaseError.
        :param pool_time_s: returns the pool time to store; None: store none.
        :returns: False if another conductor has been elected.
        """
        while not stopping.wait(self._lease_s / 3):
            try:
                self._database.renew_lease(self._name, epoch, pool_time_s())
                on_renewed()
            except exception.NotLeader:
                return False
            except exception.DatabaseError as error:
                LOG.warning("Cannot renew the lease: %s", error)
        return True

    @contextlib.contextmanager
    def kept(self, epoch: int, deposed: threading.Event) -> Iterator[None]:
        """Renew the lease in another thread while a block runs."""
        done = threading.Event()

        def keep() -> None:
            # The new leader stores the pool time after the takeover.
            if not self.hold(epoch, done, lambda: None, lambda: None):
                LOG.warning(
                    "Another conductor was elected during the takeover"
                )
                deposed.set()

        keeper = threading.Thread(target=keep, name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()

    def resign(self, epoch: int, pool_time_s: float | None) -> None:
        """Release the lease, so that a stand-by can take over immediately."""
        try:
            self._database.release_lease(self._name, epoch, pool_time_s)
        except exception.NotLeader:
            LOG.debug("This conductor no longer held the lease")
        except exception.DatabaseError as error:
            LOG.warning("Cannot release the lease: %s", error)
