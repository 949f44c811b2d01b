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

"""A minimal fluid clock, and a driver that runs scenario files with it.

Running jobs are flows whose rates are max-min fair over DMA pipes and NICs
and change only when a job starts or ends.
"""

import dataclasses
import json
import math
import pathlib
import typing
from collections import abc

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import fairness
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state

FACTORIES = {
    name: getattr(strategies, name)
    for name in ("fifo", "sjf", "wa", "ra", "wra")
}


@dataclasses.dataclass
class Flow:
    """A job that runs."""

    job: model.Job
    slot: model.SlotSpec
    generation: int
    start_s: float
    left_bytes: float
    rate_bytes_per_s: float = 0.0

    def is_done(self, now: float) -> bool:
        """Whether what is left is only a rounding error."""
        return self.left_bytes <= (
            1e-9 * self.job.claimed_bytes
            + 1e-12 * self.rate_bytes_per_s * (1 + now)
        )


class FluidPool:
    """A scenario's cluster, whose jobs run as fluid flows.

    :ivar finished: by job id, what became of each job.
    """

    def __init__(
        self, cluster: abc.Mapping[str, typing.Any], pool: state.PoolState
    ) -> None:
        self.pool = pool
        self.finished: dict[int, dict[str, typing.Any]] = {}
        self._cluster = cluster
        self._flows: dict[model.SlotId, Flow] = {}
        self._accelerators = {
            name: model.Accelerator(name=name, **profile)
            for name, profile in cluster["accelerators"].items()
        }
        self._hosts = [
            make_host(number, cluster) for number in range(cluster["hosts"])
        ]
        self._slots = {
            slot.id: slot for host in self._hosts for slot in host.slots()
        }

    def run(self, jobs: abc.Sequence[model.Job]) -> None:
        """Run jobs to the end of the last one."""
        waiting = {job.id: job for job in jobs}
        to_come = sorted(jobs, key=lambda job: (job.arrival_s, job.id))
        batch: list[events.Event] = [
            events.AcceleratorsChanged(tuple(self._accelerators.values())),
            *(events.HostUp(host) for host in self._hosts),
        ]
        now = 0.0
        self.pool.step(batch, now)
        while to_come or self._flows:
            now = self._advance(now, to_come)
            batch = list(self._complete(now))
            while to_come and to_come[0].arrival_s <= now:
                batch.append(events.JobSubmitted(to_come.pop(0)))
            for order in self.pool.step(batch, now):
                if isinstance(order, instructions.Program):
                    self._start(waiting.pop(order.job_id), order, now)
            self._share()

    def _advance(self, now: float, to_come: list[model.Job]) -> float:
        end_s = min(
            (
                now + flow.left_bytes / flow.rate_bytes_per_s
                for flow in self._flows.values()
            ),
            default=math.inf,
        )
        if to_come:
            end_s = min(end_s, to_come[0].arrival_s)
        for flow in self._flows.values():
            flow.left_bytes -= flow.rate_bytes_per_s * (end_s - now)
        return end_s

    def _complete(self, now: float) -> abc.Iterator[events.Event]:
        for slot_id, flow in sorted(self._flows.items()):
            if not flow.is_done(now):
                continue
            del self._flows[slot_id]
            self.finished[flow.job.id] = {
                "id": flow.job.id,
                "start_s": flow.start_s,
                "finish_s": now,
                "host": flow.slot.host_id,
                "slot": flow.slot.number,
                "local": flow.slot.host_id == flow.job.host_id,
            }
            yield events.SlotReleased(slot_id, flow.generation)

    def _start(
        self, job: model.Job, order: instructions.Program, now: float
    ) -> None:
        slot = self._slots[order.slot_id]
        self._flows[slot.id] = Flow(
            job, slot, order.generation, now, job.claimed_bytes
        )

    def _share(self) -> None:
        """Give each flow its max-min fair rate."""
        hosts = len(self._hosts)
        flows = list(self._flows.values())
        rates = fairness.max_min_rates(
            [self._profile(flow).peak_bytes_per_s for flow in flows],
            [self._uses(flow, hosts) for flow in flows],
            [self._cluster["dma_bytes_per_s"]] * hosts
            + [self._cluster["nic_bytes_per_s"]] * 2 * hosts,
        )
        for flow, rate in zip(flows, rates, strict=True):
            flow.rate_bytes_per_s = rate

    def _profile(self, flow: Flow) -> model.Accelerator:
        return self._accelerators[flow.job.accelerator]

    def _uses(self, flow: Flow, hosts: int) -> list[tuple[int, float]]:
        """DMA pipes come first, then egress, then ingress."""
        source, target = flow.job.host_id, flow.slot.host_id
        if source == target:
            return [(target, 1.0)]
        back = self._profile(flow).return_ratio
        return [
            (target, 1.0),
            (hosts + source, 1.0),
            (2 * hosts + target, 1.0),
            (hosts + target, back),
            (2 * hosts + source, back),
        ]


def make_host(
    number: int, cluster: abc.Mapping[str, typing.Any]
) -> model.HostSpec:
    """One of a scenario's hosts, with a board if it has one."""
    per_device = cluster["slots_per_device"]
    device = model.DeviceSpec(
        id=number,
        host_id=number,
        name="board0",
        dma_bytes_per_s=cluster["dma_bytes_per_s"],
        slots=tuple(
            model.SlotSpec(
                id=number * per_device + place,
                device_id=number,
                host_id=number,
                number=place,
                shape="any",
            )
            for place in range(per_device)
        ),
    )
    return model.HostSpec(
        id=number,
        name=f"host{number}",
        nic_bytes_per_s=cluster["nic_bytes_per_s"],
        devices=(device,) if number in cluster["fpga_hosts"] else (),
    )


def load(path: pathlib.Path) -> dict[str, typing.Any]:
    """Read a scenario file."""
    scenario: dict[str, typing.Any] = json.loads(path.read_text())
    assert scenario["format"] == "fpgapool-scenario/1"
    return scenario


def run_policy(
    scenario: abc.Mapping[str, typing.Any], policy: str
) -> dict[int, dict[str, typing.Any]]:
    """Run a scenario's jobs under one of its policies.

    :returns: by job id, when and where each ran, as files write it.
    """
    options = dict(scenario["policies"][policy], slot_choice="index")
    if policy in ("ra", "wra"):
        options["offer_order"] = "index"
    pool = state.PoolState(FACTORIES[policy](options, 0), wakeups=False)
    fluid = FluidPool(scenario["cluster"], pool)
    fluid.run(
        [
            model.Job(
                id=job["id"],
                host_id=job["host"],
                accelerator=job["accelerator"],
                claimed_bytes=job["size_bytes"],
                arrival_s=job["arrival_s"],
            )
            for job in scenario["jobs"]
        ]
    )
    pool.check_invariants()
    return fluid.finished
