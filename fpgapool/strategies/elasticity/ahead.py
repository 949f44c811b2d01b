# SPDX-License-Identifier: Apache-2.0

"""Sizes for the work that waits and the work that is expected.

Programming a slot costs seconds, so this policy changes sizes only if a group
would otherwise need more than a period for its work, and only if that becomes
clearly better.
"""

import dataclasses
import math

from fpgapool.core.sizing import apportion
from fpgapool.core.sizing import elasticity


@dataclasses.dataclass(frozen=True, slots=True)
class AheadOptions:
    """Options of :class:`AheadPolicy`.

    :param adopt: new sizes are adopted if the longest time that a group needs
        for its work is at most this part of the present one.
    :param calm_periods: sizes stay while no group needs more periods than
        this for its work.
    :raises ValueError: if ``adopt`` is not above 0 and at most 1, or
        ``calm_periods`` is negative or not finite.
    """

    adopt: float = 0.8
    calm_periods: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.calm_periods < math.inf:
            raise ValueError(
                "calm_periods must be finite and not negative, not "
                f"{self.calm_periods}"
            )
        if not 0 < self.adopt <= 1:
            raise ValueError(
                f"adopt must be above 0 and at most 1, not {self.adopt}"
            )


class AheadPolicy(elasticity.Policy):
    """Makes the longest time that a group needs for its work short.

    A group's work is what waits and what is expected to come in a period: as
    much as came in the last one, or the smoothed arrivals if they are more.
    """

    def __init__(self, options: AheadOptions) -> None:
        self.options = options

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        """Divide the slots of the set, if that helps enough."""
        work: list[float] = []
        for group in view.groups:
            if group.waiting_s is None:
                return {}
            coming_s = max(group.arrived_s or 0.0, group.expected_s or 0.0)
            work.append(group.waiting_s + coming_s)
        sizes = apportion.levelled(
            work,
            view.slots,
            [max(group.floor, 1) for group in view.groups],
            [group.max_size for group in view.groups],
        )
        old_s = _longest_s(work, [group.size for group in view.groups])
        if old_s <= self.options.calm_periods * view.period_s:
            return {}
        if _longest_s(work, sizes) > self.options.adopt * old_s:
            return {}
        return {
            group.id: size
            for group, size in zip(view.groups, sizes, strict=True)
        }


def _longest_s(work: list[float], sizes: list[int]) -> float:
    return max(map(apportion.load, work, sizes), default=0.0)
