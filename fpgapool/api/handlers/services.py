# SPDX-License-Identifier: Apache-2.0

"""Services: the leading conductor, and the agents."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api import paging
from fpgapool.api import times
from fpgapool.common import exception

_CONDUCTOR = "fpgapool-conductor"
_AGENT = "fpgapool-agent"


def index(call: calls.Call) -> calls.Answer:
    """List the leading conductor and the agents."""
    summary = _summary(call)
    members = [*_conductors(call, summary is not None), *_agents(summary)]
    if summary is None:
        # No conductor receives their reports; their hosts are still known.
        members += _silent_agents(call)
    wanted = paging.matching(call, members, {"binary": "binary", "up": "up"})
    return calls.Answer(
        document=paging.listing(call, "services", wanted, sort_key="id")
    )


def _summary(call: calls.Call) -> dict[str, Any] | None:
    """Return the conductor's summary, None if it does not answer."""
    try:
        summary = call.ask(lambda source: source.pool_summary())
    except exception.DatabaseUnavailable:
        # It answers, but has no durable data.
        return None
    return None if call.origin.recorded else summary


def _conductors(call: calls.Call, answers: bool) -> list[dict[str, Any]]:
    lease = call.backends.database.read_lease()
    if lease is None or not lease.holder:
        return []
    message = f"leads, epoch {lease.epoch}"
    if not answers:
        message = f"led in epoch {lease.epoch}, and does not answer"
    return [
        {
            "id": lease.holder,
            "binary": _CONDUCTOR,
            "host": lease.holder,
            "up": answers,
            "last_report_at": None,
            "message": message,
        }
    ]


def _agents(summary: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [
        {
            "id": host["uuid"],
            "binary": _AGENT,
            "host": host["name"],
            "up": host["up"],
            "last_report_at": times.text(host.get("last_report_at")),
            "message": host.get("link_message") or "",
        }
        for host in (summary or {"hosts": []})["hosts"]
    ]


def _silent_agents(call: calls.Call) -> list[dict[str, Any]]:
    return [
        {
            "id": host.uuid,
            "binary": _AGENT,
            "host": host.name,
            "up": False,
            "last_report_at": times.text(host.last_report_at),
            "message": "no conductor receives its reports",
        }
        for host in call.backends.database.inventory().hosts
    ]
