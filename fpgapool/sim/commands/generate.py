# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim generate``: make a scenario from a workload or a trace."""

from __future__ import annotations

import argparse
import pathlib
import typing

from fpgapool.sim import files
from fpgapool.sim import screen
from fpgapool.sim.inputs import generating
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.inputs import scenario_options
from fpgapool.sim.inputs import workloads


def add_parser(subparsers: typing.Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "generate",
        help="make a scenario file",
        description="Make a scenario file from a synthetic workload or from a "
        "trace. The same options and seed give the same file.",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        required=True,
        metavar="SCENARIO",
        help="scenario file to write",
    )
    scenario_options.add(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write the scenario, and describe it.

    :raises errors.InputError: for invalid input.
    """
    files.check_writable(arguments.output)
    scenario, expected = generating.make(arguments, str(arguments.output))
    scenario_files.write(scenario, arguments.output)
    kind = "drawn" if arguments.trace is None else "trace"
    _show(arguments.output, scenario, expected, kind)


def _show(
    path: pathlib.Path,
    scenario: scenarios.Scenario,
    expected: list[str],
    kind: str,
) -> None:
    console = screen.make_console()
    cluster = scenario.cluster
    found = workloads.summary(cluster, scenario.jobs)
    load = found["load"]
    until_then = "" if load is None else f", load until then {load:.3f}"
    lines = [
        f"cluster: {cluster.hosts} hosts, {len(cluster.fpga_hosts)} boards "
        f"of {cluster.slots_per_device} slots, "
        f"{workloads.capacity_bytes_per_s(cluster) / 1e9:.1f} GB/s of DMA",
        *expected,
        f"{kind}: {found['jobs']} jobs, mean size "
        f"{found['mean_bytes'] / 1e6:.1f} MB, "
        f"{found['total_bytes'] / 1e6:,.0f} MB in all, last arrival after "
        f"{found['last_arrival_s']:.1f} s{until_then}",
        *(
            [f"outages: {len(scenario.outages)} of hosts with a board"]
            if scenario.outages
            else []
        ),
        f"strategies: {', '.join(scenario.strategies)}",
        f"written: {path}",
    ]
    for line in lines:
        screen.say(console, line)
