# SPDX-License-Identifier: Apache-2.0

"""Slots and their holders, as the conductor sees them."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.core import model
from fpgapool.core import state as core_state
from fpgapool.core.topology import slots
from fpgapool.db import api as db_api

# Rates measured over a shorter time are mostly noise.
_LEAST_TIME_S = 1.0

#: Order members for holders whose clients do not connect to the slot.
WITHOUT_CLIENT: dict[str, Any] = {
    "connect_timeout_s": 0.0,
    "resume_grace_s": 0.0,
    "claimed_bytes": 0,
    "local": True,
}


@dataclasses.dataclass(slots=True)
class Energy:
    """Energy that a slot has used for one holder, also across agent restarts.

    :ivar total_j: energy so far; None: not measured.
    """

    total_j: float | None = None
    _boot_id: str = ""
    _before_j: float = 0.0

    def note(self, boot_id: str, energy_j: float) -> None:
        """Record a measurement, which counts from the agent's start."""
        if boot_id != self._boot_id:
            self._boot_id = boot_id
            self._before_j = self.total_j or 0.0
        self.total_j = self._before_j + max(energy_j, 0.0)


@dataclasses.dataclass(slots=True, kw_only=True)
class Hold(abc.ABC):
    """The conductor's part of an assignment's state; the core has the rest.

    It exists until the agent reports the end of the assignment.

    :ivar core: the assignment; only the core changes it.
    :ivar holder: the kind of the holder, and the id of its row.
    :ivar prepared: whether a report has shown the slot as ready.
    :ivar offer: endpoints that the client may use before the slot is ready.
    :ivar heard: boot id and sequence number of the last report that the agent
        sent before it announced the slot as ready.
    :ivar bitstream: the slot's bitstream; None: the accelerator is built in.
    :ivar former: the holder that must leave first; None: this is the holder.
    :ivar successor: the session that has the slot next, if it is known.
    :ivar tries: how often a successor was looked for.
    """

    slot: registry.SlotEntry
    core: slots.Hold
    assigned_at: float
    holder: model.Holder
    accelerator: str
    ordered_at: float = 0.0
    prepared: bool = False
    offer: objects.Offer | None = None
    heard: tuple[str, int] = ("", 0)
    energy: Energy = dataclasses.field(default_factory=Energy)
    bitstream: objects.BitstreamRef | None = None
    former: Hold | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    tries: int = 0
    successor: Hold | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    # -- the holder --------------------------------------------------------

    @property
    @abc.abstractmethod
    def public_id(self) -> str:
        """The holder's id in messages."""

    @property
    def wanted(self) -> bool:
        """Whether a session still needs the slot."""
        return False

    @property
    def abandoned(self) -> bool:
        """Whether its session is waiting for another slot or has one."""
        return False

    @property
    def is_recorded(self) -> bool:
        """Whether the assignment is stored in the database."""
        return True

    @abc.abstractmethod
    def ordered(self) -> dict[str, Any]:
        """Return the holder's part of the order to prepare the slot."""

    def about(self) -> contextlib.AbstractContextManager[None]:
        """Make the log lines of a block show the holder's request."""
        return contextlib.nullcontext()

    # -- the assignment ----------------------------------------------------

    @property
    def generation(self) -> int:
        """The assignment's number, which is higher for later assignments."""
        return self.core.generation

    @property
    def phase(self) -> model.Phase:
        return self.core.phase

    @property
    def is_unprepared(self) -> bool:
        """Whether the agent has not confirmed the preparation yet."""
        return not self.prepared and (
            self.phase is model.Phase.PREPARING
            or (self.offer is not None and self.phase is model.Phase.READY)
        )

    @property
    def revoked(self) -> str:
        """Why the slot is being revoked; empty if it is not."""
        return self.core.revoked

    @property
    def bitstream_id(self) -> str | None:
        return self.bitstream.bitstream_id if self.bitstream else None

    def note_energy(self, boot_id: str, line: objects.SlotReport) -> None:
        """Record the energy in a report, if it was used for this holder."""
        generation = line.generation
        if generation is None and line.last_result is not None:
            generation = line.last_result.generation
        if line.energy_j is not None and generation == self.generation:
            self.energy.note(boot_id, line.energy_j)

    def outdates(self, report: objects.AgentReport) -> bool:
        """Whether a report is older than the known state of the slot."""
        boot_id, sequence = self.heard
        return report.agent_boot_id == boot_id and report.sequence <= sequence

    def record(self) -> db_api.AssignmentRecord:
        """Return the assignment's row."""
        return db_api.AssignmentRecord(
            slot_id=self.slot.id,
            holder_kind=self.holder.kind.value,
            holder_id=self.holder.id,
            accelerator=self.accelerator,
            generation=self.generation,
            phase=self.phase.value,
            local=self.core.local,
            assigned_at=self.assigned_at,
            bitstream_id=self.bitstream_id,
        )


@dataclasses.dataclass(slots=True, kw_only=True)
class Member(Hold):
    """A group's slot.

    :ivar group: the group's row at the time of the assignment.
    :ivar charged_at: the time up to which the slot's use has been charged.
    """

    group: db_api.GroupRecord
    charged_at: float

    @property
    def public_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    @property
    def serves(self) -> bool:
        """Whether the slot serves the group's clients."""
        return self.phase is not model.Phase.PREPARING and not self.revoked

    def ordered(self) -> dict[str, Any]:
        return {
            "session_id": self.group.group_id,
            "group_id": self.group.group_id,
            "generation": self.generation,
            "project_id": self.group.project_id,
            "accelerator": self.group.accelerator,
            **WITHOUT_CLIENT,
        }


class Holds(dict[int, Hold]):
    """The assignments of slots to sessions and groups, by slot id.

    Successors are not among them before their slots' holders have left.

    :ivar changed_groups: groups whose desks may need a new order.
    :ivar candidates: new holders that may get a successor, by generation.
    """

    def __init__(
        self, core: core_state.PoolState, outbox: parts.Outbox
    ) -> None:
        super().__init__()
        self._core = core
        self._outbox = outbox
        self.changed_groups: set[str] = set()
        self.candidates: dict[int, Hold] = {}

    def assigned(self, slot_id: int) -> slots.Hold:
        """Return the assignment that the core has made."""
        core = self._core.hold(slot_id)
        if core is None:
            raise RuntimeError(f"the core has no holder for slot {slot_id}")
        return core

    def enter(self, hold: Hold) -> None:
        """Add an assignment; with another holder, it is its successor."""
        holder = self.get(hold.slot.id)
        leaving = self._core.leaving(hold.slot.id)
        if holder is None or leaving is not holder.core:
            self[hold.slot.id] = hold
            return
        hold.former, holder.successor = holder, hold

    def find(self, slot_id: int, generation: int) -> Hold | None:
        """Return an assignment, perhaps of a successor."""
        hold = self.get(slot_id)
        if hold is not None and hold.generation != generation:
            hold = hold.successor
        if hold is None or hold.generation != generation:
            return None
        return hold

    def with_successors(self) -> Iterator[Hold]:
        for hold in self.values():
            yield hold
            if hold.successor is not None:
                yield hold.successor

    def members(self) -> Iterator[Member]:
        """Yield the assignments to groups."""
        for hold in self.values():
            if isinstance(hold, Member):
                yield hold

    def save(self, hold: Hold) -> None:
        if hold.former is not None:
            # Its session's row has slot and generation.
            return
        self._mark_changed(hold)
        row = hold.record() if hold.is_recorded else None
        self._outbox.write_assignment(hold.slot.id, row)

    def drop(self, hold: Hold) -> None:
        """Remove an assignment from memory and from the database; its
        successor gets the slot.
        """
        if hold.former is not None:
            hold.former.successor = hold.former = None
            return
        self._mark_changed(hold)
        self.candidates.pop(hold.generation, None)
        del self[hold.slot.id]
        self._outbox.write_assignment(hold.slot.id, None)
        if hold.successor is not None:
            hold.successor.former = None
            self[hold.slot.id] = hold.successor

    def _mark_changed(self, hold: Hold) -> None:
        if isinstance(hold, Member):
            self.changed_groups.add(hold.group.group_id)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The last measurement of a slot's holder.

    :param input_bytes_per_s: mean input rate since the previous reading; 0 for
        the first reading.
    """

    generation: int
    at: float
    input_bytes: int
    output_bytes: int
    input_bytes_per_s: float = 0.0
    output_bytes_per_s: float = 0.0


class Traffic:
    """The readings of all slots that have a holder."""

    def __init__(self) -> None:
        self._readings: dict[int, Reading] = {}

    def note(
        self,
        slot_id: int,
        generation: int,
        input_bytes: int,
        output_bytes: int,
        now: float,
    ) -> Reading | None:
        """Record the byte counts of a report; return a new reading, or None if
        this is the holder's first report or follows the last reading too soon.
        """
        before = self._readings.get(slot_id)
        if before is None or before.generation != generation:
            self._readings[slot_id] = Reading(
                generation=generation,
                at=now,
                input_bytes=input_bytes,
                output_bytes=output_bytes,
            )
            return None
        seconds = now - before.at
        if seconds < _LEAST_TIME_S:
            return None
        reading = Reading(
            generation=generation,
            at=now,
            input_bytes=input_bytes,
            output_bytes=output_bytes,
            # A new worker counts from 0; the rate must not be negative.
            input_bytes_per_s=max(input_bytes - before.input_bytes, 0)
            / seconds,
            output_bytes_per_s=max(output_bytes - before.output_bytes, 0)
            / seconds,
        )
        self._readings[slot_id] = reading
        return reading

    def of(self, slot_id: int) -> Reading | None:
        """Return the last reading of a slot's holder."""
        return self._readings.get(slot_id)

    def forget(self, slot_id: int) -> None:
        """Forget the reading of a slot that was released."""
        self._readings.pop(slot_id, None)
