#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The highest priority first."""

from __future__ import annotations

import dataclasses

import numpy

from fpgapool.strategies import base
from fpgapool.strategies import options as opts
from fpgapool.strategies.placements import any as any_placement


@dataclasses.dataclass(frozen=True)
class PriorityOptions:
    """Options of this strategy alone.

    :param highest: priorities above it count as this one.
    """

    highest: int = 1000


class PriorityOrdering(base.Ordering):
    """By priority, the highest first, then by arrival."""

    def __init__(self, options):
        self._highest = options.highest

    def key(self, job):
        priority = min(job.priority, self._highest)
        return (-priority, job.arrival_s, job.id)


def priority(options, seed):
    """Serve the highest priority first, on any compatible slot.

    :param options: by name; this one has ``highest``, and ``slot_choice``
        of those that all strategies get.
    :param seed: of random choices.
    """
    chosen = any_placement.AnyOptions(
        slot_choice=options.get("slot_choice") or "least_busy"
    )
    placement = any_placement.AnyPlacement(
        chosen, numpy.random.default_rng(seed)
    )
    own = opts.own(options, PriorityOptions)
    return base.ComposedStrategy(PriorityOrdering(own), placement)
