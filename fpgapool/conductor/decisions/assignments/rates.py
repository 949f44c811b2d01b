# SPDX-License-Identifier: Apache-2.0
"""Measures the data rates of sessions from agents' reports."""

from __future__ import annotations

import dataclasses

# Over shorter times, rates are mostly noise.
_LEAST_TIME_S = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The last measurement of a slot's holder.

    :param input_bytes_per_s: since the previous reading; 0 for the first.
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
        """Record the byte counts of a report.

        :returns: the new reading; None if it is the holder's first, or follows
            too soon.
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
            # Not negative: a new worker counts from 0.
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
