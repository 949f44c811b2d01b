# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim generate``: make a scenario of a workload or a trace."""

from __future__ import annotations

import argparse
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

POLICIES = ("fifo", "sjf", "wa", "ra", "wra")
_BY_SIZE = ("wa", "wra")
_BY_PLACE = ("ra", "wra")

#: Options of a workload, which a trace leaves no room for; None of them is
#: a default of argparse, so that it is known which were given.
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
#: Which options say something about which sizes.
_SIZE_OPTIONS = {
    "exponential": ("min_size_bytes", "mean_size_bytes"),
    "power-law": ("min_size_bytes", "max_size_bytes", "alpha"),
    "lognormal": (
        "median_size_bytes",
        "sigma",
        "min_size_bytes",
        "max_size_bytes",
    ),
    "empirical": ("sizes_file",),
}
#: Thresholds of wa and wra for heavy tails; the strategies' own are for
#: sizes that vary exponentially.
_HEAVY_TAIL = {"E_bytes": 26e6, "q": 1.8, "k1": 10, "k2": 11, "queues": 20}


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "generate",
        help="make a scenario file",
        description="Make a scenario file of a synthetic workload, or of a "
        "trace. The same options and seed give the same file.",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        required=True,
        metavar="SCENARIO",
        help="the scenario file to write",
    )
    _add_content(parser)
    parser.set_defaults(run=run)


def _add_content(parser: argparse.ArgumentParser) -> None:
    """Add all that says what will be in the scenario."""
    parser.add_argument(
        "--seed",
        type=screen.seed,
        default=0,
        metavar="N",
        help="of all that is random; default: 0",
    )
    parser.add_argument(
        "--name", default="", help="of the scenario; default: none"
    )
    _add_cluster(parser.add_argument_group("cluster"))
    _add_workload(parser.add_argument_group("workload"))
    _add_policies(parser.add_argument_group("policies"))


def _add_number(
    group: argparse._ArgumentGroup,
    option: str,
    default: object,
    text: str,
    kind: Callable[[str], object] = float,
) -> None:
    """Add an option whose value is a number; its default is shown."""
    shown = f"{default:g}" if isinstance(default, float | int) else default
    name = option.removeprefix("--").replace("-", "_")
    group.add_argument(
        option,
        type=kind,
        metavar="N" if kind is int else "X",
        default=None if name in _DEFAULTS else default,
        help=text + (f"; default: {shown}" if default is not None else ""),
    )


def _add_cluster(group: argparse._ArgumentGroup) -> None:
    _add_number(group, "--hosts", 100, "how many hosts", int)
    _add_number(
        group, "--boards", 50, "spread evenly, at most one a host", int
    )
    _add_number(group, "--slots-per-device", 4, "of each board", int)
    _add_number(
        group, "--dma-bytes-per-s", 2.1e9, "that a board's slots share"
    )
    _add_number(
        group, "--nic-bytes-per-s", 1.25e9, "of a host, each direction"
    )
    _add_number(
        group,
        "--return-ratio",
        1.0,
        "bytes that come back per byte of input, of all accelerators",
    )
    group.add_argument(
        "--peak-bytes-per-s",
        action="append",
        default=[],
        metavar="NAME=X",
        help="an accelerator and the input that a slot of it takes at most; "
        "may be repeated; default: "
        + ", ".join(
            f"{name}={peak:g}"
            for name, peak in workloads.PEAKS_BYTES_PER_S.items()
        ),
    )
    _add_number(
        group,
        "--reconfiguration-s",
        0.0,
        "time to program another accelerator into a slot",
    )
    for option, text in (
        ("--device-idle-w", "power of a board without jobs"),
        ("--device-active-w", "power of a board with jobs in all slots"),
        ("--host-w", "power of a host"),
    ):
        _add_number(group, option, None, f"{text}; any of them: energy")


def _add_workload(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trace",
        type=pathlib.Path,
        metavar="FILE.csv",
        help="take the jobs from here: columns arrival_s, host, size_bytes, "
        "accelerator and, if wanted, id and tenant",
    )
    group.add_argument(
        "--sizes",
        choices=sorted(_SIZE_OPTIONS),
        help="how sizes vary; default: exponential",
    )
    for option, text in (
        ("--min-size-bytes", "no job is smaller"),
        ("--mean-size-bytes", "exponential: the mean"),
        ("--max-size-bytes", "power-law, lognormal: no job is larger"),
        ("--alpha", "power-law: exponent"),
        ("--median-size-bytes", "lognormal: the median before the limits"),
        ("--sigma", "lognormal: deviation of the natural logarithm"),
    ):
        name = option.removeprefix("--").replace("-", "_")
        _add_number(group, option, _DEFAULTS[name], text)
    group.add_argument(
        "--sizes-file",
        type=pathlib.Path,
        metavar="FILE",
        help="empirical: a size in bytes per line",
    )
    rate = group.add_mutually_exclusive_group()
    _add_number(
        rate,
        "--load",
        _DEFAULTS["load"],
        "bytes that arrive per second, of what the DMA pipes of all boards "
        "carry",
    )
    _add_number(
        rate,
        "--arrivals-per-s",
        None,
        "jobs that arrive per second from all hosts, whatever the boards are",
    )
    count = group.add_mutually_exclusive_group()
    count.add_argument(
        "--jobs-per-host",
        type=int,
        metavar="N",
        help=f"so many from each host; default: {_JOBS_PER_HOST}",
    )
    count.add_argument("--jobs", type=int, metavar="N", help="so many in all")
    count.add_argument(
        "--duration-s",
        type=float,
        metavar="X",
        help="as many as arrive in this time",
    )
    group.add_argument(
        "--accelerator",
        action="append",
        default=[],
        metavar="NAME[=WEIGHT]",
        help="that jobs ask for; may be repeated; default: all, evenly",
    )
    _add_number(
        group,
        "--bias",
        _DEFAULTS["bias"],
        "weight of hosts with a board, others have 1",
    )
    group.add_argument(
        "--host-weight",
        action="append",
        metavar="HOST=X",
        help="factor of one host's weight; may be repeated",
    )
    group.add_argument(
        "--tenant",
        action="append",
        metavar="NAME=SHARE[:BOARDS]",
        help="a tenant's share of the jobs and, if wanted, which part of its "
        "jobs comes from hosts with a board, from 0 to 1; may be repeated",
    )


def _add_policies(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--policy",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"strategies; default: {' '.join(POLICIES)}",
    )
    _add_number(
        group,
        "--remote-limit",
        None,
        "ra, wra: jobs of elsewhere on a host (C); default: half its slots",
        int,
    )
    group.add_argument(
        "--skip-limit",
        type=_limit,
        default=5,
        metavar="N",
        help="ra, wra: a job that was skipped so often may leave its host "
        "(D), or 'none'; default: 5",
    )
    _add_number(
        group,
        "--wait-s-per-byte",
        1e-8,
        "ra, wra: a job that has waited so long may leave its host (W)",
    )
    group.add_argument(
        "--wakeups",
        action="store_true",
        help="a job that has waited so long is looked at at once, as in the "
        "conductor, not in the next pass",
    )
    for option, text in (
        ("--slot-choice", "which idle slot a job takes"),
        ("--offer-order", "ra, wra: in which order slots are offered"),
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
    """Write the scenario and say what is in it.

    :raises errors.InputError: for input that makes no sense.
    """
    files.check_writable(arguments.output)
    scenario, expected = _make(arguments, str(arguments.output))
    scenarios.write(scenario, arguments.output)
    _show(arguments.output, scenario, expected)


def make_scenario(
    options: Iterable[str], seed: int, source: str
) -> scenarios.Scenario:
    """What this command would write.

    :param options: of its command line, without seed and output.
    :param seed: of all that is random.
    :param source: where the options are from, for messages.
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
    """The scenario, and lines of what was expected of its jobs."""
    if arguments.trace is not None:
        _check_alone(arguments)
    cluster = _cluster(arguments)
    policies = _policies(arguments)
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
        policies=policies,
        jobs=jobs,
    )
    scenarios.check(scenario, source)
    return scenario, expected


# -- the cluster -----------------------------------------------------------


def _cluster(arguments: argparse.Namespace) -> scenarios.Cluster:
    for name, least in (("hosts", 1), ("boards", 1), ("slots_per_device", 1)):
        if getattr(arguments, name) < least:
            raise errors.InputError(
                _option(name), "", f"must be at least {least}"
            )
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


# -- the policies ----------------------------------------------------------


def _policies(arguments: argparse.Namespace) -> dict[str, scenarios.Policy]:
    policies = {
        name: _policy(name, arguments) for name in arguments.policy or POLICIES
    }
    for name, policy in policies.items():
        simulation.make_strategy(
            name, policy, arguments.seed, "options of policies"
        )
    return policies


def _policy(name: str, arguments: argparse.Namespace) -> scenarios.Policy:
    options: dict[str, typing.Any] = {"slot_choice": arguments.slot_choice}
    if name in _BY_PLACE:
        for option in ("remote_limit", "skip_limit"):
            value = getattr(arguments, option)
            if value is not None and value < 0:
                raise errors.InputError(
                    _option(option), "", f"must be at least 0, not {value}"
                )
            options[option] = value
        _check("wait_s_per_byte", arguments.wait_s_per_byte, above=False)
        options["wait_s_per_byte"] = arguments.wait_s_per_byte
        options["offer_order"] = arguments.offer_order
    if name in _BY_SIZE and arguments.sizes in ("power-law", "lognormal"):
        options |= _HEAVY_TAIL
    return scenarios.Policy(**options)


# -- the jobs --------------------------------------------------------------


def _check_alone(arguments: argparse.Namespace) -> None:
    """Nothing may be asked of a trace that it says itself."""
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
    """The jobs, what they are, and lines of what was expected of them."""
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
    for name in (
        "load",
        "arrivals_per_s",
        "bias",
        "jobs_per_host",
        "jobs",
        "duration_s",
    ):
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
            **{
                name: chosen[name]
                for name in (
                    "bias",
                    "jobs_per_host",
                    "jobs",
                    "duration_s",
                )
            },
        )
    except ValueError as error:
        raise errors.InputError("workload", "", str(error)) from error


def _distribution(
    arguments: argparse.Namespace, chosen: dict[str, typing.Any]
) -> distributions.SizeDistribution:
    kind: str = chosen["sizes"]
    used = _SIZE_OPTIONS[kind]
    for name in dict.fromkeys(sum(_SIZE_OPTIONS.values(), ())):
        if getattr(arguments, name) is not None and name not in used:
            raise errors.InputError(
                _option(name), "", f"says nothing about sizes {kind}"
            )
    try:
        if kind == "exponential":
            return distributions.Exponential(
                chosen["min_size_bytes"], chosen["mean_size_bytes"]
            )
        if kind == "power-law":
            return distributions.BoundedPowerLaw(
                chosen["min_size_bytes"],
                chosen["max_size_bytes"],
                chosen["alpha"],
            )
        if kind == "lognormal":
            return distributions.Lognormal(
                chosen["median_size_bytes"],
                chosen["sigma"],
                chosen["min_size_bytes"],
                chosen["max_size_bytes"],
            )
    except ValueError as error:
        raise errors.InputError("--sizes", kind, str(error)) from error
    if chosen["sizes_file"] is None:
        raise errors.InputError("--sizes", kind, "--sizes-file is missing")
    return distributions.Empirical(sizes.read(chosen["sizes_file"]))


def _describe(chosen: dict[str, typing.Any]) -> str:
    kind = chosen["sizes"]
    options = []
    for name in _SIZE_OPTIONS[kind]:
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
    """Read NAME=NUMBER."""
    found: list[tuple[str, float]] = []
    for text in given:
        key, is_there, value = text.partition("=")
        if not (key and is_there):
            raise errors.InputError(_option(name), text, "is not NAME=NUMBER")
        if key in dict(found):
            raise errors.InputError(_option(name), text, f"{key!r} twice")
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
    """Make sure that a number is finite and not negative, or above 0."""
    if not (math.isfinite(value) and (value > 0 if above else value >= 0)):
        limit = "above 0" if above else "at least 0"
        raise errors.InputError(
            _option(name), place, f"must be finite and {limit}, not {value:g}"
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# -- what the user sees ----------------------------------------------------


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
        f"policies: {', '.join(scenario.policies)}",
        f"written: {path}",
    ]
    if not expected:
        lines[1] = lines[1].replace("drawn:", "trace:")
    for line in lines:
        screen.say(console, line)
