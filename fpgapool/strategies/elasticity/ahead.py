# SPDX-License-Identifier: Apache-2.0

"""Sizes for the waiting and the expected work.

Programming a slot takes seconds. So this policy changes sizes only if a group
would otherwise need more than one period for its work, and only if the change
is a clear improvement.
"""

import dataclasses
import typing

from fpgapool.core.sizing import apportion
from fpgapool.core.sizing import elasticity
from fpgapool.strategies import options as opts


@dataclasses.dataclass(frozen=True, slots=True)
class AheadOptions(opts.Numbers):
    """Options of :class:`AheadPolicy`.

    :param adopt: new sizes are adopted if the longest time that any group
        needs for its work is at most this fraction of the current one.
    :param calm_periods: sizes do not change while no group needs more than
        this many periods for its work.
    """

    PARTS: typing.ClassVar[tuple[str, ...]] = ("adopt",)

    adopt: float = 0.8
    calm_periods: float = 1.0


class AheadPolicy(elasticity.Policy):
    """Minimises the longest time that a group needs for its work.

    A group's work is what waits now plus what is expected in one period: the
    larger of the last period's arrivals and the smoothed arrivals.
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
