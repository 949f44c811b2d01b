# SPDX-License-Identifier: Apache-2.0

"""Services: the leading conductor, and the agents."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import times
from fpgapool.vocabulary import inventory

_CONDUCTOR = "fpgapool-conductor"
_AGENT = "fpgapool-agent"
_SILENCE = "no conductor is receiving reports"


def index(call: calls.Call) -> calls.Answer:
    """List the leading conductor and the agents."""
    now = call.ask(lambda leader: leader.pool_now())
    members = [*_conductors(call, now is not None), *_agents(call, now)]
    return calls.Answer(
        document=paging.listing(call, "services", inventory.SERVICE, members)
    )


def _conductors(call: calls.Call, answers: bool) -> list[dict[str, Any]]:
    lease = call.backends.database.read_lease()
    if lease is None or not lease.holder:
        return []
    message = f"leader, epoch {lease.epoch}"
    if not answers:
        message += ", does not answer"
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


def _agents(
    call: calls.Call, now: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the agents of the hosts.

    :param now: the leader's figures; None: the leader does not answer.
    """
    heard = now["hosts"] if now is not None else {}
    return [
        {
            "id": host.uuid,
            "binary": _AGENT,
            "host": host.name,
            "up": host.up and now is not None,
            "last_report_at": times.text(
                heard.get(host.uuid, {}).get(
                    "last_report_at", host.last_report_at
                )
            ),
            "message": _SILENCE
            if now is None
            else heard.get(host.uuid, {}).get("link_message") or "",
        }
        for host in call.backends.inventory.get().hosts
    ]
