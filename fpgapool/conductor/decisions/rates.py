# SPDX-License-Identifier: Apache-2.0
"""How fast sessions send and get, by what agents report of them."""

from __future__ import annotations

import dataclasses

# Rates over less time than this are mostly noise.
_LEAST_TIME_S = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was heard of a slot's holder last.

    :param at: when, by the wall clock.
    :param input_bytes_per_s: since the reading before; 0 if it is the first.
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
        """Take a report.

        :returns: the new reading, if it is not a holder's first one and not
            too soon after the one before.
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
            # Counted anew by another worker: nobody sends backwards.
            input_bytes_per_s=max(input_bytes - before.input_bytes, 0)
            / seconds,
            output_bytes_per_s=max(output_bytes - before.output_bytes, 0)
            / seconds,
        )
        self._readings[slot_id] = reading
        return reading

    def of(self, slot_id: int) -> Reading | None:
        """Return what was heard of a slot's holder last."""
        return self._readings.get(slot_id)

    def forget(self, slot_id: int) -> None:
        """A slot has no holder any more."""
        self._readings.pop(slot_id, None)
