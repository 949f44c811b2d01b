# SPDX-License-Identifier: Apache-2.0

"""Small pools for tests of the core."""

import dataclasses
import typing

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import strategy as strategy_api
from tests.harness import pool_invariants

AES = model.Accelerator(name="aes", peak_bytes_per_s=1e9)
FFT = model.Accelerator(
    name="fft", peak_bytes_per_s=1e9, shapes=frozenset({"large"})
)


def make_host(
    host_id: int, slot_count: int = 2, shape: str = "small", **slot: typing.Any
) -> model.HostSpec:
    """A host with one board; slot ids are 10 times its id and up."""
    device = model.DeviceSpec(
        id=host_id,
        host_id=host_id,
        name="board0",
        dma_bytes_per_s=2.1e9,
        slots=tuple(
            model.SlotSpec(
                id=10 * host_id + number,
                device_id=host_id,
                host_id=host_id,
                number=number,
                shape=shape,
                **slot,
            )
            for number in range(slot_count)
        ),
    )
    return model.HostSpec(
        id=host_id,
        name=f"host{host_id}",
        nic_bytes_per_s=1.25e9,
        devices=(device,) if slot_count else (),
    )


def make_job(
    job_id: int, host_id: int | None = None, **members: typing.Any
) -> model.Job:
    """A job of 100 MB for aes that arrives at time 0."""
    defaults = {"accelerator": "aes", "claimed_bytes": 1e8, "arrival_s": 0.0}
    return model.Job(id=job_id, host_id=host_id, **(defaults | members))


@dataclasses.dataclass
class Pool:
    """A pool whose invariants are checked in every step."""

    state: state.PoolState
    now: float = 0.0

    def step(
        self, *batch: events.Event, now: float | None = None
    ) -> list[instructions.Instruction]:
        self.now = self.now if now is None else now
        output = self.state.step(batch, self.now)
        pool_invariants.check(self.state)
        return output

    def submit(
        self, *jobs: model.Job, now: float | None = None
    ) -> list[instructions.Instruction]:
        return self.step(*map(events.JobSubmitted, jobs), now=now)

    def generation(self, slot_id: int) -> int:
        return self.state.assignments()[slot_id].generation

    def hear(
        self,
        kind: typing.Callable[..., events.Event],
        slot_id: int,
        *more: typing.Any,
    ) -> list[instructions.Instruction]:
        return self.step(kind(slot_id, self.generation(slot_id), *more))


def make_pool(
    *hosts: model.HostSpec,
    strategy: str = "wra",
    options: dict[str, object] | None = None,
    **settings: typing.Any,
) -> Pool:
    """A pool with these hosts up, which knows aes and fft."""
    index = {"slot_choice": "index", "offer_order": "index"}
    factory = getattr(strategies, strategy)
    return make_pool_of(
        factory(index | (options or {}), 0), *hosts, **settings
    )


def make_pool_of(
    made: strategy_api.Strategy,
    *hosts: model.HostSpec,
    **settings: typing.Any,
) -> Pool:
    """The same with a strategy that is made already."""
    pool = Pool(state.PoolState(made, **settings))
    pool.step(
        events.AcceleratorsChanged((AES, FFT)), *map(events.HostUp, hosts)
    )
    return pool


def taken(
    output: list[instructions.Instruction],
) -> list[tuple[int, int]]:
    """Which job got which slot, in order."""
    return [
        (order.job_id, order.slot_id)
        for order in output
        if isinstance(order, instructions.Program)
    ]
