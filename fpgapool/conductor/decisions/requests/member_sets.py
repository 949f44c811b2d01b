# SPDX-License-Identifier: Apache-2.0

"""Sessions of sets: whether one may be opened, and how its row names its set.

While a set has not started, ``reason`` of its sessions' rows is ``SET_WAITS``,
and ``message`` is that of :func:`told`. So the tables stay as they are, and
services can go back to an earlier release, whose conductor takes what waits
for single sessions. A new leader reads both with :func:`read`.
"""

from __future__ import annotations

import collections
import re

from fpgapool import objects
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import model
from fpgapool.core.rules import session_sets
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

_TOLD = re.compile(
    rf"set (?P<set_id>{rules.SET_ID}) of (?P<size>[0-9]{{1,2}}) sessions"
    rf"(?:, (?P<placement>{'|'.join(states.PLACEMENTS)}))?"
)
#: What a dry run calls a set without a name.
_UNNAMED = "dry-run"


def told(together: model.Together) -> str:
    """Return what the row of a session says of its set."""
    where = f", {together.placement}" if together.placement else ""
    return f"set {together.set_id} of {together.size} sessions{where}"


def read(reason: str, message: str) -> model.Together | None:
    """Return the set that a session's row names; None: it names none."""
    found = _TOLD.fullmatch(message) if reason == codes.SET_WAITS else None
    if found is None:
        return None
    size = int(found["size"])
    return model.Together(found["set_id"], size, found["placement"])


def wanted(
    request: objects.OpenRequest, *, is_dry_run: bool = False
) -> model.Together | None:
    """Return the set that a request names, whose members are checked.

    :raises Rejected: INVALID_SET, if its name or its size is missing.
    """
    set_id, size = request.set_id, request.set_size
    if is_dry_run and size is not None:
        set_id = set_id or _UNNAMED
    if set_id is None and size is None and request.set_placement is None:
        return None
    if set_id is None or size is None:
        raise admission.Rejected(
            codes.INVALID_SET,
            "a session of a set needs the set's set_id and set_size",
        )
    return model.Together(set_id, size, request.set_placement)


def check(
    request: objects.OpenRequest,
    together: model.Together,
    sets: session_sets.SessionSets,
    pool: registry.Registry,
    limit: int | None,
) -> int:
    """Check that a set may have one more session.

    :param limit: how many slots its project may have; None: no limit.
    :returns: how many sessions the request may bring: all of a new set, or
        none, as its first one has been counted for all.
    :raises Rejected: INVALID_SET; SET_IMPOSSIBLE, if there are too few slots,
        whatever the accelerators of its sessions are.
    """
    clash = sets.clash(request.project_id, together)
    if clash is not None:
        raise admission.Rejected(codes.INVALID_SET, clash)
    if sets.find(request.project_id, together.set_id) is not None:
        return 0
    check_size(request.project_id, together, pool, limit)
    return together.size


def check_size(
    project_id: str,
    together: model.Together,
    pool: registry.Registry,
    limit: int | None,
    what: str = "a set of {} sessions",
) -> None:
    """Check that a set is not too large.

    :param what: what it is, with its size.
    :raises Rejected: SET_IMPOSSIBLE.
    """
    named = what.format(together.size)
    if limit is not None and together.size > limit:
        raise admission.Rejected(
            codes.SET_IMPOSSIBLE,
            f"project {project_id} may have {limit} slots: {named} can never"
            " start",
        )
    most, where = _most(pool, together.placement)
    if together.size > most:
        raise admission.Rejected(
            codes.SET_IMPOSSIBLE,
            f"{named} can never start: {where} {most}",
        )


def _most(pool: registry.Registry, placement: str | None) -> tuple[int, str]:
    """Return how large a set may be, and what limits it."""
    slots = list(pool.present_slots())
    if placement == states.SPREAD:
        boards = len({slot.device.id for slot in slots})
        return boards, "the number of boards is"
    if placement == states.SAME_BOARD:
        by = collections.Counter(slot.device.id for slot in slots)
        return max(by.values(), default=0), "the most slots of a board are"
    if placement == states.SAME_HOST:
        by = collections.Counter(slot.host.id for slot in slots)
        return max(by.values(), default=0), "the most slots of a host are"
    return len(slots), "the number of slots is"
