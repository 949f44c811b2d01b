# SPDX-License-Identifier: Apache-2.0

"""Calls about the state of the whole pool."""

from __future__ import annotations

import operator
from typing import Any

from fpgapool import objects
from fpgapool.conductor.calls import base
from fpgapool.conductor.calls import checks
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.views import audit
from fpgapool.db import inventory
from fpgapool.objects import bounds
from fpgapool.objects import finding as findings
from fpgapool.vocabulary import shapes
from fpgapool.vocabulary import states

# Time to wait for reports; agents send them immediately on request.
_REPORTS_S = 2.0
_HOST_UUIDS = shapes.list_of(shapes.text(), most=bounds.MAX_HOSTS)


class AuditCalls(base.Calls):
    """Returns figures, finds differences and repairs them."""

    @base.call
    def pool_summary(self, ctxt: Any) -> dict[str, Any]:
        """Return a summary of the pool, with the hardware in the database."""
        now = self._ask(lambda asked: asked.now())
        pool = inventory.Inventory.load(self._database)
        return {
            "strategy": now["strategy"],
            "waiting": now["sessions"].get(states.QUEUED, 0),
            "sessions": now["sessions"],
            "hosts": pool.summary(frozenset(now["unusable_slots"])),
        }

    @base.call
    def pool_now(self, ctxt: Any) -> dict[str, Any]:
        """Return the part of the summary that is not in the database."""
        return self._ask(lambda asked: asked.now(), durable=False)

    @base.call
    def pool_counts(self, ctxt: Any) -> dict[str, Any]:
        """Return the pool in numbers."""
        return self._ask(lambda asked: asked.counts(), durable=False)

    @base.call
    def hosts_now(self, ctxt: Any, host_uuids: Any) -> dict[str, Any]:
        """Return what is not in the database about some hosts, by UUID."""
        limits.argument(_HOST_UUIDS, host_uuids, "host_uuids")
        return self._ask(
            lambda asked: asked.hosts_now(host_uuids), durable=False
        )

    @base.call
    def pool_hosts(self, ctxt: Any, after: str) -> dict[str, Any]:
        """Return a page of the hosts with their devices and slots."""
        # The rows of what was answered before are written.
        self._ask(lambda asked: None)
        pool = inventory.Inventory(
            self._database.part_of_inventory(
                limits.writable(after), bounds.MAX_HOSTS
            )
        )
        uuids = [host.uuid for host in pool.hosts]
        now = self._ask(lambda asked: asked.hosts_now(uuids), durable=False)
        hosts = pool.summary(
            {i for one in now.values() for i in one["unusable_slots"]}
        )
        shown = bounds.fitting(sorted(hosts, key=operator.itemgetter("uuid")))
        if len(shown) == len(hosts) < bounds.MAX_HOSTS:
            return {"hosts": hosts}
        return {"hosts": shown, "next": shown[-1]["uuid"]}

    @base.call
    def audit(self, ctxt: Any) -> list[dict[str, Any]]:
        """Return the differences between database, leader and agents."""
        reports = self._fresh_reports()
        memory = self._ask(
            lambda asked: audit.remember(asked, self._epoch, reports)
        )
        now = self._database.now()
        holdings = self._database.holdings(now - audit.GONE_S)
        found = audit.against_database(holdings, memory)
        return [one.to_primitive() for one in found]

    def _fresh_reports(self) -> dict[str, objects.AgentReport]:
        """Request reports from all agents; return those that arrive soon."""
        with self._reported:
            self._reports.clear()
        asked = self._ask(lambda asked: asked.ask_reports(), durable=False)
        with self._reported:
            self._reported.wait_for(
                lambda: asked <= self._reports.keys(), _REPORTS_S
            )
            return {host: one for host, (_, one) in self._reports.items()}

    @base.call
    def repair(self, ctxt: Any, finding: Any) -> bool:
        """Repair an inconsistency that an audit has found, if that is safe."""
        wanted = checks.checked(findings.Finding.from_primitive, finding)
        if wanted.kind == findings.SESSION_UNKNOWN:
            record = self._database.get_session(wanted.session_id or "")
            if record is None:
                return False
            self._ask(lambda asked: asked.adopt(record))
        elif wanted.kind in findings.RECORDABLE:
            self._ask(
                lambda asked: asked.record_again(
                    wanted.session_id, wanted.slot_id
                )
            )
        elif wanted.kind in findings.RECONCILABLE:
            # The agents' reports are compared and repaired as usual.
            self._ask(
                lambda asked: asked.ask_reports(wanted.host_uuid),
                durable=False,
            )
        else:
            return False
        return True
