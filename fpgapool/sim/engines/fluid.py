# SPDX-License-Identifier: Apache-2.0

"""A job is one flow; its rate changes only when a job starts or ends."""

from __future__ import annotations

import math
import typing

from fpgapool.sim.engines import base
from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import sharing
from fpgapool.sim.inputs import scenario

_NOWHERE = -1


class _NewFlow(typing.NamedTuple):
    """A flow to start; -1: none, or a pipe that it does not use."""

    flow: int
    dma: int
    egress: int
    ingress: int
    back_egress: int
    back_ingress: int
    return_ratio: float
    cap: float
    total: float
    now: float


_NO_FLOW = _NewFlow(*[_NOWHERE] * 6, *[0.0] * 4)


class FluidEngine(base.Engine):
    """Flows with rates that are max-min fair over all their pipes."""

    def __init__(self, cluster: scenario.Cluster) -> None:
        self._pipes = base.Pipes(cluster)
        self._slots = len(base.slots_of(cluster))
        self._net = sharing.make_network(
            self._pipes.capacities_bytes_per_s, self._slots
        )
        # A flow to start, and when to share the pipes. Both wait until rates
        # matter: one call for them and for the ends of flows is faster than
        # three.
        self._new = _NO_FLOW
        self._settle_s = math.inf
        # Whether a flow has started or ended since pipes were last shared.
        self._is_stale = False
        # No flow ends before this time, unless something is waiting above.
        self._due_s = math.inf
        self._is_compiled = False
        # What the functions work on: the network or its matrices.
        self._vectors: tuple[typing.Any, ...] = (self._net,)
        self._update: typing.Any = _update
        self._finish: typing.Any = _finish

    def _compile(self) -> None:
        self._is_compiled = True
        self._vectors = compiling.matrices(self._net)
        self._net = sharing.network_of(*self._vectors)
        self._update = compiling.compiled(_update_in)
        self._finish = compiling.compiled(_finish_in)

    def start(
        self, slot: base.Slot, transfer: base.Transfer, now: float
    ) -> None:
        if not self._is_compiled and compiling.pays(1):
            self._compile()
        self._catch_up()
        self._is_stale = True
        source = transfer.source
        first_egress = self._pipes.first_egress
        first_ingress = self._pipes.first_ingress
        egress = ingress = back_egress = back_ingress = _NOWHERE
        if source != slot.host:
            ingress = first_ingress + slot.host
            back_egress = first_egress + slot.host
            if source is not None:
                egress = first_egress + source
                back_ingress = first_ingress + source
        self._new = _NewFlow(
            slot.number,
            slot.device,
            egress,
            ingress,
            back_egress,
            back_ingress,
            float(transfer.return_ratio),
            float(transfer.peak_bytes_per_s),
            float(transfer.size_bytes),
            now,
        )

    def stop(self, slot_number: int, now: float) -> float:
        """Stop a working slot before it has finished.

        :returns: the bytes that are left.
        """
        self._catch_up()
        self._is_stale = True
        left = sharing.left_bytes(self._net, slot_number, now)
        sharing.stop(self._net, slot_number)
        return float(left)

    def settle(self, now: float) -> None:
        if self._is_stale:
            if self._settle_s < math.inf:
                self._catch_up()
            self._settle_s = now
            self._is_stale = False

    def _catch_up(self) -> None:
        if self._settle_s < math.inf or self._new is not _NO_FLOW:
            self._update(*self._vectors, self._new, self._settle_s)
            self._new, self._settle_s = _NO_FLOW, math.inf
            self._due_s = -math.inf

    def advance(self, limit_s: float) -> tuple[float, list[int]]:
        if (
            limit_s < self._due_s
            and self._settle_s == math.inf
            and self._new is _NO_FLOW
        ):
            return limit_s, []
        time_s, count, self._due_s = self._finish(
            *self._vectors, self._new, self._settle_s, limit_s
        )
        self._new, self._settle_s = _NO_FLOW, math.inf
        if not count:
            return time_s, []
        self._is_stale = True
        if count == 1:
            return time_s, [int(self._net.found[0])]
        return time_s, sorted(map(int, self._net.found[:count]))

    def rates(self) -> list[float]:
        self._catch_up()
        return self._net.rate[: self._slots]


def _update_in(
    wholes: typing.Any, numbers: typing.Any, new: _NewFlow, settle_s: float
) -> None:
    _update(sharing.network_of(wholes, numbers), new, settle_s)


def _finish_in(
    wholes: typing.Any,
    numbers: typing.Any,
    new: _NewFlow,
    settle_s: float,
    limit_s: float,
) -> tuple[float, int, float]:
    net = sharing.network_of(wholes, numbers)
    return _finish(net, new, settle_s, limit_s)


@compiling.in_place
def _update(net: sharing.Network, new: _NewFlow, settle_s: float) -> None:
    """Start a flow, and share the pipes unless the time is infinite."""
    if new.flow >= 0:
        _start(net, new)
    if settle_s < math.inf:
        sharing.settle(net, settle_s)


@compiling.in_place
def _start(net: sharing.Network, new: _NewFlow) -> None:
    flow = new.flow
    sharing.use(net, flow, new.dma, 1.0)
    for pipe in (new.egress, new.ingress):
        if pipe >= 0:
            sharing.use(net, flow, pipe, 1.0)
    if new.return_ratio > 0.0:
        for pipe in (new.back_egress, new.back_ingress):
            if pipe >= 0:
                sharing.use(net, flow, pipe, new.return_ratio)
    sharing.start(net, flow, new.cap, new.total, new.now)


@compiling.in_place
def _finish(
    net: sharing.Network, new: _NewFlow, settle_s: float, limit_s: float
) -> tuple[float, int, float]:
    """Apply updates, and end the flows that are done by a time.

    :returns: what :func:`.sharing.collect_done` does, and the time before
        which no other flow ends at its present rate.
    """
    _update(net, new, settle_s)
    time_s, count = sharing.collect_done(net, limit_s)
    for at in range(count):
        sharing.stop(net, net.found[at])
    return time_s, count, sharing.next_due_s(net)
