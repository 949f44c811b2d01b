# SPDX-License-Identifier: Apache-2.0

"""What an agent's slot table says about an assignment.

Reports and commands cross on the way, are lost and are repeated. So a report
is never taken as an event; it is compared with what should be, and the
finding says what to do about the difference.
"""

from __future__ import annotations

import dataclasses
import enum
import math

from fpgapool import objects
from fpgapool.conductor.decisions import registry
from fpgapool.conductor.decisions import sessions
from fpgapool.core import model
from fpgapool.vocabulary import states


@dataclasses.dataclass(slots=True)
class Energy:
    """What a slot has drawn for one holder, over restarts of its agent.

    :ivar total_j: None as long as its agent measures nothing.
    """

    total_j: float | None = None
    _boot_id: str = ""
    _before_j: float = 0.0

    def note(self, boot_id: str, energy_j: float) -> None:
        """An agent has said what it has measured since it was started."""
        if boot_id != self._boot_id:
            self._boot_id = boot_id
            self._before_j = self.total_j or 0.0
        self.total_j = self._before_j + max(energy_j, 0.0)


@dataclasses.dataclass(slots=True)
class Hold:
    """A slot that is given to a session, until the agent shows its end.

    :ivar revoked: why the slot is being taken back, empty while it is not.
    :ivar told_at: when the agent was last told to prepare or release it.
    :ivar abandoned: the session waits for, or has, another slot already.
    :ivar announced_at: when this leader first told that the slot is ready.
    :ivar prepared: the agent's report shows the slot ready; the secret may
        still be on its way.
    :ivar heard: boot id and sequence of the agent's last report before it
        said itself that the slot is ready.
    :ivar bitstream: what the slot is programmed with; None for the driver's
        own.
    """

    session: sessions.Session
    slot: registry.SlotEntry
    generation: int
    phase: model.Phase
    assigned_at: float
    revoked: str = ""
    told_at: float = 0.0
    announced_at: float = math.inf
    abandoned: bool = False
    prepared: bool = False
    heard: tuple[str, int] = ("", 0)
    energy: Energy = dataclasses.field(default_factory=Energy)
    bitstream: objects.BitstreamRef | None = None

    def note_energy(self, boot_id: str, line: objects.SlotReport) -> None:
        """Take what the slot has drawn, if it is told for this holder."""
        generation = line.generation
        if generation is None and line.last_result is not None:
            generation = line.last_result.generation
        if line.energy_j is not None and generation == self.generation:
            self.energy.note(boot_id, line.energy_j)

    def outdates(self, report: objects.AgentReport) -> bool:
        """Whether a report is older than what is known of the slot."""
        boot_id, sequence = self.heard
        return report.agent_boot_id == boot_id and report.sequence <= sequence

    @property
    def bitstream_id(self) -> str | None:
        """Of what the slot is programmed with."""
        return self.bitstream.bitstream_id if self.bitstream else None

    @property
    def wanted(self) -> bool:
        """Whether a session still depends on what becomes of the slot."""
        return self.session.live and not self.abandoned


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


def compare(hold: Hold | None, report: objects.SlotReport) -> Finding:
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


def _compare_busy(hold: Hold, report: objects.SlotReport) -> Finding:
    if report.generation != hold.generation:
        return Finding.STRAY
    if hold.revoked:
        return Finding.NOT_RELEASED
    return _BY_STATE[report.state]


def _compare_idle(hold: Hold, report: objects.SlotReport) -> Finding:
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
