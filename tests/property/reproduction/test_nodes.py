# SPDX-License-Identifier: Apache-2.0

"""Hosts with cores do what their rules say, literally."""

from __future__ import annotations

import random
import typing

import hypothesis
import hypothesis.strategies as st
import pytest

from fpgapool import strategies
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from reproduction.models import nodes
from tests.property import fuzzing
from tests.property.reproduction import literal_nodes

CHUNK = 60e6


def draw_jobs(seed: int, count: int, gap_s: float) -> list[scenarios.JobSpec]:
    """Draw jobs, some with deadlines that no slot can keep."""
    draw = random.Random(seed)
    jobs = []
    now = 0.0
    for number in range(count):
        now += draw.expovariate(1 / gap_s)
        chunks = draw.uniform(0.05, 6)
        jobs.append(
            scenarios.JobSpec(
                id=number,
                host=0,
                size_bytes=chunks * CHUNK,
                arrival_s=now,
                accelerator="sobel",
                deadline_s=chunks * draw.uniform(40, 180) + 2.5,
            )
        )
    return jobs


def run(
    jobs: list[scenarios.JobSpec], node: literal_nodes.Node
) -> list[schedules.JobOutcome]:
    cluster = scenarios.Cluster(
        hosts=1,
        fpga_hosts=(0,),
        slots_per_device=node.slots,
        accelerators={
            "sobel": scenarios.AcceleratorProfile(
                peak_bytes_per_s=CHUNK / literal_nodes.SLOT_S,
                cpu_bytes_per_s=CHUNK / literal_nodes.CORE_S,
                quantum_bytes=CHUNK,
            )
        },
        cores_per_host=node.cores,
        attach_s=node.attach_s,
    )
    scenario = scenarios.Scenario(
        format=scenarios.FORMAT, cluster=cluster, strategies={}, jobs=jobs
    )
    if node.rule in ("random", "edf"):
        made = getattr(strategies, node.rule)({}, node.seed)
    else:
        made = strategies.hjf({"rule": node.rule}, node.seed)
    options = scenarios.StrategyOptions(
        preempt="fine" if node.fine else "none",
        deadline_action=typing.cast(typing.Any, node.action),
    )
    return nodes.run(scenario, made, options)


@fuzzing.examples(60)
@hypothesis.given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 12),
    gap_s=st.sampled_from([5.0, 60.0, 200.0]),
    node=st.builds(
        literal_nodes.Node,
        cores=st.integers(1, 6),
        slots=st.integers(1, 3),
        rule=st.sampled_from(["random", "edf", "hjf", "need"]),
        fine=st.booleans(),
        action=st.sampled_from(["continue", "kill", "early"]),
        attach_s=st.sampled_from([0.0, 1.0, 7.5]),
        seed=st.integers(0, 3),
    ),
)
def test_as_written(
    seed: int, count: int, gap_s: float, node: literal_nodes.Node
) -> None:
    specs = draw_jobs(seed, count, gap_s)
    expected = [
        literal_nodes.Job(
            spec.id,
            spec.arrival_s,
            spec.size_bytes / CHUNK,
            spec.arrival_s + (spec.deadline_s or 0.0),
        )
        for spec in specs
    ]
    node.run(expected)
    for spec, job, outcome in zip(
        specs, expected, run(specs, node), strict=True
    ):
        assert outcome.state == job.state
        assert outcome.finish_s == pytest.approx(job.end_s, abs=1e-5)
        assert outcome.core is not None
        assert outcome.core.slot_s == pytest.approx(job.slot_s, abs=1e-5)
        assert (outcome.core.host is not None) == job.has_core
        assert outcome.slot == job.last_slot
        done_bytes = spec.size_bytes - job.chunks * CHUNK
        assert outcome.core.done_bytes == pytest.approx(done_bytes, abs=20)
