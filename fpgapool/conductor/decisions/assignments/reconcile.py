# SPDX-License-Identifier: Apache-2.0

"""Compares an agent's slot table with the assignments.

Reports and orders may cross, get lost or be repeated. Therefore a report is
not treated as an event, but compared with the expected state.
"""

from __future__ import annotations

import enum

from fpgapool import objects
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.core import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states


class Finding(enum.Enum):
    """The difference between expected and reported state."""

    AS_EXPECTED = enum.auto()
    #: The slot is busy for an unknown session or an older assignment.
    STRAY = enum.auto()
    #: The agent has not received the order to prepare yet.
    NOT_STARTED = enum.auto()
    #: The slot is ready for its client.
    READY = enum.auto()
    ATTACHED = enum.auto()
    DETACHED = enum.auto()
    #: The assignment has ended; the report contains the result.
    FINISHED = enum.auto()
    PREPARE_FAILED = enum.auto()
    #: The assignment has ended, and its result is lost.
    VANISHED = enum.auto()
    #: The agent has not carried out the order to release.
    NOT_RELEASED = enum.auto()


_BUSY = frozenset(
    {
        states.SLOT_PREPARING,
        states.SLOT_READY,
        states.SLOT_ACTIVE,
        states.SLOT_DETACHED,
    }
)

_BY_STATE = {
    states.SLOT_PREPARING: Finding.AS_EXPECTED,
    states.SLOT_READY: Finding.READY,
    states.SLOT_ACTIVE: Finding.ATTACHED,
    states.SLOT_DETACHED: Finding.DETACHED,
}


#: In these phases the client has not sent anything yet.
UNCONNECTED = frozenset({model.Phase.PREPARING, model.Phase.READY})

# Result codes of slots that a former leader released without recording it.
_GIVEN_UP = frozenset({codes.PREPARE_TIMEOUT, codes.SUPERSEDED})


def busy(report: objects.SlotReport) -> bool:
    """Whether the slot is busy for a session or a test."""
    return report.state in _BUSY


def is_not_prepared(hold: holds.Hold, result: objects.SessionResult) -> bool:
    """Whether a slot never became ready, so its holder may get another.

    A holder that has connected keeps the slot, whatever the agent reports.
    """
    return hold.phase in UNCONNECTED and (
        result.state == states.PREPARE_FAILED
        or (result.code in _GIVEN_UP and result.started_at is None)
    )


def compare(hold: holds.Hold | None, report: objects.SlotReport) -> Finding:
    """Compare a slot's assignment with its line in an agent's report."""
    if hold is None:
        return Finding.STRAY if busy(report) else Finding.AS_EXPECTED
    if busy(report):
        return _compare_busy(hold, report)
    result = report.last_result
    if result is not None and result.generation == hold.generation:
        if is_not_prepared(hold, result) and not hold.revoked:
            return Finding.PREPARE_FAILED
        return Finding.FINISHED
    return _compare_idle(hold, report)


def _compare_busy(hold: holds.Hold, report: objects.SlotReport) -> Finding:
    if report.generation != hold.generation:
        return Finding.STRAY
    if hold.revoked:
        return Finding.NOT_RELEASED
    return _BY_STATE[report.state]


def _compare_idle(hold: holds.Hold, report: objects.SlotReport) -> Finding:
    if report.seen_generation >= hold.generation:
        return Finding.VANISHED
    if hold.revoked:
        # The order to prepare may still arrive, so a release must follow it.
        return Finding.NOT_RELEASED
    if hold.is_unprepared:
        return Finding.NOT_STARTED
    return Finding.VANISHED
