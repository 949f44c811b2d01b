# SPDX-License-Identifier: Apache-2.0

"""Projects' usage by day."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable

from fpgapool.conductor.decisions import limits
from fpgapool.db import api as db_api


class Ledger:
    """Projects' usage on the newest day, and on the one before.

    Rows contain sums, so writing them twice is safe.

    :ivar day: the day (UTC) on which usage counts.
    :ivar heard: called with the project and the row before and after each
        change of today's usage; None: nobody listens.
    """

    def __init__(
        self, records: list[db_api.UsageRecord], last_id: int
    ) -> None:
        self._last_id = last_id
        self.day = max((r.day for r in records), default=datetime.date.min)
        self._rows = {
            (record.project_id, record.accelerator): record
            for record in records
            if record.day == self.day
        }
        self._former = list[db_api.UsageRecord]()
        self._changed: dict[int, db_api.UsageRecord] = {}
        self.heard: (
            Callable[
                [str, db_api.UsageRecord, db_api.UsageRecord],
                None,
            ]
            | None
        ) = None

    def add(
        self,
        project_id: str,
        accelerator: str,
        now: float,
        *,
        sessions: int = 0,
        sessions_met: int = 0,
        sessions_missed: int = 0,
        slot_s: float = 0.0,
        group_busy_s: float = 0.0,
        group_idle_s: float = 0.0,
        input_bytes: int = 0,
        output_bytes: int = 0,
        energy_j: float | None = None,
    ) -> None:
        """Add to a project's usage of an accelerator today (UTC).

        :param group_busy_s: time of groups' tasks; also added to ``slot_s``.
        :param group_idle_s: time of group members without a task; likewise.
        :param energy_j: None if it was not measured.
        """
        self.today(now)
        key = (project_id, accelerator)
        old = self._rows.get(key) or self._new(project_id, accelerator)
        new = self._rows[key] = dataclasses.replace(
            old,
            sessions=old.sessions + sessions,
            sessions_met=old.sessions_met + sessions_met,
            sessions_missed=old.sessions_missed + sessions_missed,
            slot_s=old.slot_s + slot_s + group_busy_s + group_idle_s,
            group_busy_s=old.group_busy_s + group_busy_s,
            group_idle_s=old.group_idle_s + group_idle_s,
            input_bytes=_written(old.input_bytes + input_bytes),
            output_bytes=_written(old.output_bytes + output_bytes),
            energy_j=_sum(old.energy_j, energy_j),
        )
        self._changed[new.id] = new
        if self.heard is not None:
            self.heard(project_id, old, new)

    def take(self) -> list[db_api.UsageRecord]:
        """Return the rows that have changed since the last call."""
        changed, self._changed = self._changed, {}
        return list(changed.values())

    def today(self, now: float) -> datetime.date:
        """Return the day (UTC) on which usage counts now."""
        today = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
        # Never go back a day, even if this clock is behind the former
        # leader's: the rows of older days are not loaded, so their sums would
        # restart at 0.
        if today > self.day:
            self.day = today
            self._former = list(self._rows.values())
            self._rows.clear()
        return self.day

    def projects(self) -> set[str]:
        """Return the projects with rows in memory."""
        return {project_id for project_id, _ in self._rows}

    def rows_of(self, project_id: str) -> list[db_api.UsageRecord]:
        """Return a project's rows of today, and of the day before in which
        something was used.

        A leader has read only the newest day of the former leaders.
        """
        return [
            row
            for row in (*self._former, *self._rows.values())
            if row.project_id == project_id
        ]

    def _new(self, project_id: str, accelerator: str) -> db_api.UsageRecord:
        self._last_id += 1
        return db_api.UsageRecord(
            id=self._last_id,
            project_id=project_id,
            accelerator=accelerator,
            day=self.day,
        )


def _written(total_bytes: int) -> int:
    return min(total_bytes, limits.MAX_INTEGER)


def _sum(known: float | None, added: float | None) -> float | None:
    return known if added is None else (known or 0.0) + added
