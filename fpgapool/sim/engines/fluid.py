# SPDX-License-Identifier: Apache-2.0

"""A job is one flow; its rate changes only when a job starts or ends."""

from __future__ import annotations

import math

from fpgapool.sim import scenario
from fpgapool.sim.engines import base
from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import sharing

_NOWHERE = -1


class FluidEngine(base.Engine):
    """Flows with max-min fair rates, joint over all pipes that each uses."""

    def __init__(self, cluster: scenario.Cluster) -> None:
        self._pipes = base.Pipes(cluster)
        self._net = sharing.make_network(
            self._pipes.capacities_bytes_per_s,
            len(base.slots_of(cluster)),
        )
        # When to share the pipes, as soon as rates matter. One call that does
        # so and ends flows takes less time than two.
        self._settle_s = math.inf
        self._is_compiled = False
        self._start, self._settle, self._finish = (
            _start,
            sharing.settle,
            _finish,
        )

    def _compile(self) -> None:
        self._is_compiled = True
        self._net = compiling.arrays(self._net)
        self._start = compiling.compiled(_start)
        self._settle = compiling.compiled(sharing.settle)
        self._finish = compiling.compiled(_finish)

    def start(
        self, slot: base.Slot, transfer: base.Transfer, now: float
    ) -> None:
        if not self._is_compiled and compiling.pays(1):
            self._compile()
        self._settle_now()
        pipes, source = self._pipes, transfer.source
        is_remote = source != slot.host
        has_sender = is_remote and source is not None
        sender = source if source is not None else _NOWHERE
        self._start(
            self._net,
            slot.number,
            pipes.dma(slot.device),
            pipes.egress(sender) if has_sender else _NOWHERE,
            pipes.ingress(slot.host) if is_remote else _NOWHERE,
            pipes.egress(slot.host) if is_remote else _NOWHERE,
            pipes.ingress(sender) if has_sender else _NOWHERE,
            float(transfer.return_ratio),
            float(transfer.peak_bytes_per_s),
            float(transfer.size_bytes),
            now,
        )

    def stop(self, slot_number: int, now: float) -> float:
        """Stop a working slot before its end.

        :returns: the bytes that are left.
        """
        left = sharing.left_bytes(self._net, slot_number, now)
        sharing.stop(self._net, slot_number)
        return float(left)

    def settle(self, now: float) -> None:
        self._settle_now()
        self._settle_s = now

    def _settle_now(self) -> None:
        if self._settle_s < math.inf:
            self._settle(self._net, self._settle_s)
            self._settle_s = math.inf

    def advance(self, limit_s: float) -> tuple[float, list[int]]:
        time_s, count = self._finish(self._net, self._settle_s, limit_s)
        self._settle_s = math.inf
        if count == 1:
            return time_s, [int(self._net.found[0])]
        return time_s, sorted(int(slot) for slot in self._net.found[:count])

    def rates(self) -> list[float]:
        self._settle_now()
        return self._net.rate


@compiling.in_place
def _start(
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
) -> None:
    sharing.use(net, flow, dma, 1.0)
    for pipe in (egress, ingress):
        if pipe >= 0:
            sharing.use(net, flow, pipe, 1.0)
    if return_ratio > 0.0:
        for pipe in (back_egress, back_ingress):
            if pipe >= 0:
                sharing.use(net, flow, pipe, return_ratio)
    sharing.start(net, flow, cap, total, now)


@compiling.in_place
def _finish(
    net: sharing.Network, settle_s: float, limit_s: float
) -> tuple[float, int]:
    """Share the pipes at a time, unless it is infinite; end flows then."""
    if settle_s < math.inf:
        sharing.settle(net, settle_s)
    time_s, count = sharing.collect_done(net, limit_s)
    for at in range(count):
        sharing.stop(net, net.found[at])
    return time_s, count
