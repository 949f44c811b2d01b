# SPDX-License-Identifier: Apache-2.0

"""Mixes of jobs with deadlines and rates, under policies for goals.

A rejected job counts as a missed one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from fpgapool.sim.outcomes import group_results
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import goal_runs
from reproduction.figures import group_loads
from reproduction.figures import tables

MIXES = 40
DEADLINE_JOBS = 12
#: Fewest and most tasks of a job.
ACTIONS = (300, 1500)
#: A deadline comes after the time that a job would take alone, times these.
SLACK = (2.0, 8.0)
#: Jobs with a rate, in the loads with a plus, and how long they run.
RATES_PER_S = (20.0, 30.0)
RATE_S = 90.0
#: How many points more 'hybrid' with admission should meet, by load.
GAINS = {"0.7": 4.0, "1.0": 8.0, "0.7+": 4.5, "1.0+": 8.0}
_FAR = 4
_HEADER = (
    "load",
    "policy",
    "programming_s",
    "jobs",
    "rejected",
    "met_percent",
    "accepted_met_percent",
    "rates_percent",
    "programming_percent",
    "reference_met_percent",
    "reference_rates_percent",
)
_HEIGHT_IN = 4.6


@dataclasses.dataclass(frozen=True)
class Cell:
    """A policy at a load.

    :ivar load: arriving tasks of deadline jobs over what the link carries.
    :ivar with_rates: whether there are jobs with rates, too.
    :ivar policy: in words.
    :ivar run: without jobs.
    :ivar met: percent of the deadlines, as an independent simulation has it.
    :ivar rates: percent of the rates, likewise; None: there are none.
    """

    load: float
    with_rates: bool
    policy: str
    run: goal_runs.GoalRun
    met: float
    rates: float | None = None

    @property
    def load_name(self) -> str:
        """Return the name of the load."""
        return f"{self.load}{'+' if self.with_rates else ''}"

    def runs(self) -> list[goal_runs.GoalRun]:
        """Return its simulations."""
        return [
            dataclasses.replace(
                self.run, jobs=make_jobs(self.load, self.with_rates, seed)
            )
            for seed in range(MIXES)
        ]


def _cells() -> list[Cell]:
    throughput = goal_runs.GoalRun((), "throughput")
    hybrid = goal_runs.GoalRun((), "hybrid", admission=False)
    admission = goal_runs.GoalRun((), "hybrid", admission=True)
    rows: list[tuple[float, bool, tuple[tuple[float, float | None], ...]]] = [
        (0.7, False, ((95.4, None), (99.8, None), (99.8, None))),
        (1.0, False, ((88.1, None), (98.5, None), (98.5, None))),
        (0.7, True, ((69.2, 95.3), (66.7, None), (74.2, 99.9))),
        (1.0, True, ((53.5, 95.6), (43.1, None), (62.7, 99.9))),
    ]
    cells = [
        Cell(load, with_rates, name, run, *reference)
        for load, with_rates, references in rows
        for (name, run), reference in zip(
            (
                ("throughput", throughput),
                ("edf / hybrid", hybrid),
                ("hybrid, admission", admission),
            ),
            references,
            strict=True,
        )
    ]
    programming_s = group_loads.PROGRAMMING_S
    return cells + [
        Cell(
            0.7,
            False,
            name,
            goal_runs.GoalRun(
                (), policy, stay=stay, programming_s=programming_s
            ),
            met,
        )
        for name, policy, stay, met in (
            ("throughput", "throughput", 0.0, 35.0),
            ("throughput, slots stay", "throughput", None, 79.0),
            ("edf", "edf", None, 84.0),
        )
    ]


CELLS = _cells()


@functools.cache
def make_jobs(
    load: float, with_rates: bool, seed: int
) -> tuple[goal_runs.Job, ...]:
    """Draw the jobs of a mix; the same seed gives the same jobs."""
    random = np.random.Generator(np.random.PCG64(seed))
    jobs = []
    begin_s = 0.0
    per_s = load * goal_runs.LINK_PER_S / (sum(ACTIONS) / 2)
    for number in range(DEADLINE_JOBS):
        gap, size, slack = random.random(3).tolist()
        begin_s -= math.log1p(-gap) / per_s
        actions = round(ACTIONS[0] + size * (ACTIONS[1] - ACTIONS[0]))
        alone_s = actions / goal_runs.LINK_PER_S
        due_s = SLACK[0] + slack * (SLACK[1] - SLACK[0])
        jobs.append(
            goal_runs.Job(
                f"deadline {number}",
                actions=actions,
                begin_s=begin_s,
                deadline_s=begin_s + due_s * alone_s,
                min_size=0,
            )
        )
    if with_rates:
        jobs += [
            goal_runs.Job(
                f"rate {rate_per_s:g}",
                # More than it can do.
                actions=round(goal_runs.LINK_PER_S * RATE_S),
                rate_per_s=rate_per_s,
                end_s=RATE_S,
                min_size=0,
            )
            for rate_per_s in RATES_PER_S
        ]
    return tuple(jobs)


@dataclasses.dataclass(frozen=True)
class Score:
    """What a policy reached at a load.

    :ivar jobs: with deadlines.
    :ivar accepted: of these.
    :ivar met: of these.
    :ivar rates: mean share of their rates that accepted jobs with a rate got
        in each second, in percent; NaN: there are none.
    :ivar programming: share of the slots' time, in percent.
    """

    jobs: int
    accepted: int
    met: int
    rates: float
    programming: float

    @property
    def met_percent(self) -> float:
        """Return the share of all deadlines that were met."""
        return 100 * self.met / self.jobs

    @property
    def accepted_percent(self) -> float:
        """Return the share of accepted deadlines that were met."""
        return 100 * self.met / self.accepted if self.accepted else math.nan


_Found = tuple[group_results.GroupsResult, group_results.Course]


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``goals-mixes.png`` and ``goals-mixes.csv``; see the package."""
    scores = compare(measure)
    tables.write(
        out_dir / "goals-mixes.csv",
        _HEADER,
        [
            (
                cell.load_name,
                cell.policy,
                f"{cell.run.programming_s:g}",
                score.jobs,
                score.jobs - score.accepted,
                f"{score.met_percent:.2f}",
                f"{score.accepted_percent:.2f}",
                "" if math.isnan(score.rates) else f"{score.rates:.2f}",
                f"{score.programming:.2f}",
                f"{cell.met:g}",
                "" if cell.rates is None else f"{cell.rates:g}",
            )
            for cell, score in scores.items()
        ],
    )
    _draw(scores, out_dir / "goals-mixes.png")
    return _judge(scores)


def compare(measure: experiments.Measure) -> dict[Cell, Score]:
    """Simulate all cells."""
    found = measure([run for cell in CELLS for run in cell.runs()])
    return {
        cell: _score([(run, found[run]) for run in cell.runs()])
        for cell in CELLS
    }


def _score(some: Sequence[tuple[goal_runs.GoalRun, _Found]]) -> Score:
    goals = []
    rates = []
    for run, (result, course) in some:
        for at, (job, group) in enumerate(
            zip(run.jobs, result.groups, strict=True)
        ):
            assert group.goal is not None
            if job.rate_per_s is None:
                goals.append(group.goal)
            elif group.goal.admitted:
                rates.append(_rate_share(course, at, job.rate_per_s))
    return Score(
        jobs=len(goals),
        accepted=sum(goal.admitted for goal in goals),
        met=sum(goal.met for goal in goals),
        rates=100 * sum(rates) / len(rates) if rates else math.nan,
        programming=100
        * sum(result.programming for _, (result, _) in some)
        / len(some),
    )


def _rate_share(
    course: group_results.Course, group: int, rate_per_s: float
) -> float:
    """Return the share of a rate that a job got, mean over the seconds."""
    seconds = round(RATE_S / goal_runs.STEP_S)
    ended = np.diff(course.ended[group][: seconds + 1]) / goal_runs.STEP_S
    return float(np.minimum(1.0, ended / rate_per_s).mean())


def _judge(scores: Mapping[Cell, Score]) -> str:
    plain = [cell for cell in scores if not cell.run.programming_s]
    gains = {}
    for cell in plain:
        if cell.run.admission:
            [paper] = [
                other
                for other in plain
                if other.load_name == cell.load_name
                and other.policy == "throughput"
            ]
            gains[cell] = scores[cell].met_percent - scores[paper].met_percent
    holds = [
        *(scores[cell].accepted_percent >= 99 for cell in gains),
        *(scores[cell].rates >= 99 for cell in gains if cell.with_rates),
        *(gain >= GAINS[cell.load_name] for cell, gain in gains.items()),
    ]
    points = ", ".join(
        f"{gain:.1f} at load {cell.load_name} ({GAINS[cell.load_name]:g})"
        for cell, gain in gains.items()
    )
    far = [
        f"{cell.policy} at {cell.load_name}"
        f"{', programming' if cell.run.programming_s else ''} "
        f"({score.met_percent - cell.met:+.1f})"
        for cell, score in scores.items()
        if abs(score.met_percent - cell.met) > _FAR
    ]
    lines = [
        "That 'hybrid' with admission keeps 99 % of accepted deadlines and of "
        "rates in mixes of goals, and meets more than the paper's "
        f"'throughput', {experiments.verdict(holds)}. Points more, and in "
        "parentheses the "
        f"aim: {points}. A rejected job counts as missed. More than {_FAR} "
        "points from the reference, which had other jobs: "
        f"{'; '.join(far) or 'none'}. Deadlines met, and in parentheses the "
        "reference:"
    ]
    for cell, score in scores.items():
        programming = (
            f", programming {cell.run.programming_s:g} s"
            if cell.run.programming_s
            else ""
        )
        rates = (
            ""
            if math.isnan(score.rates)
            else f", rates {score.rates:.1f} %"
            + (f" ({cell.rates})" if cell.rates else "")
        )
        lines.append(
            f"{cell.load_name:4} {cell.policy + programming:44} "
            f"{score.met_percent:5.1f} % ({cell.met:5.1f}), of accepted "
            f"{score.accepted_percent:5.1f} %, rejected "
            f"{score.jobs - score.accepted:3d} of {score.jobs}{rates}"
        )
    return "\n".join(lines)


def _draw(scores: Mapping[Cell, Score], path: pathlib.Path) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN, (1, 1), left=0.055, bottom=0.11, top=0.74
    )
    axes = grid[0][0]
    policies = list(dict.fromkeys(cell.policy for cell in scores))
    colours = style.colours_of(policies)
    places: list[str] = []
    named: set[str] = set()
    for cell, score in scores.items():
        name = f"load {cell.load_name}" + (
            ", programming 3.78 s" if cell.run.programming_s else ""
        )
        if name not in places:
            places.append(name)
            column = 0
        at = places.index(name) + 0.27 * (column - 1)
        column += 1
        axes.bar(
            at,
            score.met_percent,
            width=0.25,
            color=colours[cell.policy],
            label=None if cell.policy in named else cell.policy,
        )
        named.add(cell.policy)
        axes.plot(
            at,
            cell.met,
            linestyle="",
            marker="_",
            markersize=14,
            color=style.INK,
        )
        axes.text(at, 2, f"{score.met_percent:.1f}", ha="center", fontsize=8.5)
    axes.set_xticks(range(len(places)), places)
    axes.set_ylabel("deadlines met, %", fontsize=9)
    style.prepare_axes(axes, "y")
    style.add_legend(figure, axes.get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        "Mixes of goals: deadlines met",
        f"{MIXES} mixes of {DEADLINE_JOBS} jobs; +: with jobs of 20 and 30 "
        "tasks/s; rejected jobs count as missed; lines: reference.",
    )
    style.save(figure, path)
