# SPDX-License-Identifier: Apache-2.0

"""The highest priority first."""

from __future__ import annotations

import dataclasses

import numpy

from fpgapool.strategies import base
from fpgapool.strategies import options as opts
from fpgapool.strategies.placements import any as any_placement


@dataclasses.dataclass(frozen=True)
class SkeletonOptions:
    """Options of this strategy alone.

    :param highest: priorities above it count as this one.
    """

    highest: int = 1000


class SkeletonOrdering(base.Ordering):
    """By priority, the highest first, then by arrival."""

    def __init__(self, options):
        self._highest = options.highest

    def key(self, job):
        priority = min(job.priority, self._highest)
        return (-priority, job.arrival_s, job.id)


def skeleton(options, seed):
    """Serve the highest priority first, on any compatible slot.

    :param options: by name; this one has ``highest``, and ``slot_choice``
        of those that all strategies get.
    :param seed: of random choices.
    """
    placement = any_placement.AnyPlacement(
        opts.shared(options), numpy.random.default_rng(seed)
    )
    own = opts.own(options, SkeletonOptions)
    return base.ComposedStrategy(SkeletonOrdering(own), placement)
