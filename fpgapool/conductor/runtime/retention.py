# SPDX-License-Identifier: Apache-2.0

"""The thread that deletes old rows of sessions and instances."""

from __future__ import annotations

import time
from collections.abc import Callable

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.runtime import threads
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

# Deleting this many rows takes milliseconds, during which the leader's other
# transactions wait: all of them lock the row with the epoch.
STEP_ROWS = 100
# Pause between steps, as a multiple of a step's duration.
_PAUSES = 9
_SHORTEST_PAUSE_S = 0.1
# Delay before the first step: a new leader has more urgent work.
_FIRST_S = 10.0
_NOTHING_LEFT_S = 600.0
_RETRY_S = 60.0

_SECONDS_PER_DAY = 86400
_STOP_S = 5.0


class Retention(threads.Background):
    """Deletes ended sessions and deleted instances, a few rows at a time."""

    def __init__(
        self,
        database: db_api.Database,
        epoch: int,
        days: float,
        *,
        now: Callable[[], float],
        counts: conductor_counts.Counts,
        on_failure: Callable[[str], None],
    ) -> None:
        self._epoch = epoch
        self._days = days
        self._now = now
        self._counts = counts
        self._purges = {
            "sessions": database.purge_sessions,
            "instances": database.purge_instances,
        }
        # Rows deleted since the last log line, by table.
        self._deleted = dict.fromkeys(self._purges, 0)
        self._failing = False
        super().__init__("retention", on_failure, _STOP_S)

    def step(self) -> float:
        """Delete some rows; return the delay until the next step, in seconds.

        :raises NotLeader: if there is a later leader.
        """
        started_s = time.monotonic()
        try:
            more = self._delete()
        except exception.DatabaseError as error:
            if not self._failing:
                LOG.warning("Cannot purge old rows: %s", error)
            self._failing = True
            return _RETRY_S
        self._failing = False
        if more:
            took_s = time.monotonic() - started_s
            return max(took_s * _PAUSES, _SHORTEST_PAUSE_S)
        self._log()
        return _NOTHING_LEFT_S

    def _delete(self) -> bool:
        before = self._now() - self._days * _SECONDS_PER_DAY
        for table, purge in self._purges.items():
            deleted = purge(before, STEP_ROWS, self._epoch)
            self._deleted[table] += deleted
            self._counts.purged_rows[table] += deleted
            if deleted == STEP_ROWS:
                return True
        return False

    def _log(self) -> None:
        if any(self._deleted.values()):
            LOG.info(
                "Purged rows that ended more than %d days ago: %s",
                self._days,
                ", ".join(f"{n} {what}" for what, n in self._deleted.items()),
            )
            self._deleted = dict.fromkeys(self._purges, 0)

    def _run(self) -> None:
        delay_s = _FIRST_S
        while not self._stopping.wait(delay_s):
            try:
                delay_s = self.step()
            except exception.NotLeader:
                # The group-commit thread will end the term.
                return
