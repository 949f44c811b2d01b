# SPDX-License-Identifier: Apache-2.0

"""The loads that running jobs put on DMA pipes and NICs.

Strategies that estimate rates use them. Rates come from
:class:`~fpgapool.core.events.Progress`; before an assignment's first one, the
strategy's own estimate counts.
"""

import math
import typing

import numpy as np
import numpy.typing as npt

from fpgapool.core import model
from fpgapool.core import native

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]

# More bytes/s than any pipe carries.
_MOST = 1e300

#: Number of an unlimited pipe, for traffic from outside the pool.
NOWHERE = 0


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Flow:
    """The traffic of one slot's holder.

    :ivar uses: the pipes, each with the bytes that it carries per byte of
        input.
    """

    __slots__ = ("bytes_per_s", "uses")

    def __init__(self, uses: tuple[tuple[int, float], ...]) -> None:
        self.uses = uses
        self.bytes_per_s = 0.0


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Pipe:
    """What one pipe has left.

    :ivar count: the number of its flows.
    :ivar left: bytes/s that no flow uses.
    :ivar share: the rate that one more flow would get, in bytes/s.
    """

    __slots__ = ("capacity", "count", "left", "share")

    def __init__(self, capacity: float, load: float, count: float) -> None:
        self.capacity = capacity
        self.count = count
        self.left = max(capacity - load, 0.0)
        self.share = max(capacity / (count + 1.0), self.left)

    def has_free(self, part: float, flow_bytes_per_s: float = 0.0) -> bool:
        """Return whether a part of it stays free beside one more flow."""
        # An unlimited pipe counts as entirely free.
        return self.spare(part) >= flow_bytes_per_s

    def spare(self, part: float) -> float:
        """Return the rate that leaves this part of it free."""
        if self.capacity == math.inf:
            return math.inf
        return self.left - part * self.capacity


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Loads:
    """Pipes by number, and the flows of all assigned slots.

    The vectors have spare entries after the last pipe.

    :ivar loads: bytes/s that flows put on each pipe.
    :ivar count: the number of pipes.
    :ivar changed: the pipes that changed since the reader last cleared it.
    """

    def __init__(self) -> None:
        self.capacities: _Floats = np.full(16, math.inf)
        self.loads: _Floats = np.zeros(16)
        self.counts: _Floats = np.zeros(16)
        self.flows: dict[model.SlotId, Flow] = {}
        self.changed: set[int] = set()
        self.count = 1
        self._dma: dict[model.DeviceId, int] = {}
        self._egress: dict[model.HostId, int] = {}
        self._ingress: dict[model.HostId, int] = {}

    # -- pipes -----------------------------------------------------------

    def dma(self, device_id: model.DeviceId) -> int:
        """Return the number of a device's DMA pipe."""
        number = self._dma.get(device_id)
        return number or self._make(self._dma, device_id)

    def egress(self, host_id: model.HostId) -> int:
        """Return the number of the pipe through which a host sends."""
        number = self._egress.get(host_id)
        return number or self._make(self._egress, host_id)

    def ingress(self, host_id: model.HostId) -> int:
        """Return the number of the pipe through which a host receives."""
        number = self._ingress.get(host_id)
        return number or self._make(self._ingress, host_id)

    def _make(self, numbers: dict[int, int], owner_id: int) -> int:
        number = numbers[owner_id] = self.count
        self.count += 1
        if number == len(self.loads):
            self._grow()
        return number

    def _grow(self) -> None:
        more = len(self.loads)
        self.capacities = np.append(self.capacities, np.full(more, math.inf))
        self.loads = np.append(self.loads, np.zeros(more))
        self.counts = np.append(self.counts, np.zeros(more))

    def pipe(self, number: int) -> Pipe:
        """Return what a pipe has left now."""
        return Pipe(
            self.capacities.item(number),
            self.loads.item(number),
            self.counts.item(number),
        )

    def share(self, pipes: _Numbers) -> _Floats:
        """Return the rate that one more flow would get on each pipe."""
        equal = self.capacities[pipes] / (self.counts[pipes] + 1.0)
        return np.maximum(equal, self.left(pipes))

    def left(self, pipes: _Numbers) -> _Floats:
        """Return the bytes/s of each pipe that no flow uses."""
        return np.maximum(self.capacities[pipes] - self.loads[pipes], 0.0)

    def spare(self, pipes: _Numbers, part: float) -> _Floats:
        """Return the rate that leaves this part of each pipe free."""
        kept = np.minimum(self.capacities[pipes], _MOST) * part
        return self.left(pipes) - kept

    def set_host(self, spec: model.HostSpec) -> None:
        """Set the capacities of a host's pipes."""
        self._set(self.egress(spec.id), spec.nic_bytes_per_s)
        self._set(self.ingress(spec.id), spec.nic_bytes_per_s)
        for device in spec.devices:
            self._set(self.dma(device.id), device.dma_bytes_per_s)

    def _set(self, number: int, bytes_per_s: float) -> None:
        known = bytes_per_s > 0
        self.capacities[number] = bytes_per_s if known else math.inf
        self.changed.add(number)

    # -- flows -----------------------------------------------------------

    def uses(
        self, job: model.Job, spec: model.SlotSpec, return_ratio: float
    ) -> tuple[tuple[int, float], ...]:
        """Return the pipes that a job uses, with bytes per input byte."""
        found = [(self.dma(spec.device_id), 1.0)]
        if job.host_id == spec.host_id:
            return tuple(found)
        found.append((self.ingress(spec.host_id), 1.0))
        if job.host_id is not None:
            found.append((self.egress(job.host_id), 1.0))
        if return_ratio > 0:
            found.append((self.egress(spec.host_id), return_ratio))
            if job.host_id is not None:
                found.append((self.ingress(job.host_id), return_ratio))
        return tuple(found)

    def put(
        self, job: model.Job, spec: model.SlotSpec, return_ratio: float
    ) -> None:
        """Set the pipes of a slot's holder.

        Its rate does not change; a new holder starts at 0.
        """
        bytes_per_s = self.drop(spec.id)
        flow = Flow(self.uses(job, spec, return_ratio))
        self.flows[spec.id] = flow
        for pipe, _ in flow.uses:
            self.counts[pipe] = self.counts.item(pipe) + 1.0
        self._add(flow, bytes_per_s)

    def drop(self, slot_id: model.SlotId) -> float:
        flow = self.flows.pop(slot_id, None)
        if flow is None:
            return 0.0
        bytes_per_s = flow.bytes_per_s
        self._add(flow, -bytes_per_s)
        for pipe, _ in flow.uses:
            count = self.counts.item(pipe) - 1.0
            self.counts[pipe] = count
            if not count:
                # Discard rounding errors.
                self.loads[pipe] = 0.0
        return bytes_per_s

    def set_rate(self, slot_id: model.SlotId, bytes_per_s: float) -> None:
        """Set the rate of a slot's holder.

        A rate that is negative or infinite, or of a slot without a flow, is
        ignored.
        """
        flow = self.flows.get(slot_id)
        if flow is not None and 0 <= bytes_per_s < math.inf:
            self._add(flow, bytes_per_s - flow.bytes_per_s)
            flow.bytes_per_s = bytes_per_s

    def _add(self, flow: Flow, bytes_per_s: float) -> None:
        flow.bytes_per_s += bytes_per_s
        for pipe, cost in flow.uses:
            # numpy's own numbers would add several times slower.
            self.loads[pipe] = self.loads.item(pipe) + cost * bytes_per_s
            self.changed.add(pipe)
