# SPDX-License-Identifier: Apache-2.0

"""What an agent's slot table says about an assignment.

Reports and commands cross on the way, are lost and are repeated. So a report
is never taken as an event; it is compared with what should be, and the
finding says what to do about the difference.
"""

from __future__ import annotations

import enum

from fpgapool import objects
from fpgapool.conductor.decisions import sessions
from fpgapool.core import model
from fpgapool.vocabulary import states


class Finding(enum.Enum):
    """The difference between what should be and what is."""

    AS_IT_SHOULD = enum.auto()
    #: The slot works for nobody we know, or for an older assignment.
    STRAY = enum.auto()
    #: The agent has not heard of the assignment yet.
    NOT_STARTED = enum.auto()
    #: The slot is ready; we have no secret to hand out.
    READY = enum.auto()
    ATTACHED = enum.auto()
    DETACHED = enum.auto()
    #: The assignment is over; the report says how.
    FINISHED = enum.auto()
    PREPARE_FAILED = enum.auto()
    #: The assignment is over and nobody knows how.
    VANISHED = enum.auto()
    #: The slot must be given back and has not been.
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
    states.SLOT_PREPARING: Finding.AS_IT_SHOULD,
    states.SLOT_READY: Finding.READY,
    states.SLOT_ACTIVE: Finding.ATTACHED,
    states.SLOT_DETACHED: Finding.DETACHED,
}


def busy(report: objects.SlotReport) -> bool:
    """Whether the slot works for somebody."""
    return report.state in _BUSY


def compare(hold: sessions.Hold | None, report: objects.SlotReport) -> Finding:
    """Compare a slot's assignment with its line in an agent's report.

    :param hold: who should have the slot, None if nobody should.
    :param report: the slot as its agent sees it.
    """
    if hold is None:
        return Finding.STRAY if busy(report) else Finding.AS_IT_SHOULD
    if busy(report):
        return _compare_busy(hold, report)
    result = report.last_result
    if result is not None and result.generation == hold.generation:
        if result.state == states.PREPARE_FAILED and not hold.revoked:
            return Finding.PREPARE_FAILED
        return Finding.FINISHED
    return _compare_idle(hold, report)


def _compare_busy(hold: sessions.Hold, report: objects.SlotReport) -> Finding:
    if report.generation != hold.generation:
        return Finding.STRAY
    if hold.revoked:
        return Finding.NOT_RELEASED
    return _BY_STATE[report.state]


def _compare_idle(hold: sessions.Hold, report: objects.SlotReport) -> Finding:
    """The slot is idle, and its last result is not this assignment's."""
    if report.seen_generation >= hold.generation:
        return Finding.VANISHED
    if hold.revoked:
        # The order to prepare may still be on its way: the agent must see
        # the release before it can be counted as done.
        return Finding.NOT_RELEASED
    if hold.phase is model.Phase.PREPARING:
        return Finding.NOT_STARTED
    return Finding.VANISHED
