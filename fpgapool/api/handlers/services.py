# SPDX-License-Identifier: Apache-2.0

"""Services: conductors, agents, and processes of the API."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.api.http import times
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory

_SILENCE = "no conductor is receiving reports"

#: The first version that lists all services; before, only the leading
#: conductor and the agents were listed.
_ALL = (1, 2)


def index(call: calls.Call) -> calls.Answer:
    """List conductors, agents and processes of the API."""
    is_old = call.version < _ALL
    if is_old and call.query.get("binary") == inventory.API:
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"query.binary: {inventory.API} requires version 1.2",
        )
    now = call.ask(_services_now)
    others = [] if is_old or now is None else now["services"]
    page = paging.chosen(
        call,
        inventory.SERVICE,
        [*_processes(call, now, others), *_agents(call, now is not None)],
        operator.itemgetter,
    )
    if now is not None:
        _add_figures(call, page)
    if is_old:
        for one in page:
            del one["version"]
    return calls.Answer(document=paging.document(call, "services", page))


def _services_now(leader: conductor_rpcapi.ConductorAPI) -> dict[str, Any]:
    """Return what the leader knows; nothing while a pin forbids to ask."""
    try:
        return leader.services_now()
    except messaging.RPCVersionCapError:
        # A pinned leader's answer to an older call only tells that it leads.
        leader.get_sessions([])
        return {"version": "", "services": []}


def _processes(
    call: calls.Call,
    now: dict[str, Any] | None,
    others: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield the conductors and the processes of the API.

    :param now: the leader's answer; None if it does not answer.
    :param others: the processes that have told it that they live.
    """
    database = call.backends.database
    lease = database.read_lease()
    leader = lease.holder if lease else ""
    if lease is not None and leader:
        yield {
            "id": leader,
            "binary": inventory.CONDUCTOR,
            "host": leader,
            "up": now is not None,
            "last_report_at": times.text(database.lease_renewed_at()),
            "message": f"leader, epoch {lease.epoch}"
            + ("" if now else ", does not answer"),
            "version": now["version"] if now else "",
        }
    for one in others:
        is_conductor = one["binary"] == inventory.CONDUCTOR
        if not (is_conductor and one["name"] == leader):
            yield {
                "id": one["name"],
                "binary": one["binary"],
                "host": one["host"],
                "up": one["up"],
                "last_report_at": times.text(one["last_report_at"]),
                "message": "stands by" if is_conductor else "",
                "version": one["version"],
            }


def _agents(call: calls.Call, answers: bool) -> list[dict[str, Any]]:
    """Return the agents of the hosts, as the database has them."""
    return [
        {
            "id": host.uuid,
            "binary": inventory.AGENT,
            "host": host.name,
            "up": host.up and answers,
            "last_report_at": times.text(host.last_report_at),
            "message": "" if answers else _SILENCE,
            "version": "",
        }
        for host in call.backends.inventory.get().hosts
    ]


def _add_figures(call: calls.Call, page: list[dict[str, Any]]) -> None:
    """Add what only the leader knows about agents."""
    now = call.backends.hosts_now(
        [one["id"] for one in page if one["binary"] == inventory.AGENT]
    )
    for one in page:
        heard = now.get(one["id"])
        if heard is not None:
            one["last_report_at"] = times.text(heard["last_report_at"])
            # A conductor of an earlier release does not know all of them.
            one["message"] = "; ".join(
                heard[name]
                for name in ("link_message", "isolation_message")
                if heard.get(name)
            )
            one["version"] = heard.get("agent_version", "")
