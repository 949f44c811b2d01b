# SPDX-License-Identifier: Apache-2.0

"""A job's data moves in chunks; a window limits the chunks in flight.

Each chunk of a remote job is sent, processed and, if the accelerator returns
data, sent back. These three stages work on different chunks at the same time,
as in the data plane and in the simulator of the paper (FPGAPooling, section
7.1). A chunk may be sent while fewer than ``window`` chunks are in flight. A
chunk is in flight until its results are back or, if the accelerator returns no
data, until it is processed.
"""

from __future__ import annotations

import math
import typing

from fpgapool.sim.engines import base
from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import sharing
from fpgapool.sim.inputs import scenario

CHUNK_BYTES = 4 * 2**20
WINDOW = 8

_STAGES = 3
_SEND, _PROCESS, _RETURN = range(_STAGES)
_NOWHERE = -1


class _Slots(typing.NamedTuple):
    """The progress of the slots' jobs; each field is a vector.

    Stage k of slot s has the number s × 3 + k, and so has its flow.

    :ivar chunk_bytes: size of all chunks except the last.
    :ivar window: maximum number of chunks in flight.
    :ivar is_active: by stage: whether it is working on a chunk.
    :ivar is_used: by stage: whether the job needs it.
    :ivar cap: by stage: maximum rate in bytes/s.
    :ivar ratio: by stage: bytes it handles per byte of input.
    :ivar pipes: by stage: two resources; -1: none.
    """

    chunks: list[int]
    chunk_bytes: list[float]
    last_bytes: list[float]
    window: list[int]
    done: list[int]
    is_active: list[int]
    is_used: list[int]
    cap: list[float]
    ratio: list[float]
    pipes: list[int]


class ChunkEngine(base.Engine):
    """Chunks move through pipes that are always shared max-min fairly.

    :param window: maximum number of a job's chunks in flight, at least 1.
    """

    def __init__(
        self,
        cluster: scenario.Cluster,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        window: int = WINDOW,
    ) -> None:
        if chunk_bytes < 1 or window < 1:
            raise ValueError("chunk_bytes and window must be at least 1")
        count = len(base.slots_of(cluster))
        self._pipes = base.Pipes(cluster)
        self._net = sharing.make_network(
            self._pipes.capacities_bytes_per_s, count * _STAGES
        )
        self._chunk_bytes = chunk_bytes
        self._is_compiled = False
        self._begin, self._advance = _begin, _advance
        self._settle = sharing.settle
        self._slots = _Slots(
            chunks=[0] * count,
            chunk_bytes=[float(chunk_bytes)] * count,
            last_bytes=[0.0] * count,
            window=[window] * count,
            done=[0] * count * _STAGES,
            is_active=[0] * count * _STAGES,
            is_used=[0] * count * _STAGES,
            cap=[math.inf] * count * _STAGES,
            ratio=[1.0] * count * _STAGES,
            pipes=[_NOWHERE] * count * _STAGES * 2,
        )

    def _compile(self) -> None:
        self._is_compiled = True
        self._net = compiling.arrays(self._net)
        self._slots = compiling.arrays(self._slots)
        self._begin = compiling.compiled(_begin)
        self._settle = compiling.compiled(sharing.settle)
        self._advance = compiling.compiled(_advance)

    def start(
        self, slot: base.Slot, transfer: base.Transfer, now: float
    ) -> None:
        chunks = max(1, math.ceil(transfer.size_bytes / self._chunk_bytes))
        if not self._is_compiled and compiling.pays(chunks):
            self._compile()
        number, state = slot.number, self._slots
        state.chunks[number] = chunks
        state.last_bytes[number] = (
            transfer.size_bytes - (chunks - 1) * self._chunk_bytes
        )
        state.cap[number * _STAGES + _PROCESS] = transfer.peak_bytes_per_s
        self._use(number, _PROCESS, slot.device)
        self._set_pipes(slot, transfer)
        self._begin(self._net, state, number, now)

    def _set_pipes(self, slot: base.Slot, transfer: base.Transfer) -> None:
        """Set the pipes that lead to the slot and back."""
        pipes, is_remote = self._pipes, transfer.source != slot.host
        here, there = slot.host, transfer.source if is_remote else None
        out = _NOWHERE if there is None else pipes.egress(there)
        back = _NOWHERE if there is None else pipes.ingress(there)
        state, first = self._slots, slot.number * _STAGES
        state.is_used[first + _SEND] = is_remote
        state.is_used[first + _PROCESS] = True
        state.is_used[first + _RETURN] = (
            is_remote and transfer.return_ratio > 0
        )
        state.ratio[first + _RETURN] = transfer.return_ratio
        self._use(slot.number, _SEND, out, pipes.ingress(here))
        self._use(slot.number, _RETURN, pipes.egress(here), back)

    def _use(self, slot: int, stage: int, *pipes: int) -> None:
        first = (slot * _STAGES + stage) * 2
        for place in range(2):
            self._slots.pipes[first + place] = (
                pipes[place] if place < len(pipes) else _NOWHERE
            )

    def settle(self, now: float) -> None:
        self._settle(self._net, now)

    def advance(self, limit_s: float) -> tuple[float, list[int]]:
        time_s, count = self._advance(self._net, self._slots, limit_s)
        return time_s, sorted(int(slot) for slot in self._net.found[:count])

    def rates(self) -> list[float]:
        return self._net.rate[_PROCESS::_STAGES]


@compiling.in_place
def _begin(net: sharing.Network, slots: _Slots, slot: int, now: float) -> None:
    first = slot * _STAGES
    for stage in range(first, first + _STAGES):
        slots.done[stage] = 0
    _go_on(net, slots, slot, now)


@compiling.in_place
def _advance(
    net: sharing.Network, slots: _Slots, limit_s: float
) -> tuple[float, int]:
    """Move chunks until a job is done or a time is reached."""
    while True:
        time_s, count = sharing.collect_done(net, limit_s)
        if not count:
            return time_s, 0
        # The slots that have finished replace the first flows of ``found``.
        jobs_done = 0
        for at in range(count):
            stage = net.found[at]
            slot = stage // _STAGES
            slots.done[stage] += 1
            slots.is_active[stage] = 0
            if _back(slots, slot) == slots.chunks[slot]:
                sharing.stop(net, stage)
                net.found[jobs_done] = slot
                jobs_done += 1
            else:
                _go_on(net, slots, slot, time_s)
                if not slots.is_active[stage]:
                    sharing.stop(net, stage)
        if jobs_done:
            return time_s, jobs_done
        sharing.settle(net, time_s)


@compiling.in_place
def _back(slots: _Slots, slot: int) -> int:
    """Return the number of chunks that are no longer in flight."""
    last = slot * _STAGES + _RETURN
    if slots.is_used[last]:
        return slots.done[last]
    return slots.done[last - 1]


@compiling.in_place
def _go_on(net: sharing.Network, slots: _Slots, slot: int, now: float) -> None:
    """Start the next chunk in each stage that is ready for it."""
    first = slot * _STAGES
    # The number of chunks that the stage may have begun in total.
    may_begin = min(
        slots.chunks[slot], _back(slots, slot) + slots.window[slot]
    )
    for stage in range(first, first + _STAGES):
        if not slots.is_used[stage]:
            continue
        if not slots.is_active[stage] and slots.done[stage] < may_begin:
            _start_chunk(net, slots, slot, stage, now)
        may_begin = slots.done[stage]


@compiling.in_place
def _start_chunk(
    net: sharing.Network, slots: _Slots, slot: int, stage: int, now: float
) -> None:
    size = slots.chunk_bytes[slot]
    if slots.done[stage] == slots.chunks[slot] - 1:
        size = slots.last_bytes[slot]
    size *= slots.ratio[stage]
    slots.is_active[stage] = 1
    if net.use_count[stage]:
        # The stage has just finished a chunk: its flow keeps its rate.
        sharing.extend(net, stage, size, now)
        return
    for place in (2 * stage, 2 * stage + 1):
        if slots.pipes[place] >= 0:
            sharing.use(net, stage, slots.pipes[place], 1.0)
    sharing.start(net, stage, slots.cap[stage], size, now)
