# SPDX-License-Identifier: Apache-2.0

"""The conductor's RPC endpoint."""

from __future__ import annotations

import oslo_messaging as messaging

from fpgapool.common.messaging import rpc
from fpgapool.conductor.calls import audits
from fpgapool.conductor.calls import budgets
from fpgapool.conductor.calls import groups
from fpgapool.conductor.calls import operators
from fpgapool.conductor.calls import reservations
from fpgapool.conductor.calls import services
from fpgapool.conductor.calls import sessions
from fpgapool.rpcapi import conductor as conductor_rpcapi


class ConductorManager(
    sessions.SessionCalls,
    groups.GroupCalls,
    operators.OperatorCalls,
    budgets.BudgetCalls,
    reservations.ReservationCalls,
    audits.AuditCalls,
    services.ServiceCalls,
):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI` for the calls."""

    CASTS = frozenset(
        {
            "cancel_session",
            "close_session",
            "prepared",
            "report",
            "report_progress",
        }
    )

    OF_HOSTS = CASTS | {
        "accelerators_after",
        "attach_client",
        "changed_sessions",
        "detach_client",
        "dry_run",
        "find_groups",
        "list_accelerators",
        "pool_counts",
        "pool_hosts",
        "pool_summary",
        "reopen_session",
        "stage_endpoints",
        "submit_sessions",
        "usable_groups",
        rpc.SEVERAL,
    }

    target = messaging.Target(version=conductor_rpcapi.VERSION)
