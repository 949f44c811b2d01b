# SPDX-License-Identifier: Apache-2.0

"""A job is one flow; its rate changes only when a job starts or ends."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping

from fpgapool.sim.engines import base
from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import sharing
from fpgapool.sim.inputs import scenario

_NOWHERE = -1


#: A flow to start: see :func:`_advance`.
_NewFlow: typing.TypeAlias = tuple[
    int, int, int, int, int, int, float, float, float, float
]
_NO_FLOW: _NewFlow = (-1, -1, -1, -1, -1, -1, 0.0, 0.0, 0.0, 0.0)


class FluidEngine(base.Engine):
    """Flows with rates that are max-min fair over all their pipes.

    :param most_stages: maximum number of slots that one flow goes through.
    """

    def __init__(
        self, cluster: scenario.Cluster, most_stages: int = 1
    ) -> None:
        self.pipes = base.Pipes(cluster)
        self._slots = len(base.slots_of(cluster))
        self._net = sharing.make_network(
            self.pipes.capacities_bytes_per_s,
            self._slots,
            # The pipe of each board, and two links on each way.
            most_stages + 2 * (most_stages + 1),
        )
        # A flow to start, and when to share the pipes. Both wait until rates
        # matter: one call for them and for the ends of flows is faster than
        # three.
        self._new: _NewFlow = _NO_FLOW
        self._settle_s = math.inf
        # Whether a flow has started or ended since pipes were last shared.
        self._is_stale = False
        # No flow ends before this time, unless something is waiting above.
        self._due_s = math.inf
        self._is_compiled = False
        # What the functions work on: the network or its matrices.
        self._vectors: tuple[typing.Any, ...] = (self._net,)
        self._advance: typing.Any = _advance

    def _compile(self) -> None:
        self._is_compiled = True
        self._vectors = compiling.matrices(self._net)
        self._net = sharing.network_of(*self._vectors)
        self._advance = compiling.compiled(_advance_in)

    def start(
        self, slot: base.Slot, transfer: base.Transfer, now: float
    ) -> None:
        if not self._is_compiled and compiling.pays(1):
            self._compile()
        if self._settle_s < math.inf or self._new is not _NO_FLOW:
            self._go_on(-math.inf)
        self._is_stale = True
        source = transfer.source
        first_egress = self.pipes.first_egress
        first_ingress = self.pipes.first_ingress
        egress = ingress = back_egress = back_ingress = _NOWHERE
        if source != slot.host:
            ingress = first_ingress + slot.host
            back_egress = first_egress + slot.host
            if source is not None:
                egress = first_egress + source
                back_ingress = first_ingress + source
        # Flat: compiled functions inspect each tuple that they get.
        self._new = (
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

    def start_route(
        self,
        slot_number: int,
        costs: Mapping[int, float],
        peak_bytes_per_s: float,
        size_bytes: float,
        now: float,
    ) -> None:
        """Start work that goes through several slots.

        :param slot_number: the first one, which has the rate and the end.
        :param costs: see :meth:`.base.Pipes.route`.
        """
        self._catch_up()
        self._is_stale = True
        for pipe, cost in costs.items():
            sharing.use(self._net, slot_number, pipe, cost)
        sharing.start(
            self._net, slot_number, peak_bytes_per_s, size_bytes, now
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
            self._go_on(-math.inf)

    def _go_on(self, limit_s: float) -> tuple[float, int, int]:
        time_s, count, first, self._due_s = self._advance(
            *self._vectors, *self._new, self._settle_s, limit_s
        )
        self._new, self._settle_s = _NO_FLOW, math.inf
        return time_s, count, first

    def advance(self, limit_s: float) -> tuple[float, list[int]]:
        if (
            limit_s < self._due_s
            and self._settle_s == math.inf
            and self._new is _NO_FLOW
        ):
            return limit_s, []
        time_s, count, first = self._go_on(limit_s)
        if not count:
            return time_s, []
        self._is_stale = True
        if count == 1:
            return time_s, [first]
        return time_s, sorted(map(int, self._net.found[:count]))

    def rates(self) -> list[float]:
        self._catch_up()
        return self._net.rate[: self._slots]


def _advance_in(
    wholes: typing.Any,
    numbers: typing.Any,
    flow: int,
    dma: int,
    egress: int,
    ingress: int,
    back_egress: int,
    back_ingress: int,
    return_ratio: float,
    cap: float,
    total: float,
    now: float,
    settle_s: float,
    limit_s: float,
) -> tuple[float, int, int, float]:
    return _advance(
        sharing.network_of(wholes, numbers),
        flow,
        dma,
        egress,
        ingress,
        back_egress,
        back_ingress,
        return_ratio,
        cap,
        total,
        now,
        settle_s,
        limit_s,
    )


@compiling.in_place
def _advance(
    net: sharing.Network,
    flow: int,
    dma: int,
    egress: int,
    ingress: int,
    back_egress: int,
    back_ingress: int,
    return_ratio: float,
    cap: float,
    total: float,
    now: float,
    settle_s: float,
    limit_s: float,
) -> tuple[float, int, int, float]:
    """Start a flow, share the pipes, and end the flows that are done.

    :param flow: the flow to start; -1: none.
    :param egress: a pipe of the flow; like the next three, -1: it uses none.
    :param settle_s: when to share the pipes; infinite: not now.
    :returns: what :func:`.sharing.collect_done` does, the first flow that has
        ended, and the time before which no other flow ends at its present
        rate.
    """
    if flow >= 0:
        sharing.use(net, flow, dma, 1.0)
        for pipe in (egress, ingress):
            if pipe >= 0:
                sharing.use(net, flow, pipe, 1.0)
        if return_ratio > 0.0:
            for pipe in (back_egress, back_ingress):
                if pipe >= 0:
                    sharing.use(net, flow, pipe, return_ratio)
        sharing.start(net, flow, cap, total, now)
    if settle_s < math.inf:
        sharing.settle(net, settle_s)
    time_s, count = sharing.collect_done(net, limit_s)
    for at in range(count):
        sharing.stop(net, net.found[at])
    return time_s, count, net.found[0], sharing.next_due_s(net)
