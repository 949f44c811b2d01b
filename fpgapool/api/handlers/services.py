# SPDX-License-Identifier: Apache-2.0

"""Services: conductors, agents, and processes of the API."""

from __future__ import annotations

import operator
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.api.http import times
from fpgapool.db import api as db_api
from fpgapool.db import services
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory

_AGENT = "fpgapool-agent"
_SILENCE = "no conductor is receiving reports"

#: The first version that lists all services; before, only the leading
#: conductor and the agents were listed.
_ALL = (1, 2)


def index(call: calls.Call) -> calls.Answer:
    """List conductors, agents and processes of the API."""
    is_old = call.version < _ALL
    if is_old and call.query.get("binary") == services.API:
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"query.binary: {services.API} requires version 1.2",
        )
    answers = call.ask(lambda leader: leader.pool_counts()) is not None
    known = [] if is_old else call.backends.database.services()
    page = paging.chosen(
        call,
        inventory.SERVICE,
        [*_processes(call, answers, known), *_agents(call, answers)],
        operator.itemgetter,
    )
    if answers:
        _add_figures(call, page)
    if is_old:
        for one in page:
            del one["version"]
    return calls.Answer(document=paging.document(call, "services", page))


def _processes(
    call: calls.Call, answers: bool, known: list[db_api.ServiceRecord]
) -> list[dict[str, Any]]:
    """Return the conductors and the processes of the API.

    :param known: those that give signs of life.
    """
    lease = call.backends.database.read_lease()
    leader = services.CONDUCTOR, lease.holder if lease else ""
    alive_at = call.backends.database.now() - services.SILENCE_S
    found = {
        (one.binary, one.name): _document(
            one,
            up=one.seen_at >= alive_at,
            message="stands by" if one.binary == services.CONDUCTOR else "",
        )
        for one in known
    }
    if lease is not None and lease.holder:
        # A leader of release 1.0.0 gives no signs of life.
        unknown = db_api.ServiceRecord(
            name=lease.holder,
            binary=services.CONDUCTOR,
            host=lease.holder,
            version="",
        )
        shown = found.setdefault(leader, _document(unknown))
        silence = "" if answers else ", does not answer"
        shown["up"] = answers
        shown["message"] = f"leader, epoch {lease.epoch}{silence}"
    return list(found.values())


def _document(
    one: db_api.ServiceRecord, *, up: bool = False, message: str = ""
) -> dict[str, Any]:
    return {
        "id": one.name,
        "binary": one.binary,
        "host": one.host,
        "up": up,
        "last_report_at": times.text(one.seen_at or None),
        "message": message,
        "version": one.version,
    }


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
            "version": host.agent_version,
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
