# SPDX-License-Identifier: Apache-2.0

"""The energy that slots' holders draw from the boards.

Pure: methods take readings and holders, and the time as an argument.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from fpgapool.agent.slots import orders

# Time after which a reading is outdated.
_OUTDATED_S = 10.0

# Readings follow each other after this share of the time for which the newest
# holder has its slot, so that short holders have several of them.
_SHARE_OF_AGE = 0.1
_LEAST_INTERVAL_S = 0.01
# Reading a slow sensor may take a tenth of the time, averaged over 10 s.
_REST_PER_S = 10
_AVERAGED_S = 10.0


@dataclasses.dataclass(slots=True)
class _Board:
    power_w: float | None = None
    read_s: float = 0.0


@dataclasses.dataclass(slots=True)
class _Share:
    """What a holder has drawn.

    :ivar settled_j: up to the last reading, or to its end.
    :ivar since_s: the time since then, divided among the holders.
    """

    generation: int
    settled_j: float | None = None
    since_s: float = 0.0

    def energy_j(self, power_w: float | None) -> float | None:
        """Return the energy.

        :param power_w: the board's power since the last reading.
        """
        if power_w is None or not self.since_s:
            return self.settled_j
        return (self.settled_j or 0.0) + power_w * self.since_s

    def settle(self, power_w: float | None) -> None:
        self.settled_j, self.since_s = self.energy_j(power_w), 0.0


class Meter:
    """Integrates the power of boards and divides the energy among holders.

    Between two readings, a board is assumed to draw their mean; after the last
    one, the power of that. All of it, including idle power, is divided equally
    among the held slots. While no slot is held, no holder is charged.
    """

    def __init__(self, keys: list[orders.Key]) -> None:
        self._boards = {device: _Board() for device, _ in keys}
        self._slots: dict[str, list[orders.Key]] = {}
        for key in keys:
            self._slots.setdefault(key[0], []).append(key)
        self._held: dict[orders.Key, int] = {}
        self._shares: dict[orders.Key, _Share] = {}
        self._now_s: float | None = None
        # When the newest holder came, and the earliest time of a reading.
        self._newest_s = self._rested_s = -math.inf

    def set_power(
        self, device: str, power_w: float | None, now: float
    ) -> None:
        """Record a power reading.

        :param power_w: power in W, or None if the board does not measure it.
        """
        self._advance(now)
        before_w = self._boards[device].power_w
        if before_w is not None:
            mean_w = before_w if power_w is None else (before_w + power_w) / 2
            for key in self._holders(device):
                self._shares[key].settle(mean_w)
        self._boards[device] = _Board(power_w, now)

    def rest(self, taken_s: float, now: float) -> None:
        """Put off the next reading, because one has taken time."""
        rested_s = max(self._rested_s, now - _AVERAGED_S)
        self._rested_s = rested_s + _REST_PER_S * taken_s

    def next_reading_s(self) -> float:
        """Return when to read the power of the boards again.

        It is infinite if no held board measures its power. Slots that are
        held for long need no readings besides the regular ones.
        """
        reads_s = [
            board.read_s
            for device, board in self._boards.items()
            if board.power_w is not None and self._holders(device)
        ]
        if not reads_s:
            return math.inf
        read_s = min(reads_s)
        interval_s = _SHARE_OF_AGE * (read_s - self._newest_s)
        return max(read_s + max(interval_s, _LEAST_INTERVAL_S), self._rested_s)

    def _holders(self, device: str) -> list[orders.Key]:
        return [key for key in self._slots[device] if key in self._held]

    def set_holders(
        self, generations: Mapping[orders.Key, int], now: float
    ) -> None:
        """Record which slots are held, and by which assignment."""
        if generations == self._held:
            return
        self._advance(now)
        for key, generation in self._held.items():
            if generations.get(key) != generation:
                # A former holder's energy must be known at its end.
                self._shares[key].settle(self._boards[key[0]].power_w)
        for key, generation in generations.items():
            if self._held.get(key) != generation:
                self._shares[key] = _Share(generation)
                self._newest_s = now
        self._held = dict(generations)

    def energy_j(self, key: orders.Key, now: float) -> float | None:
        """Return the energy drawn by a slot's current or last holder.

        :returns: joules, or None if the board's power was not measured.
        """
        self._advance(now)
        share = self._shares.get(key)
        if share is None:
            return None
        return share.energy_j(self._boards[key[0]].power_w)

    def _advance(self, now: float) -> None:
        before_s = self._now_s
        if before_s is not None and now <= before_s:
            return
        self._now_s = now
        if before_s is None:
            return
        for device, board in self._boards.items():
            held = self._holders(device)
            if board.power_w is None or not held:
                continue
            # Once the last reading is outdated, the power is unknown, and no
            # energy is counted.
            known_s = min(now, board.read_s + _OUTDATED_S) - before_s
            for key in held:
                self._shares[key].since_s += max(known_s, 0.0) / len(held)
