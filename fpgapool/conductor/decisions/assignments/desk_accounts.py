# SPDX-License-Identifier: Apache-2.0

"""Tracks which tasks of groups have been charged.

A desk's counts start at 0 when the desk starts. Charged counts are committed
together with the usage, so that a new leader neither charges a task twice nor
misses one.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from fpgapool import objects
from fpgapool.core import events
from fpgapool.db import api as db_api

#: No host has this id. Its row of a group says more of the group.
_NO_HOST = 0
#: Time for which to keep the counts of a desk that its host no longer reports.
KEPT_S = 600.0

# The length of the database column.
_BOOT_ID_LENGTH = 255

_NOTHING = {
    "ended": 0,
    "arrived": 0,
    "busy_s": 0.0,
    "input_bytes": 0,
    "output_bytes": 0,
    "project_id": "",
}


class NewTasks(NamedTuple):
    """The tasks of a client that have not been charged yet.

    :ivar project_id: the client's project, which pays for them.
    :ivar input_bytes: input of those that have ended with a result.
    :ivar output_bytes: these results.
    """

    project_id: str
    stats: events.ClientStats
    input_bytes: int
    output_bytes: int


@dataclasses.dataclass(slots=True)
class DeskAccount:
    """The charged counts of a group's desk on one host.

    :ivar running_s: the approximate slot time of running tasks, which are
        charged when they end; it does not count as idle time.
    :ivar missing_since: time of the host's first report without the desk; None
        if the last report included it.
    """

    record: db_api.GroupDeskRecord
    changed: dict[int, db_api.GroupDeskRecord]
    running_s: float = 0.0
    missing_since: float | None = None
    _passed_s: float = 0.0

    def new_tasks(
        self, line: objects.GroupReport, project_of: Callable[[str], str]
    ) -> list[NewTasks]:
        """Return each client's tasks since the last call.

        :param project_of: returns the project of a client new to the account.
        """
        if not line.desk_boot_id:
            # The agent has not received the desk's counts yet.
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
            input_bytes, new_input_bytes = _counted(
                one.input_bytes, old.get("input_bytes")
            )
            output_bytes, new_output_bytes = _counted(
                one.output_bytes, old.get("output_bytes")
            )
            found.append(
                NewTasks(project_id, stats, new_input_bytes, new_output_bytes)
            )
            if one.arrived or one.busy_s:
                counts[one.client_id] = {
                    "ended": one.ended,
                    "arrived": one.arrived,
                    "busy_s": one.busy_s,
                    "input_bytes": input_bytes,
                    "output_bytes": output_bytes,
                    "project_id": project_id,
                }
        self._set(boot_id=boot_id, counts=counts)
        running = sum(one.running for one in line.clients)
        self.running_s += running * self._passed_s
        self.running_s -= sum(one.stats.busy_s for one in found)
        self.running_s = max(self.running_s, 0.0) if running else 0.0
        return found

    def add_time(self, held_s: float, now: float) -> None:
        """Add the time for which members have been held until now."""
        self._passed_s = now - self.record.charged_at
        unpaid_s = self.record.unpaid_s + held_s
        self._set(unpaid_s=unpaid_s, charged_at=now)

    @property
    def idle_s(self) -> float:
        """The idle time of members that has not been charged yet."""
        return max(self.record.unpaid_s - self.running_s, 0.0)

    def pay(self, slot_s: float) -> None:
        """Mark members' time as charged."""
        self._set(unpaid_s=self.record.unpaid_s - slot_s)

    def keep(self, about: Mapping[str, Any]) -> None:
        """Store something else than counts."""
        self._set(counts=dict(about))

    def _set(self, **members: Any) -> None:
        self.record = dataclasses.replace(self.record, **members)
        self.changed[self.record.id] = self.record


class DeskAccounts:
    """The accounts of all desks."""

    def __init__(
        self, records: Iterable[db_api.GroupDeskRecord], last_id: int
    ) -> None:
        self._last_id = last_id
        self._changed: dict[int, db_api.GroupDeskRecord] = {}
        # By host and group.
        self._accounts = collections.defaultdict[int, dict[str, DeskAccount]](
            dict
        )
        for record in records:
            account = DeskAccount(record, self._changed)
            self._accounts[record.host_id][record.group_id] = account

    def of(self, group_id: str, host_id: int, now: float) -> DeskAccount:
        """Return the account of a desk, creating it if there is none."""
        found = self._accounts[host_id].get(group_id)
        if found is None:
            self._last_id += 1
            found = self._accounts[host_id][group_id] = DeskAccount(
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

    def note(
        self, group_id: str, about: Mapping[str, Any], since: float
    ) -> None:
        """Store something of a group, until the group is gone.

        :param about: by name, each a JSON object.
        """
        account = self.of(group_id, _NO_HOST, since)
        account.keep(about)

    def noted(self, group_id: str) -> db_api.GroupDeskRecord | None:
        """Return the row that :meth:`note` has stored; None: it has none."""
        account = self._accounts[_NO_HOST].get(group_id)
        return account.record if account else None

    def on(self, host_id: int) -> list[DeskAccount]:
        return list(self._accounts[host_id].values())

    def charged_at(self, group_id: str, host_id: int) -> float:
        """Return the time up to which a group's members on a host are charged.

        :returns: 0.0 if they have never been charged.
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
        """Delete the accounts of desks that their host has not reported for
        :data:`KEPT_S`.

        Tasks running at a missing desk count as idle time.

        :param wanted: the groups that should have a desk there; their accounts
            are kept, because their members are charged.
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
        # Keep the dict itself, because accounts refer to it.
        self._changed.clear()
        return changed


def _counted(reported: int, charged: int | None) -> tuple[int, int]:
    """Return what is charged after a report, and how much of that is new.

    :param charged: what was before. None: a leader of an earlier release has
        stored no bytes; whether another one has charged what there were is
        unknown, so only the next ones are charged.
    """
    if charged is None:
        return reported, 0
    # An agent of an earlier release reports none.
    new = max(reported - charged, 0)
    return charged + new, new
