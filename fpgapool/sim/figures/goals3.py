# SPDX-License-Identifier: Apache-2.0

"""Figures 3 to 5 of the paper on goals: three jobs with deadlines.

Figure 3 divides eight slots statically, and takes the times at which the jobs
then end as deadlines for elastic groups. Figures 4 and 5 have the deadlines
that the paper prints.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

from fpgapool.sim.figures import experiments
from fpgapool.sim.figures import goal_runs
from fpgapool.sim.figures import tables
from fpgapool.sim.plots import style

_Ends = tuple[float, float, float]

#: By split: ends with static sizes, and under ``throughput``, as an
#: independent simulation has them.
SPLITS: dict[tuple[int, int, int], tuple[_Ends, _Ends]] = {
    (6, 1, 1): ((41.7, 192.3, 192.3), (42.0, 93.7, 93.7)),
    (5, 2, 1): ((50.0, 104.2, 194.6), (50.7, 84.0, 94.0)),
    (4, 3, 1): ((62.5, 77.6, 198.0), (62.8, 75.3, 94.0)),
    (4, 2, 2): ((62.5, 107.7, 107.7), (62.7, 94.0, 94.0)),
    (3, 3, 2): ((83.3, 83.3, 113.5), (83.9, 83.5, 94.1)),
}
EDF: _Ends = (41.7, 71.5, 93.8)
#: Of Figures 4 and 5, and the ends under ``throughput``.
DEADLINES_S: _Ends = (50.0, 109.0, 195.0)
THROUGHPUT: _Ends = (50.7, 84.7, 94.1)
#: How far ends may be from the reference, relatively.
TOLERANCES = {"static": 0.005, "edf": 0.005, "throughput": 0.02}
_HEADER = ("figure", "deadlines", "policy", "job", "end_s", "reference_s")
_NAMES = ("first", "second", "third")
_HEIGHT_IN = 5.0


@dataclasses.dataclass(frozen=True)
class Row:
    """Three jobs under a policy.

    :ivar deadlines: where they come from.
    :ivar ends_s: of the jobs.
    :ivar reference_s: the same of an independent simulation.
    """

    figure: str
    deadlines: str
    policy: str
    ends_s: Sequence[float]
    reference_s: Sequence[float]

    @property
    def deviation(self) -> float:
        """Return the largest relative deviation from the reference."""
        return max(
            (
                ours / other - 1
                for ours, other in zip(
                    self.ends_s, self.reference_s, strict=True
                )
            ),
            key=abs,
        )

    @property
    def is_within(self) -> bool:
        """Return whether that is tolerated."""
        return abs(self.deviation) <= TOLERANCES[self.policy]


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``goals3.png`` and ``goals3.csv``; see the package."""
    rows = compare(measure)
    tables.write(
        out_dir / "goals3.csv",
        _HEADER,
        [
            (
                row.figure,
                row.deadlines,
                row.policy,
                name,
                f"{end_s:.3f}",
                f"{reference_s:g}",
            )
            for row in rows
            for name, end_s, reference_s in zip(
                _NAMES, row.ends_s, row.reference_s, strict=True
            )
        ],
    )
    _draw(rows, out_dir / "goals3.png")
    return _judge(rows)


def compare(measure: experiments.Measure) -> list[Row]:
    """Simulate all splits, and Figures 4 and 5."""
    static = {split: _run("none", split, None) for split in SPLITS}
    found = measure(list(static.values()))
    rows = []
    elastic: list[tuple[Row, goal_runs.GoalRun]] = []
    for split, (static_s, throughput_s) in SPLITS.items():
        ends_s = goal_runs.ends_s(found[static[split]][0])
        name = "-".join(map(str, split))
        rows.append(Row("3", name, "static", ends_s, static_s))
        for policy, reference_s in (
            ("edf", EDF),
            ("throughput", throughput_s),
        ):
            elastic.append(
                (
                    Row("3", name, policy, (), reference_s),
                    _run(policy, (1, 1, 1), ends_s),
                )
            )
    for policy, reference_s in (("edf", EDF), ("throughput", THROUGHPUT)):
        elastic.append(
            (
                Row("4-5", "paper's", policy, (), reference_s),
                _run(policy, (1, 1, 1), DEADLINES_S),
            )
        )
    measured = measure([run for _, run in elastic])
    return rows + [
        dataclasses.replace(row, ends_s=goal_runs.ends_s(measured[run][0]))
        for row, run in elastic
    ]


def _run(
    policy: str,
    split: Sequence[int],
    deadlines_s: Sequence[float] | None,
) -> goal_runs.GoalRun:
    return goal_runs.GoalRun(
        tuple(
            goal_runs.Job(
                name,
                slots=slots,
                deadline_s=None if deadlines_s is None else deadlines_s[at],
            )
            for at, (name, slots) in enumerate(zip(_NAMES, split, strict=True))
        ),
        policy,
    )


def _judge(rows: Sequence[Row]) -> str:
    outside = [row for row in rows if not row.is_within]
    late = max(
        row.ends_s[0] / DEADLINES_S[0] - 1
        for row in rows
        if row.figure == "4-5" and row.policy == "throughput"
    )
    lines = [
        "Figures 3 to 5 of the paper on goals "
        f"{experiments.verdict([row.is_within for row in rows])}: 'edf' ends "
        "the jobs at the same times whatever the deadlines, and earlier than "
        "each static division; 'throughput' comes close to each deadline and "
        f"misses the first of Figure 5 by {100 * late:.1f} %. Programming is "
        "free here, as in the paper, and no job is refused. Seconds until "
        "each job ends, and in parentheses the reference:"
    ]
    for row in rows:
        cells = ", ".join(
            f"{ours:6.1f} ({other:5.1f})"
            for ours, other in zip(row.ends_s, row.reference_s, strict=True)
        )
        lines.append(
            f"{row.figure:4} {row.deadlines:8} {row.policy:11} {cells}"
            + ("" if row.is_within else f"  {100 * row.deviation:+.1f} %")
        )
    if outside:
        lines.append(f"{len(outside)} of {len(rows)} rows are outside.")
    return "\n".join(lines)


def _draw(rows: Sequence[Row], path: pathlib.Path) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN,
        (1, 3),
        left=0.05,
        bottom=0.12,
        top=0.72,
        gaps=(0.0, 0.08),
        sharey=True,
    )
    policies = ("static", "edf", "throughput")
    colours = style.colours_of(_NAMES)
    for axes, policy in zip(grid[0], policies, strict=True):
        some = [row for row in rows if row.policy == policy]
        for job, name in enumerate(_NAMES):
            places = [at + 0.26 * (job - 1) for at in range(len(some))]
            axes.bar(
                places,
                [row.ends_s[job] for row in some],
                width=0.24,
                color=colours[name],
                label=f"{name} job",
            )
            axes.plot(
                places,
                [row.reference_s[job] for row in some],
                linestyle="",
                marker="_",
                markersize=12,
                color=style.INK,
                label="reference" if job == len(_NAMES) - 1 else None,
            )
        axes.set_xticks(range(len(some)), [row.deadlines for row in some])
        style.prepare_axes(axes, "y")
        style.name_panel(axes, policy)
    grid[0][0].set_ylabel("end, s", fontsize=9)
    style.add_legend(figure, grid[0][0].get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        "Goals, Figures 3 to 5: when three jobs of 3000 tasks end",
        "8 slots, deadlines: ends with static sizes, or the paper's 50, 109 "
        "and 195 s; programming is free; none refused.",
    )
    style.save(figure, path)
