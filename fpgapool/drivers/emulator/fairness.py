# SPDX-License-Identifier: Apache-2.0

"""Max-min fair rates: no flow can gain except at the cost of a slower one.

Workers also import this module, so it must load quickly.
"""

import heapq
from collections import abc


def max_min_rates(
    caps_bytes_per_s: abc.Sequence[float],
    memberships: abc.Sequence[abc.Sequence[tuple[int, float]]],
    capacities_bytes_per_s: abc.Sequence[float],
) -> list[float]:
    """Return the max-min fair rates of flows that share several resources.

    This is progressive filling: all rates grow together, until a flow reaches
    its cap or a resource that it uses is full.

    :param memberships: for each flow, the resources that it uses, each with
        the bytes of capacity that one byte of the flow takes.
    """
    filling = _Filling(memberships, capacities_bytes_per_s)
    order = sorted(range(len(memberships)), key=caps_bytes_per_s.__getitem__)
    for flow in order:
        filling.fill_up_to(caps_bytes_per_s[flow])
        filling.stop(flow, caps_bytes_per_s[flow])
    return filling.rates


class _Filling:
    """The state of progressive filling.

    :ivar rates: rates of flows that have stopped growing; -1: still growing.
    """

    def __init__(
        self,
        memberships: abc.Sequence[abc.Sequence[tuple[int, float]]],
        capacities: abc.Sequence[float],
    ) -> None:
        self.rates = [-1.0] * len(memberships)
        # For each flow: its resources with a cost above 0.
        self._uses = [
            [(resource, cost) for resource, cost in uses if cost > 0]
            for uses in memberships
        ]
        self._users: list[list[int]] = [[] for _ in capacities]
        self._left = list(capacities)
        self._weights = [0.0] * len(capacities)
        for flow, uses in enumerate(self._uses):
            for resource, cost in uses:
                self._users[resource].append(flow)
                self._weights[resource] += cost
        self._growing = [len(users) for users in self._users]
        # Pairs of the rate at which a resource is full, and the resource. The
        # rate may be too low: it rises when flows stop at other resources.
        self._heap = [
            (self._full_at(resource), resource)
            for resource, users in enumerate(self._users)
            if users
        ]
        heapq.heapify(self._heap)

    def _full_at(self, resource: int) -> float:
        return max(self._left[resource], 0.0) / self._weights[resource]

    def fill_up_to(self, rate: float) -> None:
        """Raise all growing rates, except where a resource fills up first."""
        heap = self._heap
        while heap and heap[0][0] < rate:
            resource = heap[0][1]
            if not self._growing[resource]:
                heapq.heappop(heap)
                continue
            full_at = self._full_at(resource)
            if full_at > heap[0][0]:
                # Flows that stopped at other resources have left room here.
                heapq.heapreplace(heap, (full_at, resource))
                continue
            heapq.heappop(heap)
            for flow in self._users[resource]:
                self.stop(flow, full_at)

    def stop(self, flow: int, rate: float) -> None:
        """Fix the rate of a flow, unless it is fixed already."""
        if self.rates[flow] >= 0:
            return
        self.rates[flow] = rate
        for resource, cost in self._uses[flow]:
            self._left[resource] -= cost * rate
            self._weights[resource] -= cost
            self._growing[resource] -= 1
