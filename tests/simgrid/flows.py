# SPDX-License-Identifier: Apache-2.0

"""The flows of a simulation, as SimGrid takes them, and as our engine does.

Where a job has its slot and since when is what our scheduler decided; only
when it ends is computed, by the program ``flows.cpp`` with SimGrid or by the
fluid engine.
"""

from __future__ import annotations

import math
import pathlib
import subprocess
import typing
from collections.abc import Sequence

from fpgapool.sim.engines import base
from fpgapool.sim.engines import fluid
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules

PROGRAM = pathlib.Path(__file__).parents[2] / "build" / "simgrid-flows"

_LIMIT_S = 600


class Flow(typing.NamedTuple):
    """What has to be carried for a job.

    :ivar route: number of the links that it crosses.
    """

    start_s: float
    size_bytes: int
    route: int


class FlowList(typing.NamedTuple):
    """Links, and what crosses them.

    :ivar flows: in the order of the scenario's jobs.
    """

    capacities_bytes_per_s: list[float]
    routes: list[tuple[int, ...]]
    flows: list[Flow]


class Answer(typing.NamedTuple):
    """What SimGrid computed.

    :ivar cpu_s: processor time of the simulation itself.
    :ivar finishes_s: when each flow ended, in the order of the list.
    """

    cpu_s: float
    finishes_s: list[float]


def transcribe(
    scenario: scenarios.Scenario, outcomes: Sequence[schedules.JobOutcome]
) -> FlowList:
    """Say which links each job crossed.

    A flow of SimGrid takes the same from each of its links. So a job either
    has no results to send back or as many bytes as input: then its flow
    crosses the links of both directions. What a slot takes in at most is a
    link that only its own jobs cross, one after the other; the same slot has
    one for each accelerator.

    :param outcomes: of the scenario's jobs, in its order.
    :raises ValueError: for any other return ratio, and if a size is not of
        whole bytes, but for what rounding made of it.
    """
    pipes = base.Pipes(scenario.cluster)
    slots = _slots_by_place(scenario.cluster)
    capacities = list(pipes.capacities_bytes_per_s)
    peaks: dict[tuple[int, str], int] = {}
    routes: dict[tuple[int, ...], int] = {}
    flows = []
    for job, outcome in zip(scenario.jobs, outcomes, strict=True):
        slot = slots[outcome.host, outcome.slot]
        profile = scenario.cluster.accelerators[job.accelerator]
        peak = peaks.setdefault(
            (slot.number, job.accelerator), len(capacities)
        )
        if peak == len(capacities):
            capacities.append(profile.peak_bytes_per_s)
        links = (
            peak,
            pipes.dma(slot.device),
            *_nics(pipes, job.host, slot.host, profile.return_ratio),
        )
        size_bytes = round(job.size_bytes)
        if not math.isclose(size_bytes, job.size_bytes, rel_tol=1e-12):
            raise ValueError(f"job {job.id}: {job.size_bytes} bytes")
        flows.append(
            Flow(
                outcome.start_s,
                size_bytes,
                routes.setdefault(links, len(routes)),
            )
        )
    return FlowList(capacities, list(routes), flows)


def _slots_by_place(
    cluster: scenarios.Cluster,
) -> dict[tuple[int, int], base.Slot]:
    return {(slot.host, slot.place): slot for slot in base.slots_of(cluster)}


def _nics(
    pipes: base.Pipes, source: int | None, host: int, return_ratio: float
) -> list[int]:
    """The network links between a job's host and its slot's."""
    if return_ratio not in (0.0, 1.0):
        raise ValueError(f"SimGrid has no return ratio of {return_ratio}")
    if source == host:
        return []
    links = [pipes.ingress(host)]
    if source is not None:
        links.append(pipes.egress(source))
    if return_ratio:
        links.append(pipes.egress(host))
        if source is not None:
            links.append(pipes.ingress(source))
    return links


def run_simgrid(flow_list: FlowList) -> Answer:
    """Have SimGrid compute when flows end.

    :raises RuntimeError: if its program was not built, or fails.
    """
    if not PROGRAM.exists():
        raise RuntimeError(
            f"there is no {PROGRAM}: 'make test-simgrid' makes it"
        )
    done = subprocess.run(
        [PROGRAM],
        input=_as_text(flow_list),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    if done.returncode:
        raise RuntimeError(f"{PROGRAM} failed: {done.stderr[-4000:]}")
    cpu_s, *finishes_s = map(float, done.stdout.split())
    return Answer(cpu_s, finishes_s)


def _as_text(flow_list: FlowList) -> str:
    """As ``flows.cpp`` reads it; repr keeps all digits."""
    lines = [
        str(len(flow_list.capacities_bytes_per_s)),
        *map(repr, flow_list.capacities_bytes_per_s),
        str(len(flow_list.routes)),
        *(
            f"{len(links)} {' '.join(map(str, links))}"
            for links in flow_list.routes
        ),
        str(len(flow_list.flows)),
        *(
            f"{flow.start_s!r} {flow.size_bytes} {flow.route}"
            for flow in flow_list.flows
        ),
    ]
    return "\n".join(lines) + "\n"


class Replay:
    """The same flows through the fluid engine.

    :param outcomes: of the scenario's jobs, in its order.
    """

    def __init__(
        self,
        scenario: scenarios.Scenario,
        outcomes: Sequence[schedules.JobOutcome],
    ) -> None:
        slots = _slots_by_place(scenario.cluster)
        profiles = scenario.cluster.accelerators
        self._engine = fluid.FluidEngine(scenario.cluster)
        self._finishes_s = [math.nan] * len(outcomes)
        self._job_in: dict[int, int] = {}
        # Latest first, so that the next one is at the end.
        self._to_come = [
            (
                outcomes[number].start_s,
                number,
                slots[outcomes[number].host, outcomes[number].slot],
                base.Transfer(
                    scenario.jobs[number].host,
                    scenario.jobs[number].size_bytes,
                    profiles[
                        scenario.jobs[number].accelerator
                    ].peak_bytes_per_s,
                    profiles[scenario.jobs[number].accelerator].return_ratio,
                ),
            )
            for number in sorted(
                range(len(outcomes)),
                key=lambda number: outcomes[number].start_s,
                reverse=True,
            )
        ]

    def run(self) -> list[float]:
        """Return when each job ended, in the scenario's order."""
        engine, to_come, job_in = self._engine, self._to_come, self._job_in
        while to_come or job_in:
            now, done = engine.advance(to_come[-1][0] if to_come else math.inf)
            for slot_number in done:
                self._finishes_s[job_in.pop(slot_number)] = now
            while to_come and to_come[-1][0] <= now:
                _, number, slot, transfer = to_come.pop()
                job_in[slot.number] = number
                engine.start(slot, transfer, now)
            engine.settle(now)
        return self._finishes_s
