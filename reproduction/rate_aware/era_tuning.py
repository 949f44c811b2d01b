# SPDX-License-Identifier: Apache-2.0

"""Searches values for the options of era, on the settings of its study.

The search goes through the options once. It tries other values of each, and
keeps a value if jobs end sooner with it: the geometric mean of the gains over
wra in ACT and TCT(95), over all settings and seeds, has to grow by a
thousandth, and no setting may get worse than the study allows, unless it was
worse before.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import statistics
import typing
from collections.abc import Iterator
from collections.abc import Sequence

import msgspec

from fpgapool.sim import simulation
from fpgapool.sim.experiments import crews
from fpgapool.sim.experiments import journals
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import results
from fpgapool.strategies.joint import era
from reproduction.rate_aware import era as study

SETTINGS = tuple(study.settings())
#: By option, the values to be tried.
CANDIDATES: dict[str, tuple[float, ...]] = {
    "size_power": (0.5, 0.7, 1.0),
    "aging_per_s": (0.05, 0.2, 1.0),
    "min_share": (0.7, 0.9, 0.95),
    "min_share_idle": (0.5, 0.7, 0.95),
    "min_free": (0.1, 0.2, 0.4),
    "patience": (0.0, 0.2, 0.5),
    "leave_s_per_byte": (1e-9, 1e-8),
    "leave_min_share": (0.8, 0.95),
    "idle_share": (0.2, 0.3, 0.5, 2.0),
    "leave_penalty": (2.0, 5.0, 10.0),
    "leave_penalty_idle": (1.0, 1.2, 5.0),
    "loss_weight": (0.0, 0.2, 0.4, 0.8),
    "spread": (0.0, 0.1, 0.3),
    "long_from": (0.93, 0.96, 1.0),
    "long_factor": (1.0, 3.0, 30.0),
}
#: The least gain that counts.
_WORTH = 1e-3

_KEYS = ("setting", "seed", "jobs_per_host", "own")
_TIMES = ("act_s", "tct95_s")


class Run(typing.NamedTuple):
    """One simulation.

    :ivar setting: its place in :data:`SETTINGS`.
    :ivar own: era's options as JSON; empty: the strategy is wra.
    """

    setting: int
    seed: int
    jobs_per_host: int
    own: str

    @property
    def key(self) -> tuple[str, ...]:
        """Return the cells that tell it apart in the file of runs."""
        return tuple(map(str, self))


def measure(run: Run) -> tuple[float, float]:
    """Simulate.

    :returns: ACT and TCT(95) in seconds.
    """
    scenario = study.make_scenario(
        SETTINGS[run.setting], run.seed, run.jobs_per_host
    )
    name = study.REFERENCE
    if run.own:
        name = "tuned"
        options = scenarios.StrategyOptions(
            strategy="era", own=json.loads(run.own)
        )
        scenario = msgspec.structs.replace(
            scenario, strategies={name: options}
        )
    outcomes = simulation.run(scenario, name, seed=run.seed)
    found = results.evaluate(scenario, outcomes).measured
    return found.act_s, found.tct95_s


class Score(typing.NamedTuple):
    """How many times shorter jobs take than under wra.

    :ivar act: over all settings, with the interval over the seeds.
    :ivar tct95: the same of the 95th percentile.
    :ivar least: the smaller one of both in any setting.
    """

    act: study.Ratio
    tct95: study.Ratio
    least: float

    @property
    def both(self) -> float:
        """Return the geometric mean of both."""
        return math.sqrt(self.act.mean * self.tct95.mean)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """Simulates options, and remembers the runs in a file.

    :ivar settings: places in :data:`SETTINGS`.
    :ivar path: of the file.
    :ivar processes: how many simulate; None: one for each processor.
    """

    settings: Sequence[int]
    seeds: Sequence[int]
    jobs_per_host: int
    path: pathlib.Path
    processes: int | None

    def score(self, options: era.EraOptions) -> Score:
        """Compare era with these options with wra.

        :raises errors.InputError: if the file of runs cannot be used.
        """
        own = json.dumps(dataclasses.asdict(options), sort_keys=True)
        runs = [
            Run(setting, seed, self.jobs_per_host, each)
            for seed in self.seeds
            for setting in self.settings
            for each in ("", own)
        ]
        with journals.Journal(self.path, _KEYS, _TIMES) as journal:
            missing = [run for run in runs if run.key not in journal.rows]
            for run, times in self._work(missing):
                journal.add(run.key, times)
            rows = {run: journal.rows[run.key] for run in runs}
        gains = [
            [
                [
                    math.log(before / after)
                    for before, after in zip(
                        rows[Run(setting, seed, self.jobs_per_host, "")],
                        rows[Run(setting, seed, self.jobs_per_host, own)],
                        strict=True,
                    )
                ]
                for setting in self.settings
            ]
            for seed in self.seeds
        ]
        act, tct95 = (
            study.ratio(
                [
                    statistics.fmean(setting[at] for setting in of_seed)
                    for of_seed in gains
                ]
            )
            for at in range(len(_TIMES))
        )
        least = min(
            statistics.fmean(of_seed[place][at] for of_seed in gains)
            for place in range(len(self.settings))
            for at in range(len(_TIMES))
        )
        return Score(act, tct95, math.exp(least))

    def _work(
        self, runs: Sequence[Run]
    ) -> Iterator[tuple[Run, tuple[float, float]]]:
        if self.processes == 1:
            return ((run, measure(run)) for run in runs)
        return crews.work_here(measure, runs, self.processes)


@dataclasses.dataclass(frozen=True)
class Trial:
    """One value of an option.

    :ivar option: empty: the values of the start.
    :ivar options: all values.
    :ivar is_kept: whether the search goes on with them.
    """

    option: str
    value: float | None
    options: era.EraOptions
    score: Score
    is_kept: bool


def most_trials(names: Sequence[str]) -> int:
    """Return how many trials a search makes at most."""
    return 1 + sum(len(CANDIDATES[name]) for name in names)


def search(
    bench: Bench, start: era.EraOptions, names: Sequence[str]
) -> Iterator[Trial]:
    """Search better values.

    :param names: of the options, in this order.
    :returns: the trials, the start first; the last one that is kept has the
        best values.
    """
    best = start
    score = bench.score(best)
    yield Trial("", None, best, score, is_kept=True)
    for name in names:
        for value in CANDIDATES[name]:
            if value == getattr(best, name):
                continue
            options = dataclasses.replace(best, **{name: value})
            found = bench.score(options)
            is_better = found.both > score.both * (
                1 + _WORTH
            ) and found.least >= min(study.WORST, score.least)
            yield Trial(name, value, options, found, is_better)
            if is_better:
                best, score = options, found
