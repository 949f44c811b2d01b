# SPDX-License-Identifier: Apache-2.0

"""The time for an event, beside SimGrid's on the same flows in the same run.

An event is a flow that starts or ends. The flows are those of a simulation
under wra, without the scheduler, which has decided already. SimGrid is used
from C++, with one actor for all flows; that it updates only what a change
concerns is its default. Neither side's preparations are in the time.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
from collections.abc import Iterator

import rich.console

from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from tests.benchmarks import measure
from tests.benchmarks import report
from tests.benchmarks import sim_clusters
from tests.simgrid import flows

TITLE = "Time per event, on the same flows"
UNIT = "µs"
AXIS = "hosts, 50 jobs each"

_NAME = "sim_simgrid"
_STRATEGY = "wra"
_HOSTS = (32, 100, 316)
# On a smaller cluster, what is called from Python takes longer than sharing.
_MUST_NOT_BE_SLOWER_FROM = 100
_JOBS_PER_HOST = 50
_WIDTH = 140


def rows(repetitions: int) -> Iterator[measure.Row]:
    """For each size the fluid engine, in turns with SimGrid, and SimGrid."""
    sim_clusters.warm_up()
    for hosts in _HOSTS:
        size = sim_clusters.Size(hosts, _JOBS_PER_HOST)
        scenario = sim_clusters.make(size, _STRATEGY)
        outcomes = sim_clusters.run(scenario)
        flow_list = flows.transcribe(scenario, outcomes)
        samples, others = [], []
        for _ in range(repetitions):
            samples.append(_replay(scenario, outcomes, size))
            others.append(_run_simgrid(flow_list, size))
        yield measure.Row(
            f"fluid engine: {size}",
            UNIT,
            samples,
            floor="SimGrid",
            floor_samples=others,
            point=measure.Point("fluid engine", AXIS, hosts),
        )
        yield measure.Row(
            f"SimGrid: {size}",
            UNIT,
            others,
            point=measure.Point("SimGrid", AXIS, hosts),
        )


def _replay(
    scenario: scenarios.Scenario,
    outcomes: list[schedules.JobOutcome],
    size: sim_clusters.Size,
) -> measure.Sample:
    replay = flows.Replay(scenario, outcomes)
    with measure.stopwatch() as watch:
        replay.run()
    return watch.cost_us(size.events)


def _run_simgrid(
    flow_list: flows.FlowList, size: sim_clusters.Size
) -> measure.Sample:
    with measure.stopwatch() as watch:
        answer = flows.run_simgrid(flow_list)
    return measure.Sample(
        1e6 * answer.cpu_s / size.events, watch.wall_s, answer.cpu_s
    )


def main() -> int:
    """Compare, and say whether the fluid engine is as fast everywhere."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simgrid", description=__doc__
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("bench-out")
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found = list(rows(args.repetitions))
    console = rich.console.Console()
    if not console.is_terminal:
        console = rich.console.Console(width=_WIDTH)
    console.print(report.table(TITLE, found))
    report.draw(TITLE, found, args.out / f"{_NAME}.png")
    report.save(found, args.out / f"{_NAME}.json")
    slower = [
        row.name
        for row in found
        if row.floor
        and row.point
        and row.point.x >= _MUST_NOT_BE_SLOWER_FROM
        and statistics.median(row.ratios) > 1
    ]
    if slower:
        console.print(f"slower than SimGrid: {'; '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
