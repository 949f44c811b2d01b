# SPDX-License-Identifier: Apache-2.0

"""Services: the leading conductor, and the agents."""

from __future__ import annotations

import operator
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
    answers = call.ask(lambda leader: leader.pool_counts()) is not None
    page = paging.chosen(
        call,
        inventory.SERVICE,
        [*_conductors(call, answers), *_agents(call, answers)],
        operator.itemgetter,
    )
    if answers:
        _add_figures(call, page)
    return calls.Answer(document=paging.document(call, "services", page))


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


def _agents(call: calls.Call, answers: bool) -> list[dict[str, Any]]:
    """Return the agents of the hosts, as the database has them."""
    return [
        {
            "id": host.uuid,
            "binary": _AGENT,
            "host": host.name,
            "up": host.up and answers,
            "last_report_at": times.text(host.last_report_at),
            "message": "" if answers else _SILENCE,
        }
        for host in call.backends.inventory.get().hosts
    ]


def _add_figures(call: calls.Call, page: list[dict[str, Any]]) -> None:
    """Add what only the leader knows about agents."""
    now = call.backends.hosts_now(
        [one["id"] for one in page if one["binary"] == _AGENT]
    )
    for one in page:
        heard = now.get(one["id"])
        if heard is not None:
            one["last_report_at"] = times.text(heard["last_report_at"])
            # A conductor of an earlier release does not know both.
            one["message"] = "; ".join(
                heard[name]
                for name in ("link_message", "isolation_message")
                if heard.get(name)
            )
