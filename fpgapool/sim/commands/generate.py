# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim generate``: make a scenario from a workload or a trace."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.core import distributions
from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim import sizes
from fpgapool.sim import traces
from fpgapool.sim import workloads

STRATEGIES = ("fifo", "sjf", "wa", "ra", "wra")
_BY_SIZE = ("wa", "wra")
_BY_PLACE = ("ra", "wra")

#: Defaults of the options of a workload. argparse has None instead, so that
#: options that the user gave can be refused beside a trace.
_DEFAULTS: dict[str, typing.Any] = {
    "sizes": "exponential",
    "min_size_bytes": 20e6,
    "mean_size_bytes": 400e6,
    "max_size_bytes": 10e9,
    "alpha": 1.1,
    "median_size_bytes": 200e6,
    "sigma": 1.0,
    "sizes_file": None,
    "load": 0.8,
    "arrivals_per_s": None,
    "jobs_per_host": None,
    "jobs": None,
    "duration_s": None,
    "bias": 1.0,
    "host_weight": (),
    "tenant": (),
}
_JOBS_PER_HOST = 50
_COUNTS = ("jobs_per_host", "jobs", "duration_s")
#: Each kind of sizes with its distribution, and the options that it takes.
_SIZES: dict[
    str, tuple[Callable[..., distributions.SizeDistribution], tuple[str, ...]]
] = {
    "exponential": (
        distributions.Exponential,
        ("min_size_bytes", "mean_size_bytes"),
    ),
    "power-law": (
        distributions.BoundedPowerLaw,
        ("min_size_bytes", "max_size_bytes", "alpha"),
    ),
    "lognormal": (
        distributions.Lognormal,
        ("median_size_bytes", "sigma", "min_size_bytes", "max_size_bytes"),
    ),
    "empirical": (
        lambda path: distributions.Empirical(sizes.read(path)),
        ("sizes_file",),
    ),
}


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
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
        help="write this scenario file",
    )
    _add_content(parser)
    parser.set_defaults(run=run)


def _add_content(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the scenario."""
    parser.add_argument(
        "--seed",
        type=screen.seed,
        default=0,
        metavar="N",
        help="seed of all random numbers; default: 0",
    )
    parser.add_argument(
        "--name", default="", help="name of the scenario; default: none"
    )
    _add_cluster(parser.add_argument_group("cluster"))
    _add_workload(parser.add_argument_group("workload"))
    _add_strategies(parser.add_argument_group("strategies"))


def _add_number(
    group: argparse._ActionsContainer,
    option: str,
    default: object,
    text: str,
    kind: Callable[[str], object] = float,
) -> None:
    """Add an option whose value is a number; its help shows the default."""
    name = option.removeprefix("--").replace("-", "_")
    if name in _DEFAULTS:
        shown, default = _DEFAULTS[name], None
    else:
        shown = default
    if shown is not None:
        text += f"; default: {shown:g}"
    group.add_argument(
        option,
        type=kind,
        metavar="N" if kind is int else "X",
        default=default,
        help=text,
    )


def _add_cluster(group: argparse._ArgumentGroup) -> None:
    for option, whole, text in (
        ("--hosts", 100, "number of hosts"),
        (
            "--boards",
            50,
            "number of boards, spread evenly over the hosts; a host has one "
            "at most",
        ),
        ("--slots-per-device", 4, "number of slots of each board"),
    ):
        _add_number(group, option, whole, text, int)
    for option, number, text in (
        (
            "--dma-bytes-per-s",
            2.1e9,
            "rate of a board's DMA pipe, which its slots share",
        ),
        (
            "--nic-bytes-per-s",
            1.25e9,
            "rate of a host's network card in each direction",
        ),
        (
            "--return-ratio",
            1.0,
            "bytes that each accelerator sends back per byte of input",
        ),
        (
            "--reconfiguration-s",
            0.0,
            "time to program another accelerator into a slot",
        ),
    ):
        _add_number(group, option, number, text)
    for option, text in (
        ("--device-idle-w", "power of a board while its slots are idle"),
        ("--device-active-w", "power of a board while all slots have jobs"),
        ("--host-w", "power of a host"),
    ):
        _add_number(
            group,
            option,
            None,
            f"{text}, in W; results have energies if any power is given; "
            "default: 0",
        )
    group.add_argument(
        "--peak-bytes-per-s",
        action="append",
        default=[],
        metavar="NAME=X",
        help="add an accelerator, and limit the input rate of a slot with it; "
        "may be repeated; default: "
        + ", ".join(
            f"{name}={peak:g}"
            for name, peak in workloads.PEAKS_BYTES_PER_S.items()
        ),
    )


def _add_workload(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trace",
        type=pathlib.Path,
        metavar="FILE.csv",
        help="read the jobs from this file, with columns arrival_s, host, "
        "size_bytes, accelerator and, if wanted, id and tenant",
    )
    group.add_argument(
        "--sizes",
        choices=sorted(_SIZES),
        help="distribution of the sizes; default: exponential",
    )
    for option, text in (
        ("--min-size-bytes", "smallest size, except for empirical sizes"),
        ("--mean-size-bytes", "exponential: the mean size"),
        ("--max-size-bytes", "power-law, lognormal: the largest size"),
        ("--alpha", "power-law: the exponent"),
        ("--median-size-bytes", "lognormal: the median before the limits"),
        ("--sigma", "lognormal: deviation of the natural logarithm"),
    ):
        _add_number(group, option, None, text)
    group.add_argument(
        "--sizes-file",
        type=pathlib.Path,
        metavar="FILE",
        help="empirical: a file with a size in bytes per line, or a CSV file "
        "with a column size_bytes",
    )
    rate = group.add_mutually_exclusive_group()
    _add_number(
        rate,
        "--load",
        None,
        "bytes that arrive per second, divided by the rate of all boards' DMA "
        "pipes",
    )
    _add_number(
        rate,
        "--arrivals-per-s",
        None,
        "number of jobs that arrive per second from all hosts; it does not "
        "depend on the boards",
    )
    count = group.add_mutually_exclusive_group()
    count.add_argument(
        "--jobs-per-host",
        type=int,
        metavar="N",
        help=f"number of jobs from each host; default: {_JOBS_PER_HOST}",
    )
    count.add_argument(
        "--jobs", type=int, metavar="N", help="number of jobs in all"
    )
    count.add_argument(
        "--duration-s",
        type=float,
        metavar="X",
        help="length of the time in which jobs arrive",
    )
    group.add_argument(
        "--accelerator",
        action="append",
        default=[],
        metavar="NAME[=WEIGHT]",
        help="let jobs ask for this accelerator, in proportion to its weight; "
        "may be repeated; default: all accelerators alike",
    )
    _add_number(
        group,
        "--bias",
        None,
        "weight of a host with a board as a source of jobs; another host has "
        "the weight 1",
    )
    group.add_argument(
        "--host-weight",
        action="append",
        metavar="HOST=X",
        help="multiply the weight of this host by X; may be repeated",
    )
    group.add_argument(
        "--tenant",
        action="append",
        metavar="NAME=SHARE[:BOARDS]",
        help="add a tenant with this share of the jobs; BOARDS, from 0 to 1, "
        "is the part of its jobs that comes from hosts with a board; may be "
        "repeated",
    )


def _add_strategies(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--strategy",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help="strategies of the scenario; default: " + " ".join(STRATEGIES),
    )
    _add_number(
        group,
        "--remote-limit",
        None,
        "ra, wra: number of slots of a host that jobs of other hosts may hold "
        "(C); default: half its slots",
        int,
    )
    group.add_argument(
        "--skip-limit",
        type=_limit,
        default=5,
        metavar="N",
        help="ra, wra: a job may leave its host after slots of other hosts "
        "passed it over this often (D), or 'none'; default: 5",
    )
    _add_number(
        group,
        "--wait-s-per-byte",
        1e-8,
        "ra, wra: a job may leave its host after it has waited this long per "
        "byte (W)",
    )
    group.add_argument(
        "--wakeups",
        action="store_true",
        help="start a scheduling pass as soon as a job may leave its host, as "
        "the conductor does; without this option, the job waits for the next "
        "pass",
    )
    for option, text in (
        ("--slot-choice", "order in which a job prefers idle slots"),
        ("--offer-order", "ra, wra: order in which slots are offered to jobs"),
    ):
        group.add_argument(
            option,
            choices=("index", "random", "least_busy"),
            default="random",
            help=f"{text}; default: random",
        )


def _limit(text: str) -> int | None:
    return None if text == "none" else int(text)


def run(arguments: argparse.Namespace) -> None:
    """Write the scenario, and describe it.

    :raises errors.InputError: for input that makes no sense.
    """
    files.check_writable(arguments.output)
    scenario, expected = _make(arguments, str(arguments.output))
    scenarios.write(scenario, arguments.output)
    _show(arguments.output, scenario, expected)


def make_scenario(
    options: Iterable[str], seed: int, source: str
) -> scenarios.Scenario:
    """Make a scenario as this command would write it.

    :param options: of its command line, without seed and output.
    :param seed: of all random numbers.
    :param source: the source of the options, for messages.
    :raises errors.InputError: for options that make no sense.
    """
    parser = _Parser(source)
    _add_content(parser)
    arguments = parser.parse_args([*options, f"--seed={seed}"])
    return _make(arguments, source)[0]


class _Parser(argparse.ArgumentParser):
    """Raises errors instead of ending the program."""

    def __init__(self, source: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._source = source

    def error(self, message: str) -> typing.NoReturn:
        raise errors.InputError(self._source, "", message)


def _make(
    arguments: argparse.Namespace, source: str
) -> tuple[scenarios.Scenario, list[str]]:
    """Make the scenario, and lines that describe the expected jobs."""
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
    scenarios.check(scenario, source)
    return scenario, expected


# -- the cluster -----------------------------------------------------------


def _cluster(arguments: argparse.Namespace) -> scenarios.Cluster:
    for name in ("hosts", "boards", "slots_per_device"):
        errors.check_at_least(_option(name), getattr(arguments, name))
    for name in ("dma_bytes_per_s", "nic_bytes_per_s"):
        _check(name, getattr(arguments, name), above=True)
    for name in ("return_ratio", "reconfiguration_s"):
        _check(name, getattr(arguments, name), above=False)
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
    for name, peak in peaks.items():
        _check("peak_bytes_per_s", peak, above=True, place=name)
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
    for name, value in given.items():
        _check(name, value, above=False)
    return scenarios.Power(**given) if given else None


# -- the strategies ----------------------------------------------------------


def _strategies(
    arguments: argparse.Namespace,
) -> dict[str, scenarios.StrategyOptions]:
    strategies = {
        name: _strategy(name, arguments)
        for name in arguments.strategy or STRATEGIES
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
        for option in ("remote_limit", "skip_limit"):
            value = getattr(arguments, option)
            if value is not None:
                errors.check_at_least(_option(option), value, 0)
            options[option] = value
        _check("wait_s_per_byte", arguments.wait_s_per_byte, above=False)
        options["wait_s_per_byte"] = arguments.wait_s_per_byte
        options["offer_order"] = arguments.offer_order
    if name in _BY_SIZE and arguments.sizes in ("power-law", "lognormal"):
        options |= dataclasses.asdict(scenarios.LONG_TAIL)
    return scenarios.StrategyOptions(**options)


# -- the jobs --------------------------------------------------------------


def _check_alone(arguments: argparse.Namespace) -> None:
    """Refuse options whose values the trace has."""
    given = [
        name for name in _DEFAULTS if getattr(arguments, name) is not None
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
        for name, default in _DEFAULTS.items()
    }
    if not any(chosen[name] for name in ("jobs", "duration_s")):
        chosen["jobs_per_host"] = chosen["jobs_per_host"] or _JOBS_PER_HOST
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
        f"asked for: load {workload.load:.4g}, mean size "
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
    for name in ("load", "arrivals_per_s", "bias", *_COUNTS):
        if getattr(arguments, name) is not None:
            _check(name, getattr(arguments, name), above=True)
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
    make, used = _SIZES[kind]
    for _, names in _SIZES.values():
        for name in names:
            if getattr(arguments, name) is not None and name not in used:
                raise errors.InputError(
                    _option(name), "", f"cannot be used with --sizes {kind}"
                )
    if kind == "empirical" and chosen["sizes_file"] is None:
        raise errors.InputError("--sizes", kind, "--sizes-file is missing")
    try:
        return make(*(chosen[name] for name in used))
    except ValueError as error:
        raise errors.InputError("--sizes", kind, str(error)) from error


def _describe(chosen: dict[str, typing.Any]) -> str:
    kind = chosen["sizes"]
    options = []
    for name in _SIZES[kind][1]:
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
                f"there is no accelerator {name!r}; known: "
                f"{', '.join(sorted(cluster.accelerators))}",
            )
    return weights


def _host_weights(given: Iterable[str]) -> dict[int, float]:
    weights: dict[int, float] = {}
    for name, weight in _pairs("host_weight", given):
        if not (name.isascii() and name.isdecimal()):
            raise errors.InputError(
                "--host-weight", name, "is not the number of a host"
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
    """Convert NAME=NUMBER."""
    found: list[tuple[str, float]] = []
    for text in given:
        key, is_there, value = text.partition("=")
        if not (key and is_there):
            raise errors.InputError(_option(name), text, "is not NAME=NUMBER")
        if key in dict(found):
            raise errors.InputError(_option(name), text, f"has {key!r} twice")
        found.append((key, _number(name, text, value)))
    return found


def _number(name: str, place: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise errors.InputError(
            _option(name), place, f"{text!r} is not a number"
        ) from None


def _check(name: str, value: float, *, above: bool, place: str = "") -> None:
    """Check that a number is finite, and not negative or above 0."""
    if not (math.isfinite(value) and (value > 0 if above else value >= 0)):
        limit = "above 0" if above else "at least 0"
        raise errors.InputError(
            _option(name), place, f"must be finite and {limit}, not {value:g}"
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# -- output -------------------------------------------------------------


def _show(
    path: pathlib.Path, scenario: scenarios.Scenario, expected: list[str]
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
        f"drawn: {found['jobs']} jobs, mean size "
        f"{found['mean_bytes'] / 1e6:.1f} MB, "
        f"{found['total_bytes'] / 1e12:.3f} TB, last arrival after "
        f"{found['last_arrival_s']:.1f} s{until_then}",
        f"strategies: {', '.join(scenario.strategies)}",
        f"written: {path}",
    ]
    if not expected:
        lines[1] = lines[1].replace("drawn:", "trace:")
    for line in lines:
        screen.say(console, line)
