# SPDX-License-Identifier: Apache-2.0

"""Workload-aware: priority queues by size, first come first served in each."""

import bisect
import dataclasses

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core.queues import thresholds
from fpgapool.strategies import base

#: For sizes that vary about exponentially.
EXPONENTIAL_THRESHOLDS_BYTES = thresholds.hybrid_thresholds(
    20e6, 1.41, 5, 16, 20
)


@dataclasses.dataclass(frozen=True, slots=True)
class WaOptions:
    """Options of :class:`WaOrdering`.

    :param thresholds_bytes: upper bounds of all queues but the last.
    :raises ValueError: if they are not positive, finite and increasing.
    """

    thresholds_bytes: tuple[float, ...] = EXPONENTIAL_THRESHOLDS_BYTES

    def __post_init__(self) -> None:
        thresholds.check_thresholds(self.thresholds_bytes)


class WaOrdering(base.Ordering):
    """By priority queue, then arrival, then id.

    A size equal to a threshold belongs to the queue of higher priority.
    """

    def __init__(self, options: WaOptions) -> None:
        self.options = options

    def key(self, job: model.Job) -> ordered.Key:
        queue = bisect.bisect_left(
            self.options.thresholds_bytes, job.claimed_bytes
        )
        return (queue, job.arrival_s, job.id)
