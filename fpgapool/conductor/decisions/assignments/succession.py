# SPDX-License-Identifier: Apache-2.0

"""Chooses the successors of holders that will soon leave their slots."""

from __future__ import annotations

import dataclasses

from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model

#: A holder leaves soon if its claim, at the highest rate, takes at most so
#: long, and it has had its slot for at most so long.
_SHORT_S = 0.05
_YOUNG_S = 1.0
#: A holder for which no waiting session was suitable so often gets none.
_TRIES = 3
_PHASES = frozenset({model.Phase.READY, model.Phase.ACTIVE})


@dataclasses.dataclass(eq=False, repr=False)
class Succession(parts.Room):
    """Lets the core choose successors while sessions wait for a slot.

    The core decides as if these holders had left now. Where any slot is idle
    nobody gets a successor: who waits then, waits for something else.
    """

    _holds: holds.Holds

    def choose(self) -> bool:
        """Tell the core which holders will leave soon.

        :returns: whether the core has to decide about their slots.
        """
        core, candidates = self._core, self._holds.candidates
        if not candidates or not core.waiting_count:
            return False
        if core.idle_count or core.view.power.is_set:
            return False
        found = False
        for generation, hold in list(candidates.items()):
            is_past = (
                self._clock.now - hold.assigned_at > _YOUNG_S
                or hold.tries >= _TRIES
                or self._holds.get(hold.slot.id) is not hold
            )
            if is_past or not self._is_short(hold):
                del candidates[generation]
            elif hold.successor is None and self._leaves_soon(hold):
                hold.tries += 1
                found = True
                self._link.tell(events.HolderLeaves(hold.slot.id, generation))
        return found

    def _is_short(self, hold: holds.Hold) -> bool:
        accelerator = self._core.view.accelerators.get(hold.accelerator)
        if accelerator is None or not isinstance(hold, sessions.SessionHold):
            return False
        rate = accelerator.peak_in(hold.slot.shape)
        return hold.session.counted_bytes <= rate * _SHORT_S

    def _leaves_soon(self, hold: holds.Hold) -> bool:
        return hold.phase in _PHASES and hold.wanted and not hold.revoked
