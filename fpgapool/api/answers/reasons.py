# SPDX-License-Identifier: Apache-2.0

"""Sentences that explain why a session waits."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from fpgapool.api.http import times
from fpgapool.db import api as db_api
from fpgapool.db import inventory
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

#: Reasons that slots out of service may explain.
FOR_LACK_OF_SLOTS = frozenset(
    {
        codes.NO_HOST_UP,
        codes.NO_HEALTHY_SLOT,
        codes.NO_ENABLED_SLOT,
        codes.NO_IDLE_SLOT,
    }
)

# Maximum number of silent hosts that a sentence names.
_MOST_NAMED = 10
# Maximum number of operators' reasons, which may be long.
_MOST_WORDS = 3


def out_of_service(slots: Iterable[inventory.Slot], sees_hosts: bool) -> str:
    """Describe the slots that are out of service, and the hosts that are down.

    :param sees_hosts: whether the caller may see the names of hosts, and the
        operator's reasons.
    :returns: a sentence; empty if no slot is out of service.
    """
    slots = list(slots)
    counts = collections.Counter(slot.state for slot in slots)
    parts = [
        f"{counts[state]} {state}"
        for state in (states.DISABLED, states.FAULTY)
        if counts[state]
    ]
    if counts[states.DISABLED] and sees_hosts:
        # The operator's words may name hosts.
        parts[0] += _operators_words(slots)
    hosts = {
        slot.device.host.id: slot.device.host
        for slot in slots
        if slot.state == states.DOWN
    }.values()
    if hosts:
        parts.append(f"{counts[states.DOWN]} down{_silent(hosts, sees_hosts)}")
    return f"Out of service: {', '.join(parts)}." if parts else ""


def _operators_words(slots: Iterable[inventory.Slot]) -> str:
    """Return the reasons that operators gave for disabling slots."""
    words = {
        owner.admin_reason: None
        for slot in slots
        if slot.state == states.DISABLED
        for owner in (slot.device.record, slot.device.host)
        if owner.admin_state != states.ENABLED and owner.admin_reason
    }
    shown = list(words)[:_MOST_WORDS]
    if len(words) > _MOST_WORDS:
        shown.append(f"{len(words) - _MOST_WORDS} more")
    return f" ({'; '.join(shown)})" if shown else ""


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
    heard.sort()
    named = [
        f"{name} silent since {times.text(time_s, 'seconds')}"
        for time_s, name in heard[:_MOST_NAMED]
    ]
    if len(heard) > _MOST_NAMED:
        named.append(f"{len(heard) - _MOST_NAMED} more")
    return f" ({', '.join(named)})"


def sentence(code: str) -> str:
    """Return the sentence that explains a reason.

    :param code: a code of :mod:`fpgapool.vocabulary.codes`; the sentence for
        an unknown code, from a newer conductor, contains the code itself.
    """
    if code in codes.WAITING:
        return codes.ERRORS[code].sentence
    return f"The scheduler reports {code}."
