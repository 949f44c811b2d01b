# SPDX-License-Identifier: Apache-2.0

"""How much better the strategy era is than wra, over 25 settings.

The study draws each setting with several seeds. It divides wra's average
completion time (ACT) and its 95th percentile (TCT) by those of a strategy on
the same jobs. It shows geometric means over seeds, with confidence intervals
of the logarithms by Student's t, and the geometric mean of these over
settings, with the interval over the seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import statistics
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console
import rich.table

from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim.experiments import crews
from fpgapool.sim.experiments import journals
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import results
from fpgapool.strategies.joint import era

HOSTS = 100
JOBS_PER_HOST = 50
#: wra and era with their defaults, wra as in the paper, and era's first rule.
REFERENCE = "wra"
STRATEGIES = ("wra", "wra-paper", "era-written", "era")
#: The least improvement that is allowed in any setting.
WORST = 1 / 1.08
#: The least improvements over all settings.
GOALS = {"act": 1.25, "tct95": 1.35}
_TIMES = ("act_s", "tct95_s", "p99_s")


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One of the 25.

    :ivar sizes: ``exp`` or ``pow``.
    :ivar load: arriving bytes in units of the rate of all boards.
    :ivar bias: weight of a host with a board as a source of jobs.
    :ivar peak_factor: multiplies the peak rates of accelerators.
    """

    sizes: str
    return_ratio: float
    load: float
    boards: int = 50
    slots: int = 4
    bias: float = 1.0
    peak_factor: float = 1.0

    def __str__(self) -> str:
        text = (
            f"{self.sizes} ret {self.return_ratio:g} r {self.load:.2f} "
            f"{self.boards} boards"
        )
        for name, value, usual in (
            ("slots", self.slots, 4),
            ("bias", self.bias, 1.0),
            ("peaks ×", self.peak_factor, 1.0),
        ):
            if value != usual:
                text += f" {name} {value:g}"
        return text


def settings() -> list[Setting]:
    """Return all of them."""
    found = [
        Setting(sizes, return_ratio, load)
        for sizes in ("exp", "pow")
        for return_ratio in (0.0, 1.0)
        for load in (0.6, 1.0, 2.0)
    ]
    # The same bytes arrive for every number of boards.
    found += [
        Setting(sizes, return_ratio, 50 / boards, boards)
        for sizes, return_ratio in (("exp", 1.0), ("pow", 0.0))
        for boards in (10, 30, 70, 90)
    ]
    return [
        *found,
        Setting("exp", 1.0, 1.0, bias=4.0),
        Setting("exp", 0.0, 1.0, bias=8.0),
        Setting("exp", 1.0, 1.0, slots=2),
        Setting("exp", 1.0, 1.0, slots=8),
        Setting("exp", 1.0, 0.6, peak_factor=0.5),
    ]


def make_scenario(
    setting: Setting, seed: int, jobs_per_host: int = JOBS_PER_HOST
) -> scenarios.Scenario:
    """Make a setting's jobs, and the strategies to be compared."""
    cluster = workloads.make_cluster(
        HOSTS,
        setting.boards,
        setting.return_ratio,
        slots=setting.slots,
        peak_factor=setting.peak_factor,
    )
    sizes: distributions.SizeDistribution
    if setting.sizes == "exp":
        sizes = distributions.Exponential(20e6, 400e6)
    else:
        sizes = distributions.BoundedPowerLaw(20e6, 10e9, 1.1)
    workload = workloads.Workload(
        sizes=sizes,
        load=setting.load,
        bias=setting.bias,
        jobs_per_host=jobs_per_host,
    )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=cluster,
        strategies=strategies(max(1, setting.slots // 2)),
        jobs=workloads.make_jobs(workload, cluster, seed),
    )


def strategies(remote_limit: int) -> dict[str, scenarios.StrategyOptions]:
    """Return the strategies to be compared; wra with the paper's queues."""
    queues = dataclasses.asdict(scenarios.SHORT_TAIL)
    return {
        "wra": scenarios.StrategyOptions(
            remote_limit=remote_limit,
            slot_choice="least_busy",
            offer_order="least_busy",
            **queues,
        ),
        "wra-paper": scenarios.StrategyOptions(
            strategy="wra",
            remote_limit=remote_limit,
            skip_limit=5,
            slot_choice="random",
            offer_order="random",
            **queues,
        ),
        "era-written": scenarios.StrategyOptions(
            strategy="era", own=dataclasses.asdict(era.AS_WRITTEN)
        ),
        "era": scenarios.StrategyOptions(),
    }


# -- runs ------------------------------------------------------------------


class Run(typing.NamedTuple):
    """One strategy, one setting, one seed."""

    setting: int
    seed: int
    strategy: str


class Times(typing.NamedTuple):
    """Completion times of a run in seconds."""

    act: float
    tct95: float
    p99: float


def measure(run: Run, jobs_per_host: int = JOBS_PER_HOST) -> Times:
    """Simulate a run."""
    scenario = make_scenario(settings()[run.setting], run.seed, jobs_per_host)
    outcomes = simulation.run(scenario, run.strategy, seed=run.seed)
    found = results.evaluate(scenario, outcomes).measured
    return Times(found.act_s, found.tct95_s, found.p99_s)


def read(path: pathlib.Path) -> dict[Run, Times]:
    """Read a file of earlier runs; without a file there are none."""
    return {
        Run(int(setting), int(seed), strategy): Times(*row)
        for (setting, seed, strategy), row in journals.read(
            path, Run._fields, _TIMES
        ).items()
    }


def run_missing(
    runs: Sequence[Run], path: pathlib.Path, processes: int | None
) -> Iterator[Run]:
    """Do the runs that a file does not have yet, and add them to it."""
    with journals.Journal(path, Run._fields, _TIMES) as journal:
        keys = {run: tuple(map(str, run)) for run in runs}
        missing = [run for run in runs if keys[run] not in journal.rows]
        for run, times in crews.work_here(measure, missing, processes):
            journal.add(keys[run], times)
            yield run


# -- comparison ------------------------------------------------------------


class Ratio(typing.NamedTuple):
    """An improvement with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f}–{self.high:.3f})"


def ratio(logarithms: Sequence[float]) -> Ratio:
    """Return the geometric mean of improvements, given their logarithms."""
    mean, half = gains.confidence(logarithms)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


class Comparison(typing.NamedTuple):
    """A strategy against another one, by one metric.

    :ivar overall: geometric mean over settings, and its interval over
        seeds.
    """

    by_setting: list[Ratio]
    overall: Ratio

    @property
    def worst(self) -> int:
        """Return the number of the setting with the least improvement."""
        means = [each.mean for each in self.by_setting]
        return means.index(min(means))


def compare(
    times: dict[Run, Times],
    strategy: str,
    metric: str,
    seeds: Sequence[int],
    reference: str = REFERENCE,
) -> Comparison:
    """Compare a strategy with the reference, on the same jobs."""

    def gain(setting: int, seed: int) -> float:
        own = getattr(times[Run(setting, seed, strategy)], metric)
        other = getattr(times[Run(setting, seed, reference)], metric)
        return math.log(other / own)

    numbers = range(len(settings()))
    return Comparison(
        [ratio([gain(number, seed) for seed in seeds]) for number in numbers],
        ratio(
            [
                statistics.fmean(gain(number, seed) for number in numbers)
                for seed in seeds
            ]
        ),
    )


def show(
    console: rich.console.Console,
    times: dict[Run, Times],
    seeds: Sequence[int],
    reference: str,
    compared: Sequence[str],
) -> None:
    """Print tables of improvements."""
    for strategy in compared:
        if strategy == reference:
            continue
        table = rich.table.Table(
            title=f"{strategy} against {reference}, {len(seeds)} seeds"
        )
        table.add_column("setting")
        found = {
            metric: compare(times, strategy, metric, seeds, reference)
            for metric in Times._fields
        }
        for metric in found:
            table.add_column(
                f"{metric}, times shorter (95 % interval)", justify="right"
            )
        for number, setting in enumerate(settings()):
            table.add_row(
                str(setting),
                *(str(each.by_setting[number]) for each in found.values()),
            )
        table.add_section()
        table.add_row("all", *(str(each.overall) for each in found.values()))
        table.add_row(
            "least",
            *(
                f"{each.by_setting[each.worst].mean:.3f}"
                for each in found.values()
            ),
        )
        console.print(table)


def add_parser(subparsers: typing.Any) -> None:
    """Add the command ``study-era``."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "study-era", help="compare era with wra", description=__doc__
    )
    parser.add_argument("out", type=pathlib.Path, help="CSV file of runs")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--reference", default=REFERENCE)
    crews.add_processes(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the study; 1: era does not reach its goals."""
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    wanted = list(dict.fromkeys([arguments.reference, *arguments.strategies]))
    # By seed: after an interruption the runs so far can be compared.
    runs = [
        Run(setting, seed, strategy)
        for seed in seeds
        for setting in range(len(settings()))
        for strategy in wanted
    ]
    with progress.work("simulating", len(runs), "runs") as work:
        for _ in run_missing(runs, arguments.out, arguments.processes):
            work.advance()
    console = screen.make_console()
    times = read(arguments.out)
    show(console, times, seeds, arguments.reference, wanted)
    if "era" not in wanted:
        return 0
    missed = 0
    for metric, goal in GOALS.items():
        found = compare(times, "era", metric, seeds, arguments.reference)
        least = found.by_setting[found.worst].mean
        reached = found.overall.mean >= goal and least >= WORST
        missed += not reached
        screen.say(
            console,
            f"{metric}: {found.overall} of {goal}, at least {least:.3f} of "
            f"{WORST:.3f}: {'reached' if reached else 'missed'}",
        )
    return 1 if missed else 0
