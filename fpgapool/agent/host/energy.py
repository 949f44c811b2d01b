# SPDX-License-Identifier: Apache-2.0

"""The energy that slots' holders draw from the boards.

Pure: methods take readings and holders, and the time as an argument.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fpgapool.agent.slots import orders

# Time after which a reading is outdated.
_OUTDATED_S = 10.0


@dataclasses.dataclass(slots=True)
class _Board:
    power_w: float | None = None
    read_s: float = 0.0


@dataclasses.dataclass(slots=True)
class _Share:
    generation: int
    energy_j: float | None = None


class Meter:
    """Integrates the power of boards and divides the energy among holders.

    A board is assumed to draw the power of its last reading until the next.
    All of it, including idle power, is divided equally among the held slots.
    While no slot is held, no holder is charged.
    """

    def __init__(self, keys: list[orders.Key]) -> None:
        self._boards = {device: _Board() for device, _ in keys}
        self._slots: dict[str, list[orders.Key]] = {}
        for key in keys:
            self._slots.setdefault(key[0], []).append(key)
        self._held: dict[orders.Key, int] = {}
        self._shares: dict[orders.Key, _Share] = {}
        self._now_s: float | None = None

    def set_power(
        self, device: str, power_w: float | None, now: float
    ) -> None:
        """Record a power reading.

        :param power_w: power in W, or None if the board does not measure it.
        """
        self._advance(now)
        self._boards[device] = _Board(power_w, now)

    def set_holders(
        self, generations: Mapping[orders.Key, int], now: float
    ) -> None:
        """Record which slots are held, and by which assignment."""
        if generations == self._held:
            return
        self._advance(now)
        for key, generation in generations.items():
            if self._held.get(key) != generation:
                self._shares[key] = _Share(generation)
        self._held = dict(generations)

    def energy_j(self, key: orders.Key, now: float) -> float | None:
        """Return the energy drawn by a slot's current or last holder.

        :returns: joules, or None if the board's power was not measured.
        """
        self._advance(now)
        share = self._shares.get(key)
        return None if share is None else share.energy_j

    def _advance(self, now: float) -> None:
        before_s = self._now_s
        if before_s is not None and now <= before_s:
            return
        self._now_s = now
        if before_s is None:
            return
        for device, board in self._boards.items():
            held = [key for key in self._slots[device] if key in self._held]
            if board.power_w is None or not held:
                continue
            # Once the last reading is outdated, the power is unknown, and no
            # energy is counted.
            known_s = min(now, board.read_s + _OUTDATED_S) - before_s
            energy_j = board.power_w * max(known_s, 0.0) / len(held)
            for key in held:
                share = self._shares[key]
                share.energy_j = (share.energy_j or 0.0) + energy_j
