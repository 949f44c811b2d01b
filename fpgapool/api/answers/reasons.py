# SPDX-License-Identifier: Apache-2.0

"""Sentences that explain why a session waits."""

from __future__ import annotations

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.api.http import times
from fpgapool.db import api as db_api
from fpgapool.db import inventory
from fpgapool.vocabulary import codes

_SENTENCES: Mapping[str, str] = {
    codes.NO_HOST_UP: "No host with a slot that fits is up.",
    codes.NO_COMPATIBLE_SLOT: "The pool has no slot that fits the session.",
    codes.NO_HEALTHY_SLOT: "All slots that fit are faulty.",
    codes.NO_ENABLED_SLOT: (
        "An operator has disabled all working slots that fit."
    ),
    codes.NO_IDLE_SLOT: "All slots that fit are in use.",
    codes.SLOTS_RESERVED: (
        "Slots that fit are idle, but reserved for instances or kept for their"
        " reservations."
    ),
    codes.REMOTE_LIMIT: (
        "The hosts with idle slots serve as many remote sessions as allowed."
    ),
    codes.WAITING_FOR_LOCAL: "The session waits for a slot on its own host.",
    codes.WAITING_FOR_AFFINITY: (
        "The session waits for a board that runs its accelerator, or none."
    ),
    codes.WAITING_FOR_PASS: (
        "The session has just arrived or is next to be served."
    ),
    codes.POWER_CAP: (
        "Slots that fit are idle, but would exceed the operator's cap on"
        " power."
    ),
    codes.UNKNOWN_JOB: "The scheduler does not know the session yet.",
    codes.PROJECT_SESSION_LIMIT: (
        "The project has as many slots as it may have at a time."
    ),
}


#: Reasons for which the number of slots out of service matters.
_FOR_LACK_OF_SLOTS = frozenset(
    {
        codes.NO_HOST_UP,
        codes.NO_HEALTHY_SLOT,
        codes.NO_ENABLED_SLOT,
        codes.NO_IDLE_SLOT,
    }
)


def lacks_slots(code: str) -> bool:
    """Whether the message should also count the slots out of service."""
    return code in _FOR_LACK_OF_SLOTS


def out_of_service(
    slots: Iterable[inventory.Slot], sees_hosts: Callable[[], bool]
) -> str:
    """Say how many slots are out of service, and since when hosts are silent.

    :param slots: the slots that fit a session.
    :param sees_hosts: whether the caller may see the names of hosts.
    :returns: a sentence; empty if none is out of service.
    """
    counts = collections.Counter(slot.state for slot in slots)
    said = [
        f"{counts[state]} {state}"
        for state in ("disabled", "faulty")
        if counts[state]
    ]
    hosts = {
        slot.device.host.id: slot.device.host
        for slot in slots
        if slot.state == "down"
    }.values()
    if hosts:
        said.append(f"{counts['down']} down{_silent(hosts, sees_hosts())}")
    return f"Out of service: {', '.join(said)}." if said else ""


def _silent(hosts: Iterable[db_api.HostRecord], sees_hosts: bool) -> str:
    heard = [
        (host.last_report_at, host.name)
        for host in hosts
        if host.last_report_at is not None
    ]
    if not heard:
        return ""
    if not sees_hosts:
        return f" since {times.text(min(heard)[0], 'seconds')}"
    named = (
        f"{name} silent since {times.text(time_s, 'seconds')}"
        for time_s, name in sorted(heard)
    )
    return f" ({', '.join(named)})"


def sentence(code: str) -> str:
    """Return the sentence that explains a reason.

    :param code: of :mod:`fpgapool.vocabulary.codes`; an unknown one, of a
        newer conductor, is repeated.
    """
    return _SENTENCES.get(code, f"The scheduler says {code}.")


def known() -> frozenset[str]:
    """Return the reasons that have a sentence of their own."""
    return frozenset(_SENTENCES)
