# SPDX-License-Identifier: Apache-2.0

"""The engines, on clusters small enough to compute by hand."""

import importlib
import json
import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from fpgapool.sim import simulation
from fpgapool.sim.engines import base
from fpgapool.sim.engines import chunk
from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import fluid
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from tests.harness import waiting
from tests.unit.sim import commands

MIB = 2**20


def make_cluster(**members: object) -> scenarios.Cluster:
    """Two hosts, the first one with a device."""
    profiles = {"aes": scenarios.AcceleratorProfile(1e9)}
    defaults = {"hosts": 2, "fpga_hosts": (0,), "accelerators": profiles}
    return scenarios.Cluster(**{**defaults, **members})  # type: ignore[arg-type]


def make_transfer(
    source: int | None, size_bytes: float = 1e9, return_ratio: float = 0.0
) -> base.Transfer:
    return base.Transfer(source, size_bytes, 1e9, return_ratio)


def run_alone(engine: base.Engine, transfer: base.Transfer) -> float:
    """How long a transfer takes on an idle cluster, in seconds."""
    slot = base.Slot(number=0, device=0, host=0, place=0)
    engine.start(slot, transfer, 0.0)
    engine.settle(0.0)
    now, done = engine.advance(1e9)
    assert done == [0]
    return now


def test_slots_are_numbered_over_all_hosts() -> None:
    cluster = make_cluster(
        hosts=4,
        fpga_hosts=(3, 1),
        slots_per_device=1,
        host_overrides={3: scenarios.HostOverride(slots_per_device=2)},
    )
    assert base.slots_of(cluster) == [
        base.Slot(0, 0, 1, 0),
        base.Slot(1, 1, 3, 0),
        base.Slot(2, 1, 3, 1),
    ]


@pytest.mark.parametrize(
    ("source", "return_ratio", "expected_s"),
    [
        (0, 4.0, 1.0),  # local: the DMA pipe and the slot, no NIC
        (1, 0.0, 1.0),
        (1, 2.0, 1.6),  # 2 GB come back through 1.25 GB/s
        (None, 2.0, 1.6),  # the slot's own host is the bottleneck
    ],
)
def test_fluid_alone(
    source: int | None, return_ratio: float, expected_s: float
) -> None:
    engine = fluid.FluidEngine(make_cluster())
    transfer = make_transfer(source, return_ratio=return_ratio)
    assert run_alone(engine, transfer) == pytest.approx(expected_s)


def test_each_direction_of_a_nic_is_shared_apart() -> None:
    engine = fluid.FluidEngine(
        make_cluster(
            fpga_hosts=(0, 1),
            slots_per_device=1,
            host_overrides={1: scenarios.HostOverride(nic_bytes_per_s=5e8)},
        )
    )
    engine.start(base.Slot(0, 0, 0, 0), make_transfer(1), 0.0)
    engine.start(base.Slot(1, 1, 1, 0), make_transfer(0), 0.0)
    engine.settle(0.0)
    assert list(engine.rates()) == [5e8, 5e8]
    assert engine.advance(1e9) == (pytest.approx(2.0), [0, 1])


def test_who_looks_often_sees_the_same_ends() -> None:
    def ends(step_s: float) -> list[tuple[float, list[int]]]:
        engine = fluid.FluidEngine(make_cluster())
        found, now = [], 0.0
        for number, size_bytes in enumerate((1e9, 3e9, 2e9)):
            slot = base.Slot(number, 0, 0, number)
            engine.start(slot, make_transfer(1, size_bytes), now)
        engine.settle(now)
        while len(found) < 3:
            now, done = engine.advance(now + step_s)
            if done:
                found.append((now, done))
            engine.settle(now)
        return found

    assert ends(1e9) == [
        (pytest.approx(now), done)
        for now, done in ((2.4, [0]), (4.0, [2]), (5.0, [1]))
    ]
    for (now, done), often in zip(ends(1e9), ends(0.25), strict=True):
        assert often == (pytest.approx(now, abs=1e-9), done)


def test_flows_are_not_looked_at_before_one_can_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = fluid.FluidEngine(make_cluster())
    engine.start(base.Slot(0, 0, 0, 0), make_transfer(0), 0.0)
    engine.settle(0.0)
    assert engine.advance(0.1) == (0.1, [])
    advance = engine._advance
    monkeypatch.delattr(engine, "_advance")
    for now in (0.2, 0.9):
        engine.settle(now)
        assert engine.advance(now) == (now, [])
    monkeypatch.setattr(engine, "_advance", advance, raising=False)
    assert engine.advance(1.0) == (pytest.approx(1.0), [0])


def test_a_chunk_takes_three_stages_one_after_the_other() -> None:
    cluster = make_cluster(nic_bytes_per_s=1e9)
    transfer = make_transfer(1, size_bytes=MIB, return_ratio=1.0)
    took_s = run_alone(chunk.ChunkEngine(cluster), transfer)
    assert took_s == pytest.approx(3 * MIB / 1e9)


def test_chunks_overlap_within_the_window() -> None:
    """All stages at 1 GB/s: n chunks take n + 2 steps, or 3 n without."""
    cluster = make_cluster(nic_bytes_per_s=1e9)
    transfer = make_transfer(1, size_bytes=10 * MIB, return_ratio=1.0)
    step_s = MIB / 1e9
    for window, steps in ((1, 30), (3, 12), (8, 12)):
        engine = chunk.ChunkEngine(cluster, chunk_bytes=MIB, window=window)
        assert run_alone(engine, transfer) == pytest.approx(steps * step_s)


def test_the_last_chunk_is_smaller() -> None:
    engine = chunk.ChunkEngine(make_cluster(), chunk_bytes=MIB)
    transfer = make_transfer(0, size_bytes=2.5 * MIB)
    assert run_alone(engine, transfer) == pytest.approx(2.5 * MIB / 1e9)


def order_of_starts(engine: str, *arrivals_s: float) -> list[int]:
    """Simulate jobs for one slot that sjf gives to the smallest.

    :param arrivals_s: of the jobs 0, 1 and so on, each smaller than the ones
        before.
    """
    scenario = scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=make_cluster(slots_per_device=1),
        strategies={"sjf": scenarios.StrategyOptions()},
        jobs=[
            scenarios.JobSpec(
                id=number,
                host=0,
                size_bytes=(3 - number) * 1e8,
                arrival_s=arrival_s,
                accelerator="aes",
            )
            for number, arrival_s in enumerate(arrivals_s)
        ],
    )
    found = simulation.run(scenario, "sjf", engine=engine)
    for job, outcome in zip(scenario.jobs, found, strict=True):
        assert outcome.start_s >= job.arrival_s
    return [job.id for job in sorted(found, key=lambda each: each.start_s)]


@pytest.mark.parametrize("engine", ["fluid", "chunk"])
@pytest.mark.parametrize("at_s", [0.0, 0.3, 1e6])
@pytest.mark.parametrize("steps", [-2, -1, 0, 1, 2])
def test_what_falls_together_is_one_instant(
    engine: str, at_s: float, steps: int
) -> None:
    """The order of a sum must not decide who gets a slot."""
    end_s = at_s + 0.3
    moved_s = end_s
    for _ in range(abs(steps)):
        moved_s = math.nextafter(moved_s, math.copysign(math.inf, steps))
    # An end, and the arrival of a job that goes before the waiting one.
    assert order_of_starts(engine, at_s, at_s + 0.1, moved_s) == [0, 2, 1]
    # Two arrivals.
    assert order_of_starts(engine, end_s, moved_s) == [1, 0]


@pytest.mark.parametrize("engine", ["fluid", "chunk"])
def test_a_nanosecond_is_another_instant(engine: str) -> None:
    assert order_of_starts(engine, 0.0, 0.1, 0.3 + 1e-9) == [0, 1, 2]
    assert order_of_starts(engine, 0.3, 0.3 + 1e-9) == [0, 1]


@pytest.mark.parametrize("members", [{"window": 0}, {"chunk_bytes": 0}])
def test_no_chunk_or_no_window(members: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        chunk.ChunkEngine(make_cluster(), **members)


def test_engines_agree_on_average() -> None:
    scenario = scenario_files.read(commands.LARGEST_CASE)
    for strategy in scenario.strategies:
        fluid_jobs = simulation.run(scenario, strategy)
        chunk_jobs = simulation.run(scenario, strategy, engine="chunk")
        fluid_s = sum(job.finish_s for job in fluid_jobs)
        chunk_s = sum(job.finish_s for job in chunk_jobs)
        assert chunk_s == pytest.approx(fluid_s, rel=0.1)


def test_without_numba_the_results_are_the_same() -> None:
    """Bit for bit, in a process that cannot import it.

    The others compile their loops from the first job on, and in the middle.
    """
    program = textwrap.dedent(
        """
        import json, pathlib, sys
        if sys.argv[1] == "without":
            sys.modules["numba"] = None
        from fpgapool.sim import simulation
        from fpgapool.sim.inputs import scenario_files
        from fpgapool.sim.engines import compiling
        compiling.PLAIN_STEPS = int(sys.argv[3])
        read = scenario_files.read(pathlib.Path(sys.argv[2]))
        print(json.dumps([
            [job.id, job.start_s.hex(), job.finish_s.hex(), job.slot]
            for engine in ("fluid", "chunk")
            for job in simulation.run(read, "wra", engine=engine)
        ]))
        assert bool(sys.modules.get("numba")) == (sys.argv[1] == "with")
        """
    )
    case = str(commands.LARGEST_CASE)
    results = [
        subprocess.run(
            [sys.executable, "-c", program, how, case, steps],
            check=True,
            capture_output=True,
            text=True,
            timeout=waiting.COMMAND_LIMIT_S,
        ).stdout
        for how, steps in (("with", "0"), ("with", "50"), ("without", "0"))
    ]
    assert results[0] == results[1] == results[2]
    assert json.loads(results[0])


def test_compiled_code_needs_no_place_for_its_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caching = importlib.import_module("numba.core.caching")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    def double(vector: list[int]) -> None:
        for at in range(len(vector)):
            vector[at] *= 2

    vector = np.array([1, 2])
    compiling.compiled(double)(vector)
    assert vector.tolist() == [2, 4]
