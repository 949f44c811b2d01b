# SPDX-License-Identifier: Apache-2.0

"""Makes a scenario from the options of a workload, or from a trace."""

from __future__ import annotations

import argparse
import typing
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.sim import errors
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.inputs import scenario_options
from fpgapool.sim.inputs import traces
from fpgapool.sim.inputs import workloads
from fpgapool.vocabulary import shapes

_BY_PLACE = ("ra", "wra")
_PLACEMENT = ("remote_limit", "skip_limit", "wait_s_per_byte", "offer_order")
_COUNTS = ("jobs_per_host", "jobs", "duration_s")


def make_scenario(
    options: Iterable[str], seed: int, source: str
) -> scenarios.Scenario:
    """Make a scenario as ``fpgapool-sim generate`` would write it.

    :param options: options of its command line, without seed and output.
    :raises errors.InputError: for invalid options.
    """
    parser = _Parser(source)
    scenario_options.add(parser)
    arguments = parser.parse_args([*options, f"--seed={seed}"])
    return make(arguments, source)[0]


class _Parser(argparse.ArgumentParser):
    def __init__(self, source: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._source = source

    def error(self, message: str) -> typing.NoReturn:
        raise errors.InputError(self._source, "", message)


def make(
    arguments: argparse.Namespace, source: str
) -> tuple[scenarios.Scenario, list[str]]:
    """Make a scenario, and lines that describe the expected jobs.

    :raises errors.InputError: if the options are invalid.
    """
    if arguments.trace is not None:
        _check_alone(arguments)
    cluster = _cluster(arguments)
    strategies = _strategies(arguments)
    if arguments.trace is None:
        jobs, note, expected = _synthetic_jobs(arguments, cluster)
    else:
        jobs = traces.read(
            arguments.trace, cluster.hosts, cluster.accelerators
        )
        note, expected = f"trace {arguments.trace.name}", []
    scenario = scenarios.Scenario(
        format=scenarios.FORMAT,
        name=arguments.name,
        note=note,
        wakeups=arguments.wakeups,
        cluster=cluster,
        strategies=strategies,
        jobs=jobs,
    )
    scenario_files.check_all(scenario, source)
    return scenario, expected


# -- the cluster -----------------------------------------------------------


def _cluster(arguments: argparse.Namespace) -> scenarios.Cluster:
    try:
        boards = workloads.spread_boards(arguments.hosts, arguments.boards)
    except ValueError as error:
        raise errors.InputError("--boards", "", str(error)) from error
    return scenarios.Cluster(
        hosts=arguments.hosts,
        fpga_hosts=boards,
        accelerators=_accelerators(arguments),
        slots_per_device=arguments.slots_per_device,
        dma_bytes_per_s=arguments.dma_bytes_per_s,
        nic_bytes_per_s=arguments.nic_bytes_per_s,
        reconfiguration_s=arguments.reconfiguration_s,
        power=_power(arguments),
    )


def _accelerators(
    arguments: argparse.Namespace,
) -> dict[str, scenarios.AcceleratorProfile]:
    peaks = dict(_pairs("peak_bytes_per_s", arguments.peak_bytes_per_s))
    return {
        name: scenarios.AcceleratorProfile(peak, arguments.return_ratio)
        for name, peak in (peaks or workloads.PEAKS_BYTES_PER_S).items()
    }


def _power(arguments: argparse.Namespace) -> scenarios.Power | None:
    given = {
        name: getattr(arguments, name)
        for name in ("device_idle_w", "device_active_w", "host_w")
        if getattr(arguments, name) is not None
    }
    return scenarios.Power(**given) if given else None


# -- the strategies ----------------------------------------------------------


def _strategies(
    arguments: argparse.Namespace,
) -> dict[str, scenarios.StrategyOptions]:
    strategies = {
        name: _strategy(name, arguments)
        for name in arguments.strategy or scenario_options.STRATEGIES
    }
    for name in strategies:
        simulation.make_strategy(
            strategies, name, arguments.seed, "options of strategies"
        )
    return strategies


def _strategy(
    name: str, arguments: argparse.Namespace
) -> scenarios.StrategyOptions:
    options: dict[str, typing.Any] = {"slot_choice": arguments.slot_choice}
    if name in _BY_PLACE:
        for option in _PLACEMENT:
            options[option] = getattr(arguments, option)
    return scenarios.StrategyOptions(**options)


# -- the jobs --------------------------------------------------------------


def _check_alone(arguments: argparse.Namespace) -> None:
    """Reject options whose values come from the trace."""
    given = [
        name
        for name in scenario_options.DEFAULTS
        if getattr(arguments, name) is not None
    ]
    given += ["accelerator"] if arguments.accelerator else []
    if given:
        raise errors.InputError(
            _option(given[0]), "", "cannot be used with --trace"
        )


def _synthetic_jobs(
    arguments: argparse.Namespace, cluster: scenarios.Cluster
) -> tuple[list[scenarios.JobSpec], str, list[str]]:
    """Make the jobs, a note, and lines that describe the expected jobs."""
    chosen = {
        name: default
        if getattr(arguments, name) is None
        else getattr(arguments, name)
        for name, default in scenario_options.DEFAULTS.items()
    }
    if not any(chosen[name] for name in ("jobs", "duration_s")):
        chosen["jobs_per_host"] = (
            chosen["jobs_per_host"] or scenario_options.JOBS_PER_HOST
        )
    workload = _workload(arguments, chosen, cluster)
    try:
        jobs = workloads.make_jobs(workload, cluster, arguments.seed)
    except ValueError as error:
        raise errors.InputError("workload", "", str(error)) from error
    note = (
        f"sizes {_describe(chosen)}; load {workload.load:g}; "
        f"seed {arguments.seed}"
    )
    rate = workload.rate_per_s(cluster)
    span_s = workload.duration_s or len(jobs) / rate
    expected = [
        f"sizes: {_describe(chosen)}",
        f"requested: load {workload.load:.4g}, mean size "
        f"{workload.sizes.mean_bytes / 1e6:.1f} MB, {rate:.4g} jobs/s, "
        f"arrivals for {span_s:.1f} s",
    ]
    return jobs, note, expected


def _workload(
    arguments: argparse.Namespace,
    chosen: dict[str, typing.Any],
    cluster: scenarios.Cluster,
) -> workloads.Workload:
    weights = _mix(arguments.accelerator, cluster)
    host_weights = _host_weights(chosen["host_weight"])
    tenants = _tenants(chosen["tenant"])
    distribution = _distribution(arguments, chosen)
    load = chosen["load"]
    if chosen["arrivals_per_s"] is not None:
        bytes_per_s = chosen["arrivals_per_s"] * distribution.mean_bytes
        load = bytes_per_s / workloads.capacity_bytes_per_s(cluster)
    try:
        return workloads.Workload(
            sizes=distribution,
            load=load,
            accelerators=weights,
            host_weights=host_weights,
            tenants=tenants,
            bias=chosen["bias"],
            **{name: chosen[name] for name in _COUNTS},
        )
    except ValueError as error:
        raise errors.InputError("workload", "", str(error)) from error


def _distribution(
    arguments: argparse.Namespace, chosen: dict[str, typing.Any]
) -> distributions.SizeDistribution:
    kind: str = chosen["sizes"]
    make, used = scenario_options.SIZES[kind]
    for _, names in scenario_options.SIZES.values():
        for name in names:
            if getattr(arguments, name) is not None and name not in used:
                raise errors.InputError(
                    _option(name), "", f"cannot be used with --sizes {kind}"
                )
    if kind == "empirical" and chosen["sizes_file"] is None:
        raise errors.InputError("--sizes", kind, "requires --sizes-file")
    try:
        return make(*(chosen[name] for name in used))
    except ValueError as error:
        raise errors.InputError("--sizes", kind, str(error)) from error


def _describe(chosen: dict[str, typing.Any]) -> str:
    kind = chosen["sizes"]
    options = []
    for name in scenario_options.SIZES[kind][1]:
        value = chosen[name]
        text = value.name if name == "sizes_file" else f"{value:g}"
        options.append(f"{_option(name)} {text}")
    return f"{kind} ({', '.join(options)})"


def _mix(given: Sequence[str], cluster: scenarios.Cluster) -> dict[str, float]:
    if not given:
        return dict.fromkeys(cluster.accelerators, 1.0)
    weights = dict(
        _pairs(
            "accelerator",
            [text if "=" in text else f"{text}=1" for text in given],
        )
    )
    for name in weights:
        if name not in cluster.accelerators:
            raise errors.InputError(
                "--accelerator",
                name,
                f"unknown accelerator {name!r}; known accelerators: "
                f"{', '.join(sorted(cluster.accelerators))}",
            )
    return weights


def _host_weights(given: Iterable[str]) -> dict[int, float]:
    weights: dict[int, float] = {}
    for name, weight in _pairs("host_weight", given):
        if not (name.isascii() and name.isdecimal()):
            raise errors.InputError(
                "--host-weight", name, "is not a host number"
            )
        weights[int(name)] = weight
    return weights


def _tenants(given: Iterable[str]) -> list[workloads.Tenant]:
    tenants: list[workloads.Tenant] = []
    for text in given:
        start, _, boards = text.partition(":")
        [(name, share)] = _pairs("tenant", [start])
        board_share = _number("tenant", text, boards) if boards else None
        tenants.append(workloads.Tenant(name, share, board_share))
    return tenants


# -- options ---------------------------------------------------------------


def _pairs(name: str, given: Iterable[str]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for text in given:
        key, is_there, value = text.partition("=")
        if not (key and is_there):
            raise errors.InputError(
                _option(name), text, "must have the form NAME=NUMBER"
            )
        if key in dict(found):
            raise errors.InputError(
                _option(name), text, f"duplicate name {key!r}"
            )
        found.append((key, _number(name, text, value)))
    return found


def _number(name: str, place: str, text: str) -> float:
    try:
        return screen.argument(float, shapes.number())(text)
    except argparse.ArgumentTypeError as error:
        raise errors.InputError(_option(name), place, str(error)) from None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
