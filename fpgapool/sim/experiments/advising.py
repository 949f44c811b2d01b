# SPDX-License-Identifier: Apache-2.0

"""What each strategy would have given for recorded jobs, and how surely.

A history is one course of events, and jobs that wait for each other are not
independent. So the intervals come from a block bootstrap: the history is cut
into consecutive blocks of jobs, and blocks are drawn with replacement. Every
strategy gets the same draws, so that what its jobs have in common with those
of the other strategies cancels out in the ratios. Nobody knows how long jobs
depend on each other: of several lengths of blocks, the one with the widest
intervals counts.
"""

from __future__ import annotations

import functools
import pathlib
import time
import typing
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results

#: The numbers of blocks into which a history is cut.
BLOCKS: typing.Final = (30, 15, 10, 6)
#: With fewer jobs, intervals are too narrow too often.
MIN_JOBS: typing.Final = 1000
_DRAWS = 250
_CONFIDENCE = 0.95
#: A strategy whose mean is less than this much shorter is not recommended,
#: however narrow the interval is.
_WORTHWHILE = 0.95

#: What is measured; the last one is better if it is larger.
MEASURES: typing.Final = (
    *("mean completion time", "its 95th percentile", "its 99th percentile"),
    *("mean wait", "the wait's 95th percentile", "the wait's 99th percentile"),
    *("mean slowdown", "Jain's index"),
)
JAIN: typing.Final = len(MEASURES) - 1
#: What must not get clearly worse: completion times, slowdown and fairness.
_GUARDED = (1, 2, 6, JAIN)


class Task(typing.NamedTuple):
    """A strategy under which the jobs of a file are replayed.

    :ivar max_s: time after which the replay is given up.
    """

    path: pathlib.Path
    name: str
    seed: int
    fair_share: bool
    max_s: float


class _TooLong(Exception):
    """A replay was given up."""


def with_all(
    scenario: scenarios.Scenario, names: Sequence[str]
) -> scenarios.Scenario:
    """Return the scenario with further strategies.

    They have the options of the scenario's first strategy, as in a pool whose
    ``[conductor] strategy`` is changed and nothing else.
    """
    first, options = next(iter(scenario.strategies.items()))
    added = {
        name: msgspec.structs.replace(options, strategy=name, own={})
        for name in names
        if name not in scenario.strategies
    }
    kept = {
        name: scenario.strategies[name]
        for name in (first, *names)
        if name in scenario.strategies
    }
    return msgspec.structs.replace(scenario, strategies={**kept, **added})


@functools.lru_cache(maxsize=1)
def _read(path: pathlib.Path) -> scenarios.Scenario:
    scenario = scenario_files.read(path)
    jobs = sorted(scenario.jobs, key=lambda job: job.arrival_s)
    return msgspec.structs.replace(scenario, jobs=jobs)


def replay(task: Task) -> metrics.Floats | str:
    """Replay jobs under a strategy and measure them.

    :returns: a row of :data:`MEASURES` for the history, and one for each draw
        of its blocks, for each of :data:`BLOCKS`; a text: why there are none.
    """
    scenario = with_all(_read(task.path), [task.name])
    give_up_at = time.monotonic() + task.max_s

    def check_time() -> None:
        if time.monotonic() > give_up_at:
            raise _TooLong

    try:
        outcomes = simulation.run(
            scenario,
            task.name,
            seed=task.seed,
            source=str(task.path),
            fair_share=task.fair_share,
            on_end=check_time,
        )
    except _TooLong:
        return (
            f"the replay takes longer than {task.max_s:g} s; export fewer "
            "sessions (--newest), or raise --max-s"
        )
    except errors.InputError as error:
        return str(error)
    jobs = results.columns(scenario, outcomes)
    completions_s = jobs.finishes_s - jobs.arrivals_s
    slowdowns = results.evaluate(scenario, outcomes).slowdowns
    if slowdowns is None:
        return "jobs need more than slots"
    _, tenants = np.unique(
        np.array([job.tenant for job in scenario.jobs]), return_inverse=True
    )
    return resampled(
        completions_s, completions_s - jobs.worked_s, slowdowns, tenants
    )


def resampled(
    completions_s: metrics.Floats,
    waits_s: metrics.Floats,
    slowdowns: metrics.Floats,
    tenants: npt.NDArray[np.intp],
) -> metrics.Floats:
    """Measure jobs, given in the order of arrival, and draws of their blocks.

    :param tenants: the number of each job's tenant.
    :returns: see :func:`replay`.
    """
    times_s = np.stack([completions_s, waits_s])

    def measure(chosen: npt.NDArray[np.intp] | slice) -> list[float]:
        some_s = times_s[:, chosen]
        tails_s = np.percentile(some_s, (95, 99), axis=1)
        counts = np.bincount(tenants[chosen])
        sums = np.bincount(tenants[chosen], slowdowns[chosen])
        return [
            some_s[0].mean(),
            *tails_s[:, 0],
            some_s[1].mean(),
            *tails_s[:, 1],
            slowdowns[chosen].mean(),
            metrics.jain(sums[counts > 0] / counts[counts > 0]),
        ]

    # The same draws for every strategy.
    random = np.random.default_rng(0)
    rows = [measure(slice(None))]
    for count in BLOCKS:
        blocks = np.array_split(np.arange(completions_s.size), count)
        for _ in range(_DRAWS):
            drawn = random.integers(count, size=count)
            rows.append(measure(np.concatenate([blocks[at] for at in drawn])))
    return np.array(rows)


class Ratio(typing.NamedTuple):
    """A measure of a strategy, divided by that of another one.

    :ivar low: lower end of the interval; nan: unknown, as one of the two
        measures may be 0.
    """

    value: float
    low: float
    high: float


def compare(
    found: Mapping[str, metrics.Floats], base: str
) -> dict[str, list[Ratio]]:
    """Return the ratios to a strategy, one for each measure.

    The intervals of a measure hold for all strategies at once with a
    confidence of 95 %: the best of many would often look better by chance.
    """
    others = [name for name in found if name != base]
    made: dict[str, list[Ratio]] = {name: [] for name in others}
    for at in range(len(MEASURES) * bool(others)):
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log([found[name][:, at] for name in others])
            logs -= np.log(found[base][:, at])
        for name, ratio in zip(others, _ratios(logs), strict=True):
            made[name].append(ratio)
    return made


def _ratios(logs: metrics.Floats) -> list[Ratio]:
    """Return ratios with intervals.

    :param logs: their logarithms by strategy: of the history, then of draws.
    """
    known = np.isfinite(logs).all(axis=1)
    halves = np.full(len(logs), np.nan)
    if known.any():
        draws = logs[known, 1:].reshape(known.sum(), len(BLOCKS), _DRAWS)
        deviations = np.abs(draws - draws.mean(axis=2, keepdims=True))
        spreads = draws.std(axis=2, ddof=1)
        scaled = np.divide(
            deviations,
            spreads[:, :, None],
            out=np.zeros_like(deviations),
            where=spreads[:, :, None] > 0,
        )
        factor = np.quantile(scaled.max(axis=0), _CONFIDENCE)
        # Few blocks vary less, and are less sure of it, than many.
        widths = [
            gains.student(count - 1)
            / gains.student(_DRAWS)
            * (count / (count - 1)) ** 0.5
            for count in BLOCKS
        ]
        halves[known] = factor * (spreads * widths).max(axis=1)
    return [
        Ratio(*np.exp([log, log - half, log + half]).tolist())
        for log, half in zip(logs[:, 0], halves, strict=True)
    ]


# -- the recommendation ----------------------------------------------------


def advice(found: Mapping[str, metrics.Floats], configured: str) -> str:
    """Return in one sentence what the intervals allow to recommend."""
    ratios = compare(found, configured)
    shorter = {
        name: each
        for name, each in ratios.items()
        if each[0].high < 1 and each[0].value <= _WORTHWHILE
    }
    better = {
        name: each for name, each in shorter.items() if not _losses(each)
    }
    if not better:
        text = f"no strategy is clearly better than {configured}"
        for name in sorted(ratios, key=lambda one: ratios[one][0])[:1]:
            each = ratios[name]
            text += (
                f"; the shortest mean completion time of the others, {name}'s,"
                f" is {shown(each[0])}"
            )
            if name in shorter:
                losses = " and ".join(_losses(each))
                text += f", but it is clearly worse in {losses}"
        return f"{text}."
    best = min(better, key=lambda one: better[one][0])
    text = (
        f"{best} is clearly better than {configured}: its mean completion "
        f"time is {shown(better[best][0])}, and nothing is clearly worse"
    )
    to_best = compare({name: found[name] for name in better}, best)
    equal = [name for name, each in to_best.items() if not each[0].low > 1]
    if equal:
        text += f"; {', '.join(equal)} may be as good"
    return f"{text}."


def _losses(ratios: Sequence[Ratio]) -> list[str]:
    """Return the measures that are clearly worse."""
    return [
        MEASURES[at]
        for at in _GUARDED
        if (ratios[at].high < 1 if at == JAIN else ratios[at].low > 1)
    ]


def shown(ratio: Ratio) -> str:
    """Return a ratio with its interval as text."""
    if not np.isfinite(ratio.low):
        return ""
    return f"{ratio.value:.3g} × ({ratio.low:.3g}–{ratio.high:.3g})"
