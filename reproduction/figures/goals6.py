# SPDX-License-Identifier: Apache-2.0

"""Figures 6 and 7 of the paper on goals: rates, alone and together."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Sequence

from fpgapool.sim.outcomes import group_results
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import goal_runs
from reproduction.figures import tables

#: How far a rate may be from the reference, relatively.
TOLERANCE = 0.03
#: The controller needs some periods; then rates are measured.
_SETTLED_S = 5.0
_HEADER = (
    "figure",
    "goal_per_s",
    "while",
    "tasks_per_s",
    "slots",
    "reference_tasks_per_s",
    "reference_slots",
)
_HEIGHT_IN = 6.4


@dataclasses.dataclass(frozen=True)
class Row:
    """A job over a time.

    :ivar goal_per_s: None: it has none.
    :ivar per_s: tasks that ended per second.
    :ivar slots: mean number of its members.
    :ivar reference: the same two as an independent simulation has them.
    """

    figure: str
    goal_per_s: float | None
    span: str
    per_s: float
    slots: float
    reference: tuple[float, float]

    @property
    def deviation(self) -> float:
        """Return the relative deviation of the rate."""
        return self.per_s / self.reference[0] - 1

    @property
    def is_met(self) -> bool:
        """Return whether the goal is met; without a goal it is."""
        return self.goal_per_s is None or self.per_s >= self.goal_per_s


_ALONE = {
    None: goal_runs.GoalRun((goal_runs.Job("none", slots=8),), "none"),
    60.0: goal_runs.GoalRun(
        (goal_runs.Job("60", rate_per_s=60.0),), "throughput"
    ),
    30.0: goal_runs.GoalRun(
        (goal_runs.Job("30", rate_per_s=30.0),), "throughput"
    ),
}
_REFERENCE = {None: (96.0, 8.0), 60.0: (66.4, 4.0), 30.0: (33.2, 2.0)}
_TOGETHER = goal_runs.GoalRun(
    (
        goal_runs.Job("60", rate_per_s=60.0),
        goal_runs.Job("20", rate_per_s=20.0),
    ),
    "throughput",
)


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``goals6.png`` and ``goals6.csv``; see the package."""
    found = measure([*_ALONE.values(), _TOGETHER])
    rows = [
        _row("6", goal, "alone", found[run], 0, (0.0, None), _REFERENCE[goal])
        for goal, run in _ALONE.items()
    ]
    both = found[_TOGETHER]
    goal = both[0].groups[0].goal
    assert goal is not None
    assert goal.ended_s is not None
    rows += [
        _row("7", 60.0, "together", both, 0, (0.0, goal.ended_s), (71.0, 5.7)),
        _row("7", 20.0, "together", both, 1, (0.0, goal.ended_s), (24.9, 2.0)),
        _row(
            "7", 20.0, "then alone", both, 1, (goal.ended_s, None), (33.2, 2.0)
        ),
    ]
    tables.write(
        out_dir / "goals6.csv",
        _HEADER,
        [
            (
                row.figure,
                "" if row.goal_per_s is None else f"{row.goal_per_s:g}",
                row.span,
                f"{row.per_s:.2f}",
                f"{row.slots:.2f}",
                *(f"{value:g}" for value in row.reference),
            )
            for row in rows
        ],
    )
    _draw(
        {
            "Figure 6: goal 60/s": (found[_ALONE[60.0]][1], ("60",)),
            "Figure 6: goal 30/s": (found[_ALONE[30.0]][1], ("30",)),
            "Figure 7: goals 60/s and 20/s": (both[1], ("60", "20")),
        },
        out_dir / "goals6.png",
    )
    return _judge(rows)


def _row(
    figure: str,
    goal_per_s: float | None,
    span: str,
    found: tuple[group_results.GroupsResult, group_results.Course],
    group: int,
    times_s: tuple[float, float | None],
    reference: tuple[float, float],
) -> Row:
    result, course = found
    from_s, to_s = times_s[0], times_s[1] or result.horizon_s
    # Without the time in which sizes settle, and the end of the last tasks.
    inside = [
        at
        for at, time_s in enumerate(course.times_s)
        if from_s + _SETTLED_S <= time_s <= to_s - goal_runs.STEP_S
    ]
    first, last = inside[0], inside[-1]
    passed_s = course.times_s[last] - course.times_s[first]
    ended = course.ended[group][last] - course.ended[group][first]
    members = course.members[group][first:last]
    return Row(
        figure,
        goal_per_s,
        span,
        ended / passed_s,
        sum(members) / len(members),
        reference,
    )


def _gain(rows: Sequence[Row]) -> str:
    """Say what the second job of Figure 7 gets after the first one."""
    together, alone = (
        row for row in rows if row.figure == "7" and row.goal_per_s == 20
    )
    holds = alone.per_s > together.per_s and math.isclose(
        alone.slots, together.slots, abs_tol=0.5
    )
    return (
        f"{'so' if holds else 'NOT so'}: {together.per_s:.1f}/s on "
        f"{together.slots:.1f} slots, then {alone.per_s:.1f}/s on "
        f"{alone.slots:.1f}"
    )


def _judge(rows: Sequence[Row]) -> str:
    verdict = experiments.verdict([row.is_met for row in rows])
    far = [row for row in rows if abs(row.deviation) > TOLERANCE]
    parts = []
    for row in rows:
        goal = "no goal" if row.goal_per_s is None else f"{row.goal_per_s:g}/s"
        parts.append(
            f"Figure {row.figure}, {goal}, {row.span}: {row.per_s:.1f}/s on "
            f"{row.slots:.1f} slots (reference: {row.reference[0]:g} on "
            f"{row.reference[1]:g}"
            + (f", {100 * row.deviation:+.0f} %)" if row in far else ")")
        )
    return "\n".join(
        [
            f"Figures 6 and 7 of the paper on goals: each goal "
            f"{'is met' if verdict == 'holds' else verdict}; "
            f"{len(rows) - len(far)} of {len(rows)} rates are within "
            f"± {100 * TOLERANCE:.0f} % of the reference. A slot more than "
            "needed does nothing on a full link, so the sizes beside a second "
            "job depend on how the controller came to them. The paper prints "
            "the goals only, and says that the rate of 60/s is well above its "
            "goal, and that the job of 20/s gets more when the other one has "
            "ended, because the link is free, with the same two slots: one "
            f"slot would do {goal_runs.SLOT_PER_S:g}/s. Here it is "
            f"{_gain(rows)}.",
            *parts,
        ]
    )


def _draw(
    courses: dict[str, tuple[group_results.Course, tuple[str, ...]]],
    path: pathlib.Path,
) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN,
        (len(courses), 2),
        left=0.055,
        bottom=0.085,
        top=0.79,
        gaps=(0.4, 0.13),
        sharex=True,
    )
    colours = style.lines_of(["60", "30", "20"])
    for (title, (course, names)), (sizes, rates) in zip(
        courses.items(), grid, strict=True
    ):
        for at, name in enumerate(names):
            sizes.step(
                course.times_s,
                course.members[at],
                where="post",
                color=colours[name],
                label=f"goal {name}/s",
            )
            rates.plot(
                course.times_s[1:],
                [
                    (after - before) / goal_runs.STEP_S
                    for before, after in itertools.pairwise(course.ended[at])
                ],
                color=colours[name],
            )
            rates.axhline(float(name), color=colours[name], linestyle=":")
        for axes, what in ((sizes, "members"), (rates, "tasks/s")):
            style.prepare_axes(axes, "both")
            style.name_panel(axes, title)
            axes.set_ylabel(what, fontsize=9)
            axes.set_ylim(bottom=0)
    for axes in grid[-1]:
        axes.set_xlabel("seconds since the start", fontsize=9)
    handles = {
        label: handle
        for sizes, _ in grid
        for handle, label in zip(
            *sizes.get_legend_handles_labels(), strict=True
        )
    }
    style.add_legend(figure, list(handles.values()))
    style.write_texts(
        figure,
        "Goals, Figures 6 and 7: rates under 'throughput'",
        "8 slots of 16.6 tasks/s, 96 tasks/s together; dotted: goals; none "
        "refused.",
    )
    style.save(figure, path)
