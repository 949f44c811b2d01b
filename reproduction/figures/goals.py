# SPDX-License-Identifier: Apache-2.0

"""Figures 3 to 7 of the paper on goals: three jobs with deadlines, and rates.

Figure 3 divides eight slots statically, and takes the times at which the jobs
then end as deadlines for elastic groups. Figures 4 and 5 have the deadlines
that the paper prints, which are the ends with the static division 5-2-1; they
show sizes and rates over time. Figures 6 and 7 have jobs with rates, alone and
together. The paper prints no other numbers than deadlines and goals.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence

from fpgapool.sim.outcomes import group_results
from reproduction.figures import charts
from reproduction.figures import figure
from reproduction.figures import goal_runs

_Ends = tuple[float, float, float]
_Found = tuple[group_results.GroupsResult, group_results.Course]

# -- Figures 3 to 5 --------------------------------------------------------

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
#: Of Figures 4 and 5, and the ends under ``throughput``. In the paper they are
#: also the static ends of a division.
DEADLINES_S: _Ends = (50.0, 109.0, 195.0)
PAPER_SPLIT = (5, 2, 1)
#: How far our static ends of that division may be from the paper's.
PAPER_TOLERANCE = 0.05
THROUGHPUT: _Ends = (50.7, 84.7, 94.1)
#: How far ends may be from the reference, relatively.
TOLERANCES = {"static": 0.005, "edf": 0.005, "throughput": 0.02}
#: How far a rate may be from the reference, relatively.
TOLERANCE = 0.03
_NAMES = ("first", "second", "third")
#: Of Figures 4 and 5.
_COURSES = ("edf", "throughput")


@dataclasses.dataclass(frozen=True)
class Row:
    """Three jobs under a policy.

    :ivar reference_s: the ends of an independent simulation.
    :ivar paper_s: those of the paper; None: it does not print them.
    """

    figure: str
    deadlines: str
    policy: str
    ends_s: Sequence[float]
    reference_s: Sequence[float]
    paper_s: Sequence[float] | None = None

    @property
    def deviation(self) -> float:
        """Return the largest relative deviation from the reference."""
        return _deviation(self.ends_s, self.reference_s)

    @property
    def is_within(self) -> bool:
        """Return whether that is tolerated."""
        return abs(self.deviation) <= TOLERANCES[self.policy]


def _deviation(ours: Sequence[float], others: Sequence[float]) -> float:
    return max(
        (one / other - 1 for one, other in zip(ours, others, strict=True)),
        key=abs,
    )


def compare(measure: figure.Measure) -> list[Row]:
    """Simulate all splits, and Figures 4 and 5."""
    static = {split: _run("none", split, None) for split in SPLITS}
    found = measure(list(static.values()))
    rows = []
    elastic: list[tuple[Row, goal_runs.GoalRun]] = []
    for split, (static_s, throughput_s) in SPLITS.items():
        ends_s = goal_runs.ends_s(found[static[split]][0])
        name = "-".join(map(str, split))
        paper_s = DEADLINES_S if split == PAPER_SPLIT else None
        rows.append(Row("3", name, "static", ends_s, static_s, paper_s))
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
    for policy, reference_s in zip(_COURSES, (EDF, THROUGHPUT), strict=True):
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


def _claims3(rows: Sequence[Row]) -> list[figure.Claim]:
    [printed] = [row for row in rows if row.paper_s is not None]
    assert printed.paper_s is not None
    off = _deviation(printed.ends_s, printed.paper_s)
    ends = [row.ends_s for row in rows if row.policy == "edf"]
    of_edf = max(_deviation(each, ends[0]) for each in ends)
    late = max(
        row.ends_s[0] / DEADLINES_S[0] - 1
        for row in rows
        if row.figure == "4-5" and row.policy == "throughput"
    )
    return [
        figure.Claim(
            f"the ends with the static division {printed.deadlines}",
            _seconds(printed.paper_s),
            f"{_seconds(printed.ends_s)} ({100 * off:+.1f} % at most)",
            abs(off) <= PAPER_TOLERANCE,
        ),
        figure.Claim(
            "'edf' ends the jobs at the same times whatever the deadlines",
            "the same",
            f"{_seconds(ends[0])}, within {100 * abs(of_edf):.1f} %",
            abs(of_edf) <= TOLERANCES["edf"],
        ),
        figure.Claim(
            "'throughput' comes close to each deadline",
            "close",
            f"the first of Figure 5 is missed by {100 * late:.1f} %",
            late <= TOLERANCES["throughput"],
        ),
    ]


def _seconds(ends_s: Sequence[float]) -> str:
    return "/".join(f"{end_s:.0f}" for end_s in ends_s) + " s"


def _notes3(rows: Sequence[Row]) -> list[str]:
    outside = [row for row in rows if not row.is_within]
    lines = [
        f"{len(rows) - len(outside)} of {len(rows)} rows are those of an "
        "independent simulation. Programming is free, and no job is refused. "
        "Seconds until each job ends, and in parentheses the reference:"
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
    return lines


def _picture3(rows: Sequence[Row]) -> charts.Picture:
    return charts.Picture(
        title="Goals, Figures 3 to 5: when three jobs of 3000 tasks end",
        subtitle="8 slots, deadlines: ends with static sizes, or the paper's "
        "50, 109 and 195 s; programming is free; none refused.",
        gap_in=0.4,
        sharey="row",
        panels=[
            [
                charts.Panel(
                    title=f"{policy}: end, s",
                    categories=[row.deadlines for row in some],
                    series=[
                        charts.Series(
                            label=f"{name} job",
                            y=[row.ends_s[job] for row in some],
                            marks=[row.reference_s[job] for row in some],
                        )
                        for job, name in enumerate(_NAMES)
                    ],
                )
                for policy in ("static", "edf", "throughput")
                for some in [[row for row in rows if row.policy == policy]]
            ]
        ],
    )


def _draw_courses(_rows: object, out_dir: pathlib.Path) -> None:
    """Draw Figures 4 and 5: sizes, and the mean rate since the start."""
    panels: list[list[charts.Panel]] = [[], []]
    for number, policy in enumerate(_COURSES, 4):
        course = _run(policy, (1, 1, 1), DEADLINES_S).measure()[1]
        labels = [f"{name} job" for name in _NAMES]
        ends = [each.index(each[-1]) + 1 for each in course.ended]
        panels[0].append(
            charts.Panel(
                title=f"Figure {number}: {policy}, members",
                series=[
                    charts.Series(
                        label=label, x=course.times_s, y=members, step=True
                    )
                    for label, members in zip(
                        labels, course.members, strict=True
                    )
                ],
            )
        )
        panels[1].append(
            charts.Panel(
                title="tasks/s since the start",
                xlabel="seconds since the start",
                levels=[
                    (label, goal_runs.ACTIONS / deadline_s)
                    for label, deadline_s in zip(
                        labels, DEADLINES_S, strict=True
                    )
                ],
                series=[
                    charts.Series(
                        label=label,
                        x=course.times_s[1:end],
                        y=[
                            count / time_s
                            for count, time_s in zip(
                                ended[1:end],
                                course.times_s[1:end],
                                strict=True,
                            )
                        ],
                    )
                    for label, ended, end in zip(
                        labels, course.ended, ends, strict=True
                    )
                ],
            )
        )
    charts.draw(
        charts.Picture(
            title="Goals, Figures 4 and 5: three jobs with deadlines over "
            "time",
            subtitle="Deadlines of 50, 109 and 195 s for 3000 tasks each; "
            "dotted: the mean rates that meet them; programming is free; none "
            "refused.",
            panels=panels,
            row_in=2.0,
            sharex=True,
            sharey="row",
        ),
        out_dir / "goals4-5.png",
    )


# -- Figures 6 and 7 -------------------------------------------------------

#: The controller needs some periods; then rates are measured.
_SETTLED_S = 5.0


@dataclasses.dataclass(frozen=True)
class Rate:
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
    def name(self) -> str:
        """Return what it is, in words."""
        goal = (
            "no goal" if self.goal_per_s is None else f"{self.goal_per_s:g}/s"
        )
        return f"Figure {self.figure}, {goal}, {self.span}"


def _rated(*rates_per_s: float) -> goal_runs.GoalRun:
    return goal_runs.GoalRun(
        tuple(
            goal_runs.Job(f"{rate_per_s:g}", rate_per_s=rate_per_s)
            for rate_per_s in rates_per_s
        ),
        "throughput",
    )


_TOGETHER = _rated(60.0, 20.0)
_ALONE = {
    None: goal_runs.GoalRun((goal_runs.Job("none", slots=8),), "none"),
    60.0: _rated(60.0),
    30.0: _rated(30.0),
}
_REFERENCE = {None: (96.0, 8.0), 60.0: (66.4, 4.0), 30.0: (33.2, 2.0)}


@dataclasses.dataclass(frozen=True)
class Rates:
    """All rows, and what the picture shows."""

    rows: list[Rate]
    courses: dict[str, tuple[group_results.Course, tuple[str, ...]]]


def rate(measure: figure.Measure) -> Rates:
    """Simulate the jobs alone and together."""
    found = measure([*_ALONE.values(), _TOGETHER])
    rows = [
        _rate("6", goal, "alone", found[run], 0, (0.0, None), _REFERENCE[goal])
        for goal, run in _ALONE.items()
    ]
    both = found[_TOGETHER]
    goal = both[0].groups[0].goal
    assert goal is not None
    end_s = goal.ended_s
    assert end_s is not None
    for job_goal, span, at, times_s, reference in (
        (60.0, "together", 0, (0.0, end_s), (71.0, 5.7)),
        (20.0, "together", 1, (0.0, end_s), (24.9, 2.0)),
        (20.0, "then alone", 1, (end_s, None), (33.2, 2.0)),
    ):
        rows.append(_rate("7", job_goal, span, both, at, times_s, reference))
    return Rates(
        rows,
        {
            "Figure 6: goal 60/s": (found[_ALONE[60.0]][1], ("60",)),
            "Figure 6: goal 30/s": (found[_ALONE[30.0]][1], ("30",)),
            "Figure 7: goals 60/s and 20/s": (both[1], ("60", "20")),
        },
    )


def _rate(
    name: str,
    goal_per_s: float | None,
    span: str,
    found: _Found,
    group: int,
    times_s: tuple[float, float | None],
    reference: tuple[float, float],
) -> Rate:
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
    return Rate(
        name,
        goal_per_s,
        span,
        ended / passed_s,
        sum(members) / len(members),
        reference,
    )


def _claims6(found: Rates) -> list[figure.Claim]:
    claims = [
        figure.Claim(
            f"{row.name}: the goal is met",
            "met",
            f"{row.per_s:.1f}/s on {row.slots:.1f} slots",
            row.goal_per_s is None or row.per_s >= row.goal_per_s,
        )
        for row in found.rows
    ]
    *_, together, alone = found.rows
    return [
        *claims,
        figure.Claim(
            "the job of 20/s gets more when the other one has ended, because "
            "the link is free",
            "with the same two slots",
            f"{together.per_s:.1f}/s on {together.slots:.1f} slots, then "
            f"{alone.per_s:.1f}/s on {alone.slots:.1f}; one slot would do "
            f"{goal_runs.SLOT_PER_S:g}/s",
            alone.per_s > together.per_s
            and abs(alone.slots - together.slots) <= 0.5,
        ),
    ]


def _picture6(found: Rates) -> charts.Picture:
    return charts.Picture(
        title="Goals, Figures 6 and 7: rates under 'throughput'",
        subtitle="8 slots of 16.6 tasks/s, 96 tasks/s together; dotted: "
        "goals; none refused.",
        row_in=1.5,
        sharex=True,
        panels=[
            [
                charts.Panel(
                    title=f"{title}: members",
                    xlabel="seconds since the start",
                    series=[
                        charts.Series(
                            label=f"goal {name}/s",
                            x=course.times_s,
                            y=course.members[at],
                            step=True,
                        )
                        for at, name in enumerate(names)
                    ],
                ),
                charts.Panel(
                    title="tasks/s",
                    xlabel="seconds since the start",
                    levels=[(f"goal {name}/s", float(name)) for name in names],
                    series=[
                        charts.Series(
                            label=f"goal {name}/s",
                            x=course.times_s[1:],
                            y=[
                                (after - before) / goal_runs.STEP_S
                                for before, after in itertools.pairwise(
                                    course.ended[at]
                                )
                            ],
                        )
                        for at, name in enumerate(names)
                    ],
                ),
            ]
            for title, (course, names) in found.courses.items()
        ],
    )


FIGURES = (
    figure.Figure(
        name="goals3",
        subject="Figures 3 to 5 of the paper on goals",
        run=compare,
        header=(
            *("figure", "deadlines", "policy", "job", "end_s"),
            *("reference_s", "paper_s"),
        ),
        rows=lambda rows: [
            (
                *(row.figure, row.deadlines, row.policy, name),
                *(row.ends_s[at], row.reference_s[at]),
                row.paper_s[at] if row.paper_s else None,
            )
            for row in rows
            for at, name in enumerate(_NAMES)
        ],
        claims=_claims3,
        notes=_notes3,
        picture=_picture3,
        more=_draw_courses,
    ),
    figure.Figure(
        name="goals6",
        subject="Figures 6 and 7 of the paper on goals",
        run=rate,
        header=(
            *("figure", "goal_per_s", "while", "tasks_per_s", "slots"),
            *("reference_tasks_per_s", "reference_slots"),
        ),
        rows=lambda found: [
            (*dataclasses.astuple(row)[:-1], *row.reference)
            for row in found.rows
        ],
        claims=_claims6,
        notes=lambda found: [
            figure.agreement(
                {
                    row.name: 100 * (row.per_s / row.reference[0] - 1)
                    for row in found.rows
                },
                100 * TOLERANCE,
                " %",
            )
            + " A slot more than needed does nothing on a full link, so the "
            "sizes beside a second job depend on how the controller came to "
            "them."
        ],
        picture=_picture6,
    ),
)
