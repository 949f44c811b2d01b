# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim tune``: the best priority queues for given sizes of jobs."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import typing

import rich.console

from fpgapool.sim import errors
from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim.experiments import fitting
from fpgapool.sim.experiments import queueing
from fpgapool.sim.experiments import tuning
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import families
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import sizes as size_files
from fpgapool.sim.inputs import workloads
from fpgapool.sim.outcomes import gains
from fpgapool.vocabulary import shapes

_MAX_SEEDS = 1000
#: The conductor's options allow no larger size.
_MAX_BYTES = 2**63 - 1
#: Decimal places of threshold_ratio in the conductor's configuration.
_RATIO_DIGITS = 6


class _Sizes(typing.NamedTuple):
    """Sizes of jobs.

    :ivar fitted: the distribution for the model.
    :ivar fit: result of the fit; None: the user gave a distribution.
    """

    fitted: distributions.SizeDistribution
    given: distributions.SizeDistribution
    name: str
    fit: fitting.Fit | None


def add_parser(subparsers: typing.Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "tune",
        help="find the best priority queues for given sizes of jobs",
        description="Use a queueing model to find the priority-queue "
        "thresholds, for the strategies wa and wra, with the smallest "
        "expected mean completion time; confirm them by simulation, and print "
        "them as configuration for the conductor.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--sizes",
        type=pathlib.Path,
        metavar="FILE",
        help="a file with the sizes of jobs in bytes, one per line, or a CSV "
        "file with a column size_bytes; the command fits a distribution to "
        "them",
    )
    source.add_argument(
        "--dist",
        metavar="NAME[:PARAMETER=VALUE,...]",
        help="the distribution of the sizes: "
        + "; ".join(families.describe(name) for name in families.FAMILIES),
    )
    parser.add_argument(
        "--load",
        type=screen.argument(float, shapes.number(above=0, below=1)),
        required=True,
        metavar="RHO",
        help="bytes that arrive per second, divided by the bytes per second "
        "that the pool can process; above 0 and below 1",
    )
    parser.add_argument(
        "--queues",
        type=screen.whole(1, scenarios.MAX_QUEUES),
        default=scenarios.SHORT_TAIL.queues,
        metavar="K",
        help="number of priority queues (default: %(default)s)",
    )
    _add_confirmation(parser.add_argument_group("confirmation by simulation"))
    parser.set_defaults(run=run)


def _add_confirmation(group: typing.Any) -> None:
    group.add_argument(
        "--no-confirm",
        action="store_true",
        help="print the thresholds of the model without simulating",
    )
    hosts, slots = scenarios.MAX_HOSTS, scenarios.MAX_SLOTS_PER_DEVICE
    jobs = scenarios.MAX_JOBS
    for option, default, most, what in (
        ("--hosts", 100, hosts, "number of hosts"),
        ("--boards", 50, hosts, "number of hosts with a board"),
        ("--slots", 4, slots, "number of slots of each board"),
        ("--jobs-per-host", 50, jobs, "number of jobs from each host"),
        ("--seeds", 3, _MAX_SEEDS, "number of workloads"),
    ):
        group.add_argument(
            option,
            type=screen.whole(1, most),
            default=default,
            metavar="N",
            help=f"{what} (default: %(default)s)",
        )
    group.add_argument(
        "--return-ratio",
        type=screen.argument(
            float, shapes.number(0, scenarios.MAX_RETURN_RATIO)
        ),
        default=1.0,
        metavar="RATIO",
        help="bytes returned per byte of input (default: %(default)s)",
    )
    group.add_argument(
        "--seed",
        type=screen.whole(0),
        default=0,
        metavar="SEED",
        help="seed of the first workload; each further workload adds 1 to it "
        "(default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> None:
    _check(arguments)
    console = screen.make_console()
    sizes = _sizes(arguments)
    server = queueing.PriorityServer(sizes.fitted, arguments.load)
    if sizes.fit is not None:
        _show_fit(console, sizes.given, sizes.fit)
    with progress.work("minimising the completion time"):
        tuned = _setting(queueing.minimise(server, arguments.queues))
    fixed = scenarios.SHORT_TAIL
    _show_model(console, server, {"paper": fixed, "tuned": tuned})
    chosen: scenarios.Queues | None = tuned
    why = "not confirmed by simulation"
    if not arguments.no_confirm:
        summaries = _confirm(arguments, sizes.given, tuned)
        _show_confirmation(console, summaries)
        chosen, why = _judge(console, summaries, tuned)
    screen.say(console, "")
    screen.say(
        console,
        _snippet(chosen, f"{sizes.name}, load {arguments.load:g}: {why}."),
    )


def _check(arguments: argparse.Namespace) -> None:
    jobs = arguments.hosts * arguments.jobs_per_host
    if jobs > scenarios.MAX_JOBS:
        raise errors.InputError(
            "--jobs-per-host",
            "",
            f"{jobs} jobs exceed the limit of {scenarios.MAX_JOBS}",
        )
    if arguments.boards > arguments.hosts:
        raise errors.InputError(
            "--boards",
            "",
            f"{arguments.boards} boards need at least as many hosts, but "
            f"--hosts is {arguments.hosts}",
        )


# -- the distribution ------------------------------------------------------


def _sizes(arguments: argparse.Namespace) -> _Sizes:
    if arguments.sizes is None:
        source = "--dist"
        made = families.parse(arguments.dist, source)
        sizes = _Sizes(made, made, arguments.dist, None)
    else:
        source = str(arguments.sizes)
        sample = distributions.Empirical(size_files.read(arguments.sizes))
        fit = fitting.fit(sample.sizes_bytes)
        name = f"{arguments.sizes.name} as {fit.family}"
        sizes = _Sizes(fit.distribution, sample, name, fit)
    # queueing.minimise chooses no threshold beyond this quantile.
    if sizes.fitted.quantile(1 - 1e-5) > _MAX_BYTES:
        raise errors.InputError(
            source, "", f"sizes are too large: they exceed {_MAX_BYTES} bytes"
        )
    return sizes


def _show_fit(
    console: rich.console.Console,
    sample: distributions.SizeDistribution,
    found: fitting.Fit,
) -> None:
    screen.say(
        console,
        f"{found.sizes} sizes with a mean of {sample.mean_bytes / 1e6:.6g} MB,"
        f" fitted as {found.family}: {found.reason}.",
    )
    if found.candidates:
        table = screen.make_table(
            ("family", "parameters"),
            ("AIC", "KS distance"),
            "Distributions fitted to the sizes",
        )
        for candidate in found.candidates:
            table.add_row(
                candidate.family,
                _parameters(candidate.distribution),
                f"{candidate.aic:.1f}",
                f"{candidate.ks_distance:.4f}",
            )
        console.print(table)


def _parameters(distribution: distributions.SizeDistribution) -> str:
    if isinstance(distribution, distributions.Exponential):
        return (
            f"s0 {distribution.min_bytes / 1e6:.4g} MB, "
            f"mean {distribution.mean_bytes / 1e6:.4g} MB"
        )
    if isinstance(distribution, distributions.BoundedPowerLaw):
        return (
            f"s0 {distribution.min_bytes / 1e6:.4g} MB, "
            f"smax {distribution.max_bytes / 1e6:.4g} MB, "
            f"α {distribution.alpha:.4g}"
        )
    assert isinstance(distribution, distributions.Lognormal)
    return (
        f"median {distribution.median_bytes / 1e6:.4g} MB, "
        f"σ {distribution.sigma:.4g}"
    )


# -- the model -------------------------------------------------------------


def _setting(found: queueing.Tuning) -> scenarios.Queues:
    """Round a result to the precision of the configuration."""
    return dataclasses.replace(
        found,
        E_bytes=max(round(found.E_bytes), 1),
        q=round(found.q, _RATIO_DIGITS),
    )


def _show_model(
    console: rich.console.Console,
    server: queueing.PriorityServer,
    settings: dict[str, scenarios.Queues],
) -> None:
    table = screen.make_table(
        ("thresholds",),
        ("queues", "E, MB", "q", "k1", "k2", "time"),
        "Queueing model: mean completion time, in mean service times of an "
        "idle pool",
    )
    service_s = server.sizes.mean_bytes / server.bandwidth_bytes_per_s
    for name, setting in settings.items():
        services = server.completion_s(setting.thresholds_bytes) / service_s
        table.add_row(
            name,
            str(setting.queues),
            f"{setting.E_bytes / 1e6:.6g}",
            f"{setting.q:g}",
            str(setting.k1),
            str(setting.k2),
            f"{float(services):.3f}",
        )
    fifo = float(server.completion_s(())) / service_s
    table.add_row("one queue", "1", "", "", "", "", f"{fifo:.3f}")
    console.print(table)


# -- the confirmation ------------------------------------------------------


def _confirm(
    arguments: argparse.Namespace,
    distribution: distributions.SizeDistribution,
    tuned: scenarios.Queues,
) -> list[tuning.Summary]:
    cluster = workloads.make_cluster(
        arguments.hosts,
        arguments.boards,
        arguments.return_ratio,
        slots=arguments.slots,
    )
    workload = workloads.Workload(
        sizes=distribution,
        load=arguments.load,
        jobs_per_host=arguments.jobs_per_host,
    )
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    total = len(seeds) * len(tuning.STRATEGIES)
    found = []
    with progress.work("simulating", total, "comparisons") as work:
        for comparison in tuning.compare(
            cluster, workload, tuned.thresholds_bytes, seeds
        ):
            found.append(comparison)
            work.advance()
    return tuning.summarise(found)


def _show_confirmation(
    console: rich.console.Console, summaries: list[tuning.Summary]
) -> None:
    better = "× better (range)"
    table = screen.make_table(
        ("strategy",),
        (
            *("ACT default, s", "ACT tuned, s", better),
            *("TCT95 default, s", "TCT95 tuned, s", better),
            *("wait p95 default, s", "wait p95 tuned, s"),
        ),
        "Simulation: default (learnt) against tuned thresholds, means over "
        "seeds",
    )
    for summary in summaries:
        table.add_row(
            summary.strategy,
            f"{summary.default['act_s']:.4g}",
            f"{summary.gain.means['act_s']:.4g}",
            _times(summary.gain.act),
            f"{summary.default['tct95_s']:.4g}",
            f"{summary.gain.means['tct95_s']:.4g}",
            _times(summary.gain.tct95),
            f"{summary.default['wait_p95_s']:.4g}",
            f"{summary.gain.means['wait_p95_s']:.4g}",
        )
    console.print(table)


def _times(factor: gains.Spread) -> str:
    return f"{factor.mean:.3f} ({factor.low:.2f}–{factor.high:.2f})"


def _judge(
    console: rich.console.Console,
    summaries: list[tuning.Summary],
    tuned: scenarios.Queues,
) -> tuple[scenarios.Queues | None, str]:
    """Return the recommended thresholds, and the reason.

    None: the default, thresholds that are learnt.
    """
    worse = [each.strategy for each in summaries if not each.is_better]
    longer = [each.strategy for each in summaries if each.gain.tct95.mean < 1]
    if worse:
        screen.say(
            console,
            "The tuned thresholds do not beat the defaults under "
            f"{' and '.join(worse)}: the average completion time does not "
            "get shorter there, or the tail grows by more than it shrinks. "
            "The defaults are kept.",
        )
        return None, "defaults, which the tuned thresholds did not beat"
    screen.say(
        console,
        "The tuned thresholds beat the defaults: jobs take less time on "
        "average under "
        f"{' and '.join(each.strategy for each in summaries)}."
        + (
            f" The tail gets longer under {' and '.join(longer)}, by less "
            "than the average gets shorter."
            if longer
            else " So does the tail."
        ),
    )
    return tuned, "tuned, better than the defaults in simulations"


def _snippet(setting: scenarios.Queues | None, comment: str) -> str:
    if setting is None:
        return f"[scheduler]\n# {comment}\nfirst_threshold_bytes = 0"
    return "\n".join(
        (
            "[scheduler]",
            f"# {comment}",
            "# If thresholds_bytes is set, the conductor ignores these.",
            f"queues = {setting.queues}",
            f"first_threshold_bytes = {setting.E_bytes:.0f}",
            f"threshold_ratio = {setting.q}",
            f"geometric_queues = {setting.k1}",
            f"linear_queues_end = {setting.k2}",
        )
    )
