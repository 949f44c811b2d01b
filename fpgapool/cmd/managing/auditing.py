# SPDX-License-Identifier: Apache-2.0

"""The checks and the output of ``fpgapool-manage audit``.

The leader compares the database, its own state and the agents' state, because
it has access to all three. Without a leader, only contradictions within the
database are found. This process compares the files, because the leader may be
unable to reach the store.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

import oslo_messaging as messaging

from fpgapool.bitstreams import base as stores
from fpgapool.conductor.decisions.views import audit
from fpgapool.db import api as db_api
from fpgapool.objects import finding as findings
from fpgapool.rpcapi import conductor as conductor_rpcapi

_KEPT = "not repaired: "

#: What an operator can do about findings that are not repaired.
_ADVICE = {
    findings.WORKER_WITHOUT_AGENT: "start the host's agent",
    findings.DEVICES_OF_SILENT_HOST: "start the host's agent, or disable the"
    " host if it is gone",
    findings.ROW_WITHOUT_FILE: "upload the file again, or delete the"
    " bitstream",
    findings.RESERVATION_WITHOUT_INSTANCE: "delete the allocation in"
    " Placement",
    findings.USAGE_LACKS_SESSIONS: "correct the bill manually, and report"
    " this as a bug in fpgapool",
    findings.NO_LEADER: "start a conductor",
    findings.LEASE_OF_OTHER: "wait until the named conductor stops leading; if"
    " it does not, stop it",
}
_NEXT_LEADER = "the next leader will repair it"


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A finding and its repair.

    :ivar action: the repair, or why there was none; empty if not attempted.
    """

    finding: findings.Finding
    action: str = ""

    @property
    def mended(self) -> bool:
        """Whether it was repaired."""
        return bool(self.action) and not self.action.startswith(_KEPT)


@dataclasses.dataclass
class Auditor:
    """Compares twice, and repairs.

    :param conductor: the leader, with a time limit long enough for an audit.
    :param store: the bitstream store; None means that files are not checked.
    :param orphan_age_s: minimum age of reported files; others may be
        uploading.
    :param pause_s: time between comparisons; longer than any change takes.
    """

    conductor: conductor_rpcapi.ConductorAPI
    database: db_api.Database
    store: stores.Store | None
    _: dataclasses.KW_ONLY
    orphan_age_s: float
    pause_s: float
    sleep: Callable[[float], None] = time.sleep
    # The lease whose holder did not respond.
    silent: db_api.Lease | None = None

    def find(self) -> list[findings.Finding]:
        """Return the findings of both comparisons."""
        return self._still_there(self._compared())

    def repair(self, found: Iterable[findings.Finding]) -> list[Line]:
        """Repair all findings that can be repaired without losing data."""
        lines = [Line(one, self._mend(one)) for one in found]
        left = self._still_there([line.finding for line in lines])
        keys = {_key(one) for one in left}
        return [
            Line(line.finding, f"{_KEPT}found again after: {line.action}")
            if line.mended and _key(line.finding) in keys
            else line
            for line in lines
        ]

    def _still_there(
        self, before: list[findings.Finding]
    ) -> list[findings.Finding]:
        if not before:
            return []
        self.sleep(self.pause_s)
        keys = {_key(one) for one in before}
        return [one for one in self._compared() if _key(one) in keys]

    def _compared(self) -> list[findings.Finding]:
        now = self.database.now()
        holdings = self.database.holdings(now - audit.GONE_S)
        found = [*self._of_pool(holdings), *self._of_usage(now)]
        if self.store is not None:
            found += self._of_files(self.store)
        return found

    def _of_pool(
        self, holdings: db_api.Holdings
    ) -> Iterator[findings.Finding]:
        lease = holdings.lease
        if lease is not None and lease.holder and lease != self.silent:
            try:
                yield from self.conductor.audit()
                return
            except messaging.RemoteError:
                raise
            except messaging.MessagingException:
                self.silent = lease
        who = lease.holder if lease is not None else ""
        yield findings.Finding(
            kind=findings.NO_LEADER,
            subject="conductor",
            detail="no conductor responds; holder of the lease:"
            f" {who or 'none'}",
        )
        yield from audit.in_database(holdings)

    def _of_usage(self, now: float) -> Iterator[findings.Finding]:
        day = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
        for gap in self.database.usage_gaps(day):
            yield findings.Finding(
                kind=findings.USAGE_LACKS_SESSIONS,
                subject=f"project {gap.project_id}, {gap.accelerator}",
                detail=f"the usage of {day} is missing"
                f" {gap.sessions} sessions, {gap.input_bytes} bytes of input"
                f" and {gap.output_bytes} bytes of output of ended sessions",
            )

    def _of_files(self, store: stores.Store) -> Iterator[findings.Finding]:
        # Read rows before files: the file of each row then already exists.
        rows = {
            one.location: one
            for one in self.database.bitstreams()
            if one.location
        }
        files = {one.location: one.age_s for one in store.files()}
        known = {one.location for one in self.database.bitstreams()}
        for location, age_s in files.items():
            if location not in known and age_s > self.orphan_age_s:
                yield findings.Finding(
                    kind=findings.FILE_WITHOUT_ROW,
                    subject=f"file {location}",
                    detail="belongs to no bitstream",
                )
        for location, row in rows.items():
            if location not in files and location in known:
                yield findings.Finding(
                    kind=findings.ROW_WITHOUT_FILE,
                    subject=f"bitstream {row.bitstream_id}",
                    detail=f"its file {location} is not in the store",
                )

    def _mend(self, found: findings.Finding) -> str:
        if found.kind == findings.FILE_WITHOUT_ROW and self.store is not None:
            self.store.delete(found.subject.removeprefix("file "))
            return "file deleted"
        if found.kind in _ADVICE:
            return _KEPT + _ADVICE[found.kind]
        try:
            if self.conductor.repair(found):
                return _DONE[found.kind]
        except messaging.RemoteError:
            raise
        except messaging.MessagingException:
            return _KEPT + _NEXT_LEADER
        return _KEPT + "the conductor could not repair it"


_DONE = {
    **dict.fromkeys(findings.RECORDABLE, "recorded again by the conductor"),
    **dict.fromkeys(
        findings.RECONCILABLE, "reconciled with the agent's report"
    ),
    findings.SESSION_UNKNOWN: "taken over by the conductor",
}


def _key(one: findings.Finding) -> tuple[str, str, str]:
    return one.kind, one.subject, one.detail


def table(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines of a human-readable table."""
    for line in lines:
        found = line.finding
        yield f"{found.kind}: {found.subject}: {found.detail}"
        if line.action:
            yield f"    {line.action}"


def document(lines: Iterable[Line]) -> str:
    return json.dumps(
        {
            "findings": [
                {
                    "kind": line.finding.kind,
                    "subject": line.finding.subject,
                    "detail": line.finding.detail,
                    "action": line.action or None,
                    "mended": line.mended,
                }
                for line in lines
            ]
        },
        indent=2,
    )
