# SPDX-License-Identifier: Apache-2.0

"""Which conductor leads: one row of the database says it.

The row is the election and the epoch at once. A stand-by trusts no clock but
its own: it takes the lease when it has seen no renewal for the time of the
lease. A former leader is fenced by the epoch, which every write checks
and every order to an agent carries.

What sessions wait is counted in *pool time*: seconds that conductors have
measured by clocks that cannot be set. The leader tells it with each renewal,
and a stand-by goes on from there by its own monotonic clock. So whatever the
database's clock is set to, and whenever, no session that waits looks older to
the next leader. That clock is asked once, by a stand-by, for the times that
people read.
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

# A stand-by looks at least that often, so that with long leases, too, it
# leads soon after the lease has run out.
_LOOK_INTERVAL_S = 0.5


class _Silence:
    """For how long a lease has been seen unchanged.

    Only time in which it was looked at counts: while the database was away,
    or this process stood still, the leader could perhaps not renew it either.
    """

    def __init__(self) -> None:
        self._lease: db_api.Lease | None = None
        self._seen_at_s: float | None = None
        self._total_s = 0.0

    def note(
        self, lease: db_api.Lease | None, now_s: float, longest_s: float
    ) -> float:
        """Return for how long the lease has not changed.

        :param lease: as it is now.
        :param now_s: by a clock that nobody sets.
        :param longest_s: what a look counts at most.
        """
        if self._seen_at_s is None or lease != self._lease:
            self._total_s = 0.0
        else:
            self._total_s += min(now_s - self._seen_at_s, longest_s)
        self._lease, self._seen_at_s = lease, now_s
        return self._total_s


class Election:
    """One conductor's part in the election.

    :param database: holds the lease row.
    :param name: this conductor's name; no two may share one.
    :param lease_s: how long a silent leader stays in office.
    """

    def __init__(
        self, database: db_api.Database, name: str, lease_s: float
    ) -> None:
        self._database = database
        self._name = name
        self._lease_s = lease_s
        self._clock: clock.WallClock | None = None
        # What pool time a leader told last, and a clock that goes on from
        # there.
        self._told_s: float | None = None
        self._pool_clock: clock.WallClock | None = None

    def pool_time_s(self) -> float | None:
        """Return pool time, as far as it was told and measured since.

        :returns: None if no leader has ever told it.
        """
        return self._pool_clock.now() if self._pool_clock else None

    def _note_pool_time(self, lease: db_api.Lease | None) -> None:
        told_s = lease.pool_time_s if lease else None
        if told_s is not None and told_s != self._told_s:
            self._told_s = told_s
            self._pool_clock = clock.WallClock(wall=lambda: told_s)

    def now(self) -> float:
        """Return the time by which this conductor leads.

        :raises: DatabaseError if it was not known yet and cannot be asked.
        """
        if self._clock is None:
            self._clock = clock.WallClock(wall=self._database.now)
        return self._clock.now()

    def win(self, stopping: threading.Event) -> int | None:
        """Stand by until elected.

        :param stopping: ends the wait.
        :returns: the epoch; None if ``stopping`` was set.
        """
        silence = _Silence()
        failing = False
        interval_s = min(self._lease_s / 6, _LOOK_INTERVAL_S)
        while not stopping.is_set():
            try:
                lease = self._database.read_lease()
                self._note_pool_time(lease)
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
                    LOG.error("No election is possible: %s", error)
                failing = True
            stopping.wait(interval_s)
        return None

    def _may_take(self, lease: db_api.Lease | None, silent_s: float) -> bool:
        # One's own name is from before a restart: that process is gone, or
        # will be fenced by the new epoch.
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

        While the database is away nobody else can be elected either, so
        the leader stays in office.

        :param on_renewed: called after each renewal; may raise
            DatabaseError.
        :param pool_time_s: what to tell with each renewal; None: nothing.
        :returns: False if another conductor has been elected.
        """
        while not stopping.wait(self._lease_s / 3):
            try:
                self._database.renew_lease(self._name, epoch, pool_time_s())
                on_renewed()
            except exception.NotLeader:
                return False
            except exception.DatabaseError as error:
                LOG.warning("The lease was not renewed: %s", error)
        return True

    @contextlib.contextmanager
    def kept(self, epoch: int, deposed: threading.Event) -> Iterator[None]:
        """Renew the lease in a thread of its own while a block runs.

        :param deposed: set if another conductor has been elected.
        """
        done = threading.Event()

        def keep() -> None:
            # Pool time is told by who has taken over, not on the way.
            if not self.hold(epoch, done, lambda: None, lambda: None):
                LOG.warning("Another conductor was elected meanwhile")
                deposed.set()

        keeper = threading.Thread(target=keep, name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()

    def resign(self, epoch: int, pool_time_s: float | None) -> None:
        """Give the lease back, so that a stand-by need not wait for it.

        :param pool_time_s: as it is now; None: it is not known.
        """
        try:
            self._database.release_lease(self._name, epoch, pool_time_s)
        except exception.NotLeader:
            LOG.debug("The lease was not ours any more")
        except exception.DatabaseError as error:
            LOG.warning("The lease was not given back: %s", error)
