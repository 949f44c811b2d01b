# SPDX-License-Identifier: Apache-2.0

"""The options of ``fpgapool-sim generate`` that describe a scenario."""

from __future__ import annotations

import argparse
import pathlib
import typing
from collections.abc import Callable

from fpgapool.sim import screen
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import sizes
from fpgapool.sim.inputs import workloads
from fpgapool.sim.inputs.traces import reading
from fpgapool.sim.inputs.traces import table
from fpgapool.vocabulary import shapes

#: The default strategies of a scenario.
STRATEGIES = ("fifo", "sjf", "wa", "ra", "wra")

#: Defaults of the workload options. In argparse they are None, so that options
#: given together with a trace can be rejected.
DEFAULTS: dict[str, typing.Any] = {
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
_MAX_LIMIT = 2**31
#: The options among them that also apply to a trace.
FOR_TRACES = ("load", "jobs")
#: Default number of jobs per host.
JOBS_PER_HOST = 50
#: Each kind of sizes with its distribution, and the options that it takes.
SIZES: dict[
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


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed",
        type=screen.whole(0),
        default=0,
        metavar="N",
        help="seed of all random numbers; default: 0",
    )
    parser.add_argument(
        "--name", default="", help="name of the scenario; default: none"
    )
    _add_cluster(parser.add_argument_group("cluster"))
    _add_workload(parser.add_argument_group("workload"))
    _add_trace(parser.add_argument_group("trace"))
    _add_strategies(parser.add_argument_group("strategies"))


_Type = Callable[[str], object]
_ABOVE_0: _Type = screen.argument(float, shapes.number(above=0))
_FROM_0: _Type = screen.argument(float, shapes.number(0))
_RATE: _Type = screen.argument(
    float, shapes.number(above=0, most=scenarios.MAX_BYTES_PER_S)
)


def _add_number(
    group: argparse._ActionsContainer,
    option: str,
    default: object,
    kind: _Type,
    text: str,
    metavar: str = "X",
) -> None:
    """Add an option whose value is a number; its help shows the default."""
    name = option.removeprefix("--").replace("-", "_")
    if name in DEFAULTS:
        shown, default = DEFAULTS[name], None
    else:
        shown = default
    if shown is not None:
        text += f"; default: {shown:g}"
    group.add_argument(
        option, type=kind, metavar=metavar, default=default, help=text
    )


#: Options of the cluster whose values are whole: default, limit, meaning.
_COUNTS = {
    "--hosts": (100, scenarios.MAX_HOSTS, "number of hosts"),
    "--boards": (
        50,
        scenarios.MAX_HOSTS,
        "number of boards, spread evenly over the hosts; a host has at most "
        "one",
    ),
    "--slots-per-device": (
        4,
        scenarios.MAX_SLOTS_PER_DEVICE,
        "number of slots of each board",
    ),
}
#: Other options of the cluster with numbers: default, type, meaning.
_CLUSTER: dict[str, tuple[float | None, _Type, str]] = {
    "--dma-bytes-per-s": (
        2.1e9,
        _RATE,
        "rate of a board's DMA pipe, which its slots share",
    ),
    "--nic-bytes-per-s": (
        1.25e9,
        _RATE,
        "rate of a host's network card in each direction",
    ),
    "--return-ratio": (
        1.0,
        screen.argument(float, shapes.number(0, scenarios.MAX_RETURN_RATIO)),
        "bytes that each accelerator sends back per byte of input",
    ),
    "--reconfiguration-s": (
        0.0,
        _FROM_0,
        "time to program another accelerator into a slot",
    ),
    "--mean-up-s": (
        None,
        _ABOVE_0,
        "mean time before a host with a board is lost; requires "
        "--mean-down-s; default: no host is lost",
    ),
    "--mean-down-s": (
        None,
        _ABOVE_0,
        "mean time until it is back; hosts that are up at the last arrival "
        "stay",
    ),
    **{
        option: (
            None,
            _FROM_0,
            f"{text}, in W; results include energy if any power is given; "
            "default: 0",
        )
        for option, text in (
            ("--device-idle-w", "power of a board while its slots are idle"),
            (
                "--device-active-w",
                "power of a board while all slots have jobs",
            ),
            ("--host-w", "power of a host"),
        )
    },
}
#: Options of sizes that take a number.
_SIZES = {
    "--min-size-bytes": "smallest size, except for empirical sizes",
    "--mean-size-bytes": "exponential: the mean size",
    "--max-size-bytes": "power-law, lognormal: the largest size",
    "--alpha": "power-law: the exponent",
    "--median-size-bytes": "lognormal: the median before truncation",
    "--sigma": "lognormal: standard deviation of the natural logarithm",
}


#: Options of traces that take a number: type, meaning.
_TRACE: dict[str, tuple[_Type, str]] = {
    "--hash-tenants": (
        screen.whole(1),
        "spread tenants by a hash over this number of tenants; default: keep "
        "them",
    ),
    "--max-gap-s": (
        _ABOVE_0,
        "shorten longer times between two arrivals to this; default: keep "
        "them",
    ),
    "--min-run-s": (
        _ABOVE_0,
        "raise shorter run times to this; default: keep them, and leave out "
        "jobs with run time 0",
    ),
    "--sessions-per-job": (
        screen.whole(1, scenarios.MAX_SLOTS_PER_DEVICE),
        "job logs: a job of P processors becomes P sessions of its run time, "
        "but at most this many; default: 1",
    ),
    "--other-peak-bytes-per-s": (
        _RATE,
        "peak input rate per slot of the accelerators that the trace names, "
        "and for which no other rate is known; default: they are refused",
    ),
}
#: Options that need a trace.
WITH_TRACE = (
    "trace_format",
    "column",
    "skip_incomplete",
    "hash_hosts",
    *(name.removeprefix("--").replace("-", "_") for name in _TRACE),
)


def _add_cluster(group: argparse._ArgumentGroup) -> None:
    for option, (default, most, text) in _COUNTS.items():
        kind = screen.whole(1, most)
        _add_number(group, option, default, kind, text, "N")
    for option, (number, shape, text) in _CLUSTER.items():
        _add_number(group, option, number, shape, text)
    group.add_argument(
        "--peak-bytes-per-s",
        action="append",
        default=[],
        metavar="NAME=X",
        help="add an accelerator with this peak input rate per slot; may be "
        "repeated; fpgapool's own accelerators are used by default, and with "
        "--trace always",
    )


def _add_workload(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sizes",
        choices=sorted(SIZES),
        help="distribution of the sizes; default: exponential",
    )
    for option, text in _SIZES.items():
        _add_number(group, option, None, float, text)
    group.add_argument(
        "--sizes-file",
        type=pathlib.Path,
        metavar="FILE",
        help="empirical: a file with sizes in bytes, one per line, or a CSV "
        "file with a column size_bytes",
    )
    _add_amount(group)
    group.add_argument(
        "--accelerator",
        action="append",
        default=[],
        metavar="NAME[=WEIGHT]",
        help="let jobs request this accelerator, in proportion to its weight; "
        "may be repeated; default: all accelerators with equal weights, but "
        "of fpgapool's own only "
        f"{', '.join(workloads.PEAKS_BYTES_PER_S)}",
    )
    _add_number(
        group,
        "--bias",
        None,
        _ABOVE_0,
        "weight of a host with a board as a source of jobs; hosts without a "
        "board have weight 1",
    )
    for option, metavar, text in (
        (
            "--host-weight",
            "HOST=X",
            "multiply the weight of this host by X; may be repeated",
        ),
        (
            "--tenant",
            "NAME=SHARE[:BOARDS]",
            "add a tenant with this share of the jobs; BOARDS, from 0 to 1, "
            "is the fraction of its jobs that come from hosts with a board; "
            "may be repeated",
        ),
    ):
        group.add_argument(option, action="append", metavar=metavar, help=text)


def _add_trace(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trace",
        type=pathlib.Path,
        metavar="FILE",
        help="read the jobs from this file, which may be compressed with gzip",
    )
    group.add_argument(
        "--trace-format",
        choices=sorted(reading.FORMATS),
        help="format of the trace: a table of jobs (csv), or a job log of "
        "Batsim, Slurm's sacct, or the Standard Workload Format (swf); "
        "default: what its name and content say",
    )
    group.add_argument(
        "--column",
        action="append",
        metavar="NAME=COLUMN",
        help="csv: the file calls the column NAME COLUMN; may be repeated; "
        f"its other columns are ignored; names: {', '.join(table.COLUMNS)}",
    )
    for option, text in (
        ("--skip-incomplete", "csv: leave out jobs that lack a value"),
        (
            "--hash-hosts",
            "csv: spread hosts over the cluster by a hash of their names, as "
            "for job logs by the user",
        ),
    ):
        group.add_argument(option, action="store_const", const=True, help=text)
    for option, (kind, text) in _TRACE.items():
        _add_number(group, option, None, kind, text)


def _add_amount(group: argparse._ArgumentGroup) -> None:
    rate = group.add_mutually_exclusive_group()
    for option, text in (
        (
            "--load",
            "bytes that arrive per second, divided by the rate of all boards' "
            "DMA pipes; with --trace: the time that jobs need at their "
            "accelerators' rates, divided by the time of all slots until the "
            "last arrival, to which arrivals are stretched",
        ),
        (
            "--arrivals-per-s",
            "number of jobs that arrive per second from all hosts, however "
            "many boards there are",
        ),
    ):
        _add_number(rate, option, None, _ABOVE_0, text)
    count = group.add_mutually_exclusive_group()
    for option, text in (
        (
            "--jobs-per-host",
            f"number of jobs from each host; default: {JOBS_PER_HOST}",
        ),
        ("--jobs", "total number of jobs; with --trace: only the first N"),
    ):
        _add_number(count, option, None, screen.whole(1), text, "N")
    _add_number(
        count,
        "--duration-s",
        None,
        _ABOVE_0,
        "period in which jobs arrive, in seconds",
    )


def _add_strategies(group: argparse._ArgumentGroup) -> None:
    screen.add_strategies(
        group, "strategies of the scenario; default: " + " ".join(STRATEGIES)
    )
    _add_number(
        group,
        "--remote-limit",
        None,
        screen.whole(0, _MAX_LIMIT),
        "ra, wra: number of a host's slots that jobs of other hosts may hold "
        "(C); default: half of its slots, and more where local jobs are few",
        "N",
    )
    group.add_argument(
        "--skip-limit",
        type=_limit,
        default=5,
        metavar="N",
        help="ra, wra: number of times that a job is passed over for slots of "
        "other hosts before it may use one of them (D), or 'none' if only its "
        "waiting time counts; default: 5",
    )
    _add_number(
        group,
        "--wait-s-per-byte",
        1e-8,
        _FROM_0,
        "ra, wra: a job may leave its host after it has waited this long per "
        "byte (W)",
    )
    group.add_argument(
        "--wakeups",
        action="store_true",
        help="start a scheduling pass as soon as a job may leave its host, "
        "as the conductor does; without this option, the job waits for the "
        "next pass",
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
    return None if text == "none" else screen.whole(0, _MAX_LIMIT)(text)
