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

"""Workload-aware: priority queues by size, first come first served in each."""

import bisect
import dataclasses
import math

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.strategies import base


def hybrid_thresholds(
    E_bytes: float, q: float, k1: int, k2: int, queues: int
) -> tuple[float, ...]:
    """Upper bounds of all priority queues but the last.

    They grow geometrically up to queue k1, linearly up to k2 and
    geometrically again after it; k1 = 1 and k2 = 2 is geometric throughout.

    :param E_bytes: the bound of the first queue.
    :param q: the factor of the geometric parts.
    :param queues: how many queues there are; 1 gives no threshold.
    :raises ValueError: if the thresholds would not be finite and increase.
    """
    if not 0 < E_bytes < math.inf:
        raise ValueError(f"E_bytes must be positive, not {E_bytes}")
    if not 1 < q < math.inf:
        raise ValueError(f"q must be above 1, not {q}")
    if not 1 <= k1 < k2:
        raise ValueError(f"1 <= k1 < k2 must hold, not k1={k1}, k2={k2}")
    if queues < 1:
        raise ValueError(f"queues must be at least 1, not {queues}")

    def threshold_bytes(k: int) -> float:
        if k1 < k <= k2:
            step = (q ** (k2 - 1) - q**k1) / (k2 - k1)
            return E_bytes * (q**k1 + (k - k1) * step)
        return float(E_bytes * q ** (k - 1))

    try:
        thresholds = tuple(threshold_bytes(k) for k in range(1, queues))
    except OverflowError:
        raise ValueError(
            f"thresholds are not finite with q={q}, queues={queues}"
        ) from None
    check_thresholds(thresholds)
    return thresholds


def check_thresholds(thresholds_bytes: tuple[float, ...]) -> None:
    """Make sure that thresholds separate queues.

    :raises ValueError: if they are not positive, finite and increasing.
    """
    lower_bytes = 0.0
    for threshold_bytes in thresholds_bytes:
        if not lower_bytes < threshold_bytes < math.inf:
            raise ValueError(
                "thresholds_bytes must be positive, finite and increasing, "
                f"but {threshold_bytes} follows {lower_bytes}"
            )
        lower_bytes = threshold_bytes


#: For sizes that are about exponential.
EXPONENTIAL_THRESHOLDS_BYTES = hybrid_thresholds(20e6, 1.41, 5, 16, 20)
#: For heavy tails.
HEAVY_TAIL_THRESHOLDS_BYTES = hybrid_thresholds(26e6, 1.8, 10, 11, 20)


@dataclasses.dataclass(frozen=True, slots=True)
class WaOptions:
    """Options of :class:`WaOrdering`.

    :param thresholds_bytes: upper bounds of all queues but the last.
    :raises ValueError: if they are not positive, finite and increasing.
    """

    thresholds_bytes: tuple[float, ...] = EXPONENTIAL_THRESHOLDS_BYTES

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds_bytes)


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
