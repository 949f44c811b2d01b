# SPDX-License-Identifier: Apache-2.0

"""How much of what desks of groups have counted is in the usage.

Desks count from their start on. The counts that are in the usage are written
with it, in one commit, so that no leader counts a task again, and none misses
the tasks between the reports of two leaders.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from typing import Any

from fpgapool import objects
from fpgapool.core import events
from fpgapool.db import api as db_api

#: How long the counts of a desk are kept that is in no report of its host.
KEPT_S = 600.0

# A longer one does not fit its column.
_BOOT_ID_LENGTH = 255

_NOTHING = {"ended": 0, "arrived": 0, "busy_s": 0.0, "project_id": ""}


@dataclasses.dataclass(slots=True)
class Account:
    """The counts of a group's desk on one host that are in the usage.

    :ivar record: their row.
    :ivar changed: by its id, takes each new one.
    :ivar running_s: the time that running tasks have had slots, about. It is
        not idle, and is charged when they end; that of locks, at once.
    :ivar missing_since: the first report of the host without the desk since
        the last one with it; None: the last one had it.
    """

    record: db_api.GroupDeskRecord
    changed: dict[int, db_api.GroupDeskRecord]
    running_s: float = 0.0
    missing_since: float | None = None
    _passed_s: float = 0.0

    def new_tasks(
        self, line: objects.GroupReport, project_of: Callable[[str], str]
    ) -> list[tuple[str, events.ClientStats]]:
        """Return the tasks since the last call, with their projects.

        :param line: the desk's report.
        :param project_of: returns the project of a client that is new here.
        """
        if not line.desk_boot_id:
            # The agent has not heard its counts yet.
            return []
        boot_id = line.desk_boot_id[:_BOOT_ID_LENGTH]
        same = boot_id == self.record.boot_id
        former = self.record.counts if same else {}
        counts, found = {}, []
        for one in line.clients:
            old = former.get(one.client_id, _NOTHING)
            project_id = old["project_id"] or project_of(one.client_id)
            stats = events.ClientStats(
                client=one.client_id,
                ended=max(one.ended - old["ended"], 0),
                arrived=max(one.arrived - old["arrived"], 0),
                waiting=one.waiting,
                busy_s=max(one.busy_s - old["busy_s"], 0.0),
            )
            found.append((project_id, stats))
            if one.arrived or one.busy_s:
                counts[one.client_id] = {
                    "ended": one.ended,
                    "arrived": one.arrived,
                    "busy_s": one.busy_s,
                    "project_id": project_id,
                }
        self._set(boot_id=boot_id, counts=counts)
        running = sum(one.running for one in line.clients)
        self.running_s += running * self._passed_s
        self.running_s -= sum(one.busy_s for _, one in found)
        self.running_s = max(self.running_s, 0.0) if running else 0.0
        return found

    def add_time(self, held_s: float, now: float) -> None:
        """Note the time for which members were held up to now."""
        self._passed_s = now - self.record.charged_at
        unpaid_s = self.record.unpaid_s + held_s
        self._set(unpaid_s=unpaid_s, charged_at=now)

    @property
    def idle_s(self) -> float:
        """The time of members without a task that is not in the usage."""
        return max(self.record.unpaid_s - self.running_s, 0.0)

    def pay(self, slot_s: float) -> None:
        """Note that time of members is in the usage."""
        self._set(unpaid_s=self.record.unpaid_s - slot_s)

    def _set(self, **members: Any) -> None:
        self.record = dataclasses.replace(self.record, **members)
        self.changed[self.record.id] = self.record


class Accounts:
    """The accounts of all desks.

    :param records: their rows.
    :param last_id: the highest row id.
    """

    def __init__(
        self, records: Iterable[db_api.GroupDeskRecord], last_id: int
    ) -> None:
        self._last_id = last_id
        self._changed: dict[int, db_api.GroupDeskRecord] = {}
        # By host and group.
        self._accounts = collections.defaultdict[int, dict[str, Account]](dict)
        for record in records:
            account = Account(record, self._changed)
            self._accounts[record.host_id][record.group_id] = account

    def of(self, group_id: str, host_id: int, now: float) -> Account:
        """Return the account of a desk; a new one if there is none."""
        found = self._accounts[host_id].get(group_id)
        if found is None:
            self._last_id += 1
            found = self._accounts[host_id][group_id] = Account(
                db_api.GroupDeskRecord(
                    id=self._last_id,
                    group_id=group_id,
                    host_id=host_id,
                    boot_id="",
                    counts={},
                    charged_at=now,
                    unpaid_s=0.0,
                ),
                self._changed,
            )
        return found

    def on(self, host_id: int) -> list[Account]:
        """Return the accounts of a host's desks."""
        return list(self._accounts[host_id].values())

    def charged_at(self, group_id: str, host_id: int) -> float:
        """Return up to when a group's members on a host were charged.

        :returns: 0.0: never.
        """
        found = self._accounts[host_id].get(group_id)
        return found.record.charged_at if found else 0.0

    def expire_missing(
        self,
        host_id: int,
        reported: Collection[str],
        wanted: Collection[str],
        now: float,
    ) -> None:
        """Forget desks that have been in no report of their host for long.

        What ran at a desk that is missing was idle time.

        :param reported: the groups with a desk in the host's report.
        :param wanted: the groups that shall have one there: their members
            cost, so that their accounts stay.
        """
        for group_id, account in list(self._accounts[host_id].items()):
            if group_id in reported:
                account.missing_since = None
            elif account.missing_since is None:
                account.missing_since, account.running_s = now, 0.0
            elif (
                group_id not in wanted
                and now - account.missing_since >= KEPT_S
            ):
                self._drop(host_id, group_id)

    def drop(self, group_id: str) -> None:
        """Forget the desks of a group."""
        for host_id, accounts in self._accounts.items():
            if group_id in accounts:
                self._drop(host_id, group_id)

    def _drop(self, host_id: int, group_id: str) -> None:
        record = self._accounts[host_id].pop(group_id).record
        self._changed[record.id] = dataclasses.replace(
            record, boot_id=db_api.DELETED
        )

    def take(self) -> list[db_api.GroupDeskRecord]:
        """Return the rows that have changed since the last call."""
        changed = list(self._changed.values())
        # Accounts refer to it.
        self._changed.clear()
        return changed
