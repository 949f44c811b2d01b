# SPDX-License-Identifier: Apache-2.0

"""How much better than wra the strategy era is, over 25 settings.

Each setting is drawn with several seeds; a policy's figure is wra's average
completion time (ACT) and its 95th percentile (TCT) divided by its own, on the
same jobs. Over seeds geometric means are taken, with confidence intervals of
the logarithms by Student's t; over settings the geometric mean of these, with
the interval over the seeds.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
import pathlib
import statistics
import sys
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console
import rich.table

from fpgapool.core import distributions
from fpgapool.sim import crews
from fpgapool.sim import results
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import simulation
from fpgapool.sim import workloads
from fpgapool.strategies.joint import era

HOSTS = 100
JOBS_PER_HOST = 50
#: wra and era with their defaults, wra as in the paper, and the first rule.
REFERENCE = "wra"
POLICIES = ("wra", "wra-paper", "era-written", "era")
#: Nothing worse than this is meant to happen in any setting.
WORST = 1 / 1.08
#: What is meant to be reached over all settings.
GOALS = {"act": 1.25, "tct95": 1.35}
# Two-sided 95 % of Student's t, by degrees of freedom; the normal
# distribution's beyond.
_T95 = (
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One of the 25.

    :ivar sizes: ``exp`` or ``pow``.
    :ivar load: bytes that arrive, in units of what all boards carry.
    :ivar bias: weight of a host with a board as a source of jobs.
    :ivar peak_factor: times the peak rates of accelerators.
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
    """All of them."""
    found = [
        Setting(sizes, return_ratio, load)
        for sizes in ("exp", "pow")
        for return_ratio in (0.0, 1.0)
        for load in (0.6, 1.0, 2.0)
    ]
    # As many bytes for every number of boards.
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
    """The jobs of a setting, and the policies to be compared."""
    cluster = scenarios.Cluster(
        hosts=HOSTS,
        fpga_hosts=workloads.spread_boards(HOSTS, setting.boards),
        slots_per_device=setting.slots,
        accelerators={
            name: scenarios.AcceleratorProfile(
                peak * setting.peak_factor, setting.return_ratio
            )
            for name, peak in workloads.PEAKS_BYTES_PER_S.items()
        },
    )
    sizes: distributions.SizeDistribution
    if setting.sizes == "exp":
        sizes = distributions.Exponential(20e6, 400e6)
    else:
        sizes = distributions.BoundedPowerLaw(20e6, 10e9, 1.1)
    workload = workloads.Workload(
        sizes=sizes,
        load=setting.load,
        accelerators=dict.fromkeys(cluster.accelerators, 1.0),
        bias=setting.bias,
        jobs_per_host=jobs_per_host,
    )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=cluster,
        policies=policies(max(1, setting.slots // 2)),
        jobs=workloads.make_jobs(workload, cluster, seed),
    )


def policies(remote_limit: int) -> dict[str, scenarios.Policy]:
    """What is compared."""
    return {
        "wra": scenarios.Policy(
            remote_limit=remote_limit,
            slot_choice="least_busy",
            offer_order="least_busy",
        ),
        "wra-paper": scenarios.Policy(
            strategy="wra",
            remote_limit=remote_limit,
            skip_limit=5,
            slot_choice="random",
            offer_order="random",
        ),
        "era-written": scenarios.Policy(
            strategy="era", own=dataclasses.asdict(era.AS_WRITTEN)
        ),
        "era": scenarios.Policy(),
    }


# -- runs ------------------------------------------------------------------


class Run(typing.NamedTuple):
    """One policy, one setting, one seed."""

    setting: int
    seed: int
    policy: str


class Times(typing.NamedTuple):
    """Completion times of a run in seconds."""

    act: float
    tct95: float
    p99: float


def measure(run: Run, jobs_per_host: int = JOBS_PER_HOST) -> Times:
    """Simulate a run."""
    scenario = make_scenario(settings()[run.setting], run.seed, jobs_per_host)
    outcomes = simulation.run(scenario, run.policy, seed=run.seed)
    found = results.evaluate(scenario, outcomes).measured
    return Times(found.act_s, found.tct95_s, found.p99_s)


def read(path: pathlib.Path) -> dict[Run, Times]:
    """What a file of earlier runs says; nothing, if there is none."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            Run(int(row["setting"]), int(row["seed"]), row["policy"]): Times(
                float(row["act_s"]), float(row["tct95_s"]), float(row["p99_s"])
            )
            for row in csv.DictReader(file)
        }


def run_missing(
    runs: Sequence[Run], path: pathlib.Path, processes: int
) -> Iterator[Run]:
    """Do the runs that a file does not have yet, and add them to it."""
    known = read(path)
    missing = [run for run in runs if run not in known]
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if not known:
            writer.writerow((*Run._fields, "act_s", "tct95_s", "p99_s"))
        for run, times in crews.work_here(measure, missing, processes):
            writer.writerow([*run, *(repr(value) for value in times)])
            file.flush()
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
    """The geometric mean of improvements, given their logarithms."""
    mean, count = statistics.fmean(logarithms), len(logarithms)
    if count < 2:
        return Ratio(math.exp(mean), 0.0, math.inf)
    factor = _T95[count - 2] if count - 2 < len(_T95) else 1.96
    half = factor * statistics.stdev(logarithms) / math.sqrt(count)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


class Comparison(typing.NamedTuple):
    """A policy against another one, by one metric.

    :ivar by_setting: geometric mean over seeds.
    :ivar overall: geometric mean over settings, and its interval over
        seeds.
    """

    by_setting: list[Ratio]
    overall: Ratio

    @property
    def worst(self) -> int:
        """The number of the setting with the least improvement."""
        means = [each.mean for each in self.by_setting]
        return means.index(min(means))


def compare(
    times: dict[Run, Times],
    policy: str,
    metric: str,
    seeds: Sequence[int],
    reference: str = REFERENCE,
) -> Comparison:
    """Compare a policy with the reference, on the same jobs."""

    def gain(setting: int, seed: int) -> float:
        own = getattr(times[Run(setting, seed, policy)], metric)
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
    for policy in compared:
        if policy == reference:
            continue
        table = rich.table.Table(
            title=f"{policy} against {reference}, {len(seeds)} seeds"
        )
        table.add_column("setting")
        found = {
            metric: compare(times, policy, metric, seeds, reference)
            for metric in Times._fields
        }
        for metric in found:
            table.add_column(metric, justify="right")
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; 1: era does not reach its goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path, help="CSV file of runs")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--reference", default=REFERENCE)
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    wanted = list(dict.fromkeys([chosen.reference, *chosen.policies]))
    # By seed, so that what is there after an interruption can be compared.
    runs = [
        Run(setting, seed, policy)
        for seed in seeds
        for setting in range(len(settings()))
        for policy in wanted
    ]
    console = rich.console.Console()
    for done, _ in enumerate(
        run_missing(runs, chosen.out, chosen.processes), 1
    ):
        if done % 100 == 0:
            console.print(f"{done} runs done")
    times = read(chosen.out)
    show(console, times, seeds, chosen.reference, wanted)
    if "era" not in wanted:
        return 0
    missed = 0
    for metric, goal in GOALS.items():
        found = compare(times, "era", metric, seeds, chosen.reference)
        least = found.by_setting[found.worst].mean
        reached = found.overall.mean >= goal and least >= WORST
        missed += not reached
        console.print(
            f"{metric}: {found.overall} of {goal}, at least {least:.3f} of "
            f"{WORST:.3f}: {'reached' if reached else 'missed'}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
