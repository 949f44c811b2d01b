# SPDX-License-Identifier: Apache-2.0

"""Makes a scenario from the options of a workload, or from a trace."""

from __future__ import annotations

import argparse
import typing
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec

from fpgapool.accelerators import base as accelerators
from fpgapool.sim import errors
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import outages
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.inputs import scenario_options
from fpgapool.sim.inputs import workloads
from fpgapool.sim.inputs.traces import mapping
from fpgapool.sim.inputs.traces import reading
from fpgapool.sim.inputs.traces import table
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
    _check_trace_options(arguments)
    strategies = _strategies(arguments)
    if arguments.trace is None:
        cluster = _cluster(arguments, _peaks(arguments))
        jobs, note, expected = _synthetic_jobs(arguments, cluster)
    else:
        cluster, jobs, expected = _traced_jobs(arguments)
        note = f"trace {arguments.trace.name}"
    scenario = scenarios.Scenario(
        format=scenarios.FORMAT,
        name=arguments.name,
        note=note,
        wakeups=arguments.wakeups,
        cluster=cluster,
        strategies=strategies,
        jobs=jobs,
        outages=_outages(arguments, cluster, jobs),
    )
    scenario_files.check_all(scenario, source)
    return scenario, expected


# -- the cluster -----------------------------------------------------------


def _cluster(
    arguments: argparse.Namespace, peaks_bytes_per_s: Mapping[str, float]
) -> scenarios.Cluster:
    try:
        boards = workloads.spread_boards(arguments.hosts, arguments.boards)
    except ValueError as error:
        raise errors.InputError("--boards", "", str(error)) from error
    return scenarios.Cluster(
        hosts=arguments.hosts,
        fpga_hosts=boards,
        accelerators={
            name: scenarios.AcceleratorProfile(peak, arguments.return_ratio)
            for name, peak in peaks_bytes_per_s.items()
        },
        slots_per_device=arguments.slots_per_device,
        dma_bytes_per_s=arguments.dma_bytes_per_s,
        nic_bytes_per_s=arguments.nic_bytes_per_s,
        reconfiguration_s=arguments.reconfiguration_s,
        power=_power(arguments),
    )


def _peaks(arguments: argparse.Namespace) -> dict[str, float]:
    """Return the rates of the accelerators of synthetic jobs, in bytes/s."""
    given = dict(_pairs("peak_bytes_per_s", arguments.peak_bytes_per_s))
    if given:
        return given
    usual = workloads.PEAKS_BYTES_PER_S
    wanted = {text.partition("=")[0] for text in arguments.accelerator}
    more = _library() if wanted - set(usual) else {}
    return usual | {
        name: more[name] for name in sorted((wanted - set(usual)) & set(more))
    }


def _library() -> dict[str, float]:
    """Return the rates of the accelerators of this host, in bytes/s.

    :raises errors.InputError: if one of the operator's profiles is invalid.
    """
    try:
        profiles = accelerators.load_profiles()
    except accelerators.AcceleratorError as error:
        raise errors.InputError("accelerators", "", str(error)) from error
    return {
        name: profile.peak_bytes_per_s for name, profile in profiles.items()
    }


def _power(arguments: argparse.Namespace) -> scenarios.Power | None:
    given = {
        name: getattr(arguments, name)
        for name in ("device_idle_w", "device_active_w", "host_w")
        if getattr(arguments, name) is not None
    }
    return scenarios.Power(**given) if given else None


def _outages(
    arguments: argparse.Namespace,
    cluster: scenarios.Cluster,
    jobs: Iterable[scenarios.JobSpec],
) -> tuple[scenarios.Outage, ...]:
    """Draw the outages until the last arrival."""
    up_s, down_s = arguments.mean_up_s, arguments.mean_down_s
    if up_s is None and down_s is None:
        return ()
    if down_s is None:
        raise errors.InputError("--mean-up-s", "", "requires --mean-down-s")
    if up_s is None:
        raise errors.InputError("--mean-down-s", "", "requires --mean-up-s")
    until_s = max(job.arrival_s for job in jobs)
    count = len(cluster.fpga_hosts) * until_s / (up_s + down_s)
    if count > scenarios.MAX_OUTAGES:
        raise errors.InputError(
            "--mean-up-s",
            "",
            f"{count:.3g} outages exceed the limit of "
            f"{scenarios.MAX_OUTAGES:.0e}",
        )
    return outages.draw(
        cluster.fpga_hosts, up_s, down_s, until_s, arguments.seed
    )


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


def _check_trace_options(arguments: argparse.Namespace) -> None:
    """Reject options whose values come from the trace, or that need one."""
    rejected, reason = scenario_options.WITH_TRACE, "requires --trace"
    if arguments.trace is not None:
        rejected = tuple(
            name
            for name in scenario_options.DEFAULTS
            if name not in scenario_options.FOR_TRACES
        )
        reason = "cannot be used with --trace"
    for name in rejected:
        if getattr(arguments, name) is not None:
            raise errors.InputError(_option(name), "", reason)


def _traced_jobs(
    arguments: argparse.Namespace,
) -> tuple[scenarios.Cluster, list[scenarios.JobSpec], list[str]]:
    """Make the cluster and the jobs of a trace, and lines about them."""
    log = reading.read(
        arguments.trace,
        arguments.trace_format,
        renamed=_columns(arguments.column or ()),
        skips=bool(arguments.skip_incomplete),
    )
    given = dict(_pairs("peak_bytes_per_s", arguments.peak_bytes_per_s))
    peaks = {**_library(), **given}
    if arguments.other_peak_bytes_per_s is not None:
        for row in log.rows:
            if row.accelerator:
                peaks.setdefault(
                    row.accelerator, arguments.other_peak_bytes_per_s
                )
    names_own = any(row.accelerator for row in log.rows)
    if names_own and arguments.accelerator:
        raise errors.InputError(
            "--accelerator", "", "cannot be used: the trace names accelerators"
        )
    cluster = _cluster(arguments, peaks)
    mapped = mapping.make_jobs(
        log,
        cluster.hosts,
        arguments.slots_per_device * len(cluster.fpga_hosts),
        peaks,
        mapping.Options(
            weights=_trace_mix(arguments, cluster, given),
            jobs=arguments.jobs,
            load=arguments.load,
            max_gap_s=arguments.max_gap_s,
            min_run_s=arguments.min_run_s,
            sessions_per_job=arguments.sessions_per_job or 1,
            hash_hosts=bool(arguments.hash_hosts),
            hash_tenants=arguments.hash_tenants,
            seed=arguments.seed,
        ),
    )
    used = {job.accelerator for job in mapped.jobs}
    cluster = msgspec.structs.replace(
        cluster,
        accelerators={
            name: profile
            for name, profile in cluster.accelerators.items()
            if name in used
        },
    )
    return cluster, mapped.jobs, _describe_trace(mapped, arguments)


def _trace_mix(
    arguments: argparse.Namespace,
    cluster: scenarios.Cluster,
    given: Iterable[str],
) -> dict[str, float]:
    """Return the weights of the accelerators of jobs that name none."""
    if not arguments.accelerator:
        return dict.fromkeys(given or workloads.PEAKS_BYTES_PER_S, 1.0)
    weights = _mix(arguments.accelerator, cluster)
    try:
        workloads.check_weights(weights, "accelerators")
    except ValueError as error:
        raise errors.InputError("--accelerator", "", str(error)) from error
    return weights


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


def _columns(given: Iterable[str]) -> dict[str, str]:
    """Return what a table calls its columns."""
    found: dict[str, str] = {}
    for text in given:
        column, _, name = text.partition("=")
        if column not in table.COLUMNS or not name or column in found:
            raise errors.InputError(
                "--column",
                text,
                "must have the form NAME=COLUMN, with each NAME once; names: "
                f"{', '.join(table.COLUMNS)}",
            )
        found[column] = name
    return found


def _describe_trace(
    mapped: mapping.Mapped, arguments: argparse.Namespace
) -> list[str]:
    lines = [f"slots: load {mapped.load:.4g} at the accelerators' rates"]
    if mapped.left_out:
        lines.append(
            f"left out: {mapped.left_out} jobs that did not run or lack a "
            "value"
        )
    if mapped.wide:
        most = arguments.sessions_per_job or 1
        became = "1 session" if most == 1 else f"at most {most} sessions"
        lines.append(
            f"processors: {mapped.wide} jobs had more than 1; each became "
            f"{became} of its run time (--sessions-per-job)"
        )
    return lines


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
