# SPDX-License-Identifier: Apache-2.0

"""One slot at a time, from the idlest group to the busiest."""

from __future__ import annotations

import dataclasses

from fpgapool.core.sizing import elasticity
from fpgapool.strategies import options as opts


@dataclasses.dataclass(frozen=True)
class GentleOptions:
    """Options of this policy.

    :param least_s: a slot moves only if the busiest group has so many seconds
        of work waiting for each of its slots.
    """

    least_s: float = 10.0


class GentlePolicy(elasticity.Policy):
    """Moves at most one slot in a period."""

    def __init__(self, options):
        self._least_s = options.least_s

    def resize(self, view, now):
        groups = [
            group for group in view.groups if group.waiting_s is not None
        ]
        givers = [group for group in groups if group.size > group.floor]
        takers = [group for group in groups if group.size < group.max_size]
        giver = min(givers, key=_load, default=None)
        taker = max(takers, key=_load, default=None)
        if giver is None or taker is None or giver is taker:
            return {}
        if _load(taker) < self._least_s:
            return {}
        return {giver.id: giver.size - 1, taker.id: taker.size + 1}


def _load(group):
    return group.waiting_s / max(group.size, 1)


def gentle(options):
    """Make the policy from its options by name."""
    own = opts.own(options, GentleOptions, shared=())
    return GentlePolicy(own)
