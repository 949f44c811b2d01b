# SPDX-License-Identifier: Apache-2.0

"""Figures 5 to 7 of the paper on FPGA groups.

Figure 5: what a group adds to a short task. Figure 6: the time per task over
the size of the group. Figure 7: elastic groups against static ones; the paper
has the totals of one run of each kind, and not its arrivals, so the table has
two loads that fit what it prints, and means over seeds.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import elastic
from fpgapool.sim import plots
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import group_results
from reproduction.figures import charts
from reproduction.figures import figure
from reproduction.figures import group_loads

_MS = 1e3
#: Figure 5: a task each second.
TASKS = 300
TASK_S = 0.33e-3
#: Figure 6: a batch each 0.1 s, of tasks of 1 ms.
RATES_PER_S = (1500, 3000, 6000)
SIZES = tuple(range(1, group_loads.SLOTS + 1))
BATCHES = 300
_BETWEEN_S = 0.1
_TASK6_S = 1e-3
#: What each task of a batch takes besides, as the paper's values imply.
_OVERHEAD6_S = 0.12e-3
#: The paper's times per task by size, and by how much ours may differ.
PAPER_MS = {2: 0.64, 8: 0.23}
_TOLERANCE = 0.05


@dataclasses.dataclass(frozen=True)
class SteadyRun:
    """A group of a fixed size with a batch at regular intervals."""

    slots: int
    task_s: float
    batch_tasks: int
    between_s: float
    batches: int

    def measure(self) -> group_results.Latency:
        """Simulate."""
        client = scenarios.GroupClient(
            name="client",
            task_s=self.task_s,
            batch_tasks=self.batch_tasks,
            arrivals_s=tuple(
                at * self.between_s for at in range(self.batches)
            ),
        )
        group = scenarios.Group(
            name="group", slots=self.slots, clients=(client,)
        )
        scenario = group_loads.make_scenario([group], scenarios.Elasticity())
        return elastic.run(scenario, group_loads.POLICY)[0].latency

    @property
    def is_steady(self) -> bool:
        """Return whether the group can do as much as arrives."""
        work_s = self.batch_tasks * self.task_s
        return work_s <= self.slots * self.between_s * (1 + 1e-9)


# -- Figure 5 --------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Added:
    """What calls take, in ms: a slot of its own, and a group of 1."""

    latency: group_results.Latency
    alone_ms: float
    group_ms: float
    spread_ms: float


def _add(measure: figure.Measure) -> Added:
    run = SteadyRun(1, TASK_S, 1, 1.0, TASKS)
    latency = measure([run])[run]
    assert latency.mean_s is not None
    assert latency.worst_s is not None
    alone_ms = _MS * (latency.mean_s + group_loads.PATH_S)
    return Added(
        latency,
        alone_ms,
        alone_ms + _MS * group_loads.GROUP_S,
        _MS * (latency.worst_s - latency.mean_s),
    )


def _picture5(found: Added) -> charts.Picture:
    added_ms = found.group_ms - found.alone_ms
    parts = {
        "task": [_MS * TASK_S] * 2,
        "path": [_MS * group_loads.PATH_S] * 2,
        "group": [0.0, added_ms],
    }
    return charts.Picture(
        title="Figure 5 of FPGA groups: a task of 0.33 ms each second",
        subtitle=f"{TASKS} tasks, none refused. Path and group are constants "
        "of the model; benchmark group_tasks measures them.",
        left_in=1.3,
        panels=[
            [
                charts.Panel(
                    title="ms from the call to its result",
                    horizontal=True,
                    categories=["slot of its own", "group of 1"],
                    series=[
                        charts.Series(
                            label=name,
                            y=values,
                            stacked=name != "task",
                            texts=[
                                f"{found.alone_ms:.2f} ms",
                                f"{found.group_ms:.2f} ms",
                            ]
                            if name == "group"
                            else "",
                        )
                        for name, values in parts.items()
                    ],
                )
            ]
        ],
    )


# -- Figure 6 --------------------------------------------------------------

Times = dict[tuple[int, int], tuple[SteadyRun, group_results.Latency]]


def _vary(measure: figure.Measure) -> Times:
    runs = {
        (rate, slots): SteadyRun(
            slots, _TASK6_S, round(rate * _BETWEEN_S), _BETWEEN_S, BATCHES
        )
        for rate in RATES_PER_S
        for slots in SIZES
    }
    found = measure(list(runs.values()))
    return {key: (run, found[run]) for key, run in runs.items()}


def _per_task_ms(run: SteadyRun, found: group_results.Latency) -> float:
    assert found.mean_s is not None
    return _MS * (found.mean_s / run.batch_tasks + _OVERHEAD6_S)


def _claims6(found: Times) -> list[figure.Claim]:
    claims = []
    for slots, paper_ms in PAPER_MS.items():
        ours_ms = _per_task_ms(*found[min(RATES_PER_S), slots])
        claims.append(
            figure.Claim(
                f"time per task with {slots} slots",
                f"{paper_ms:.2f} ms, which must be that of a batch over its "
                "tasks",
                f"{ours_ms:.2f} ms ({figure.change(ours_ms, paper_ms)})",
                abs(ours_ms / paper_ms - 1) <= _TOLERANCE,
            )
        )
    steady = [
        min(size for size in SIZES if found[rate, size][0].is_steady)
        for rate in RATES_PER_S
    ]
    claims.append(
        figure.Claim(
            f"{figure.listed(RATES_PER_S)} tasks/s need more slots each",
            "more",
            f"they are steady from {figure.listed(steady)} slots on",
            steady == sorted(steady),
        )
    )
    return claims


def _picture6(found: Times) -> charts.Picture:
    lines = {
        rate: [size for size in SIZES if found[rate, size][0].is_steady]
        for rate in RATES_PER_S
    }
    return charts.Picture(
        title="Figure 6 of FPGA groups: time per task over the size",
        subtitle="A batch each 0.1 s of tasks of 1 ms; time of a batch over "
        "its tasks, + 0.12 ms; sizes that are too small for the load are left "
        "out; none refused.",
        panels=[
            [
                charts.Panel(
                    title="ms per task",
                    xlabel="slots of the group",
                    ticks=SIZES,
                    series=[
                        charts.Series(
                            label=f"{rate} tasks/s",
                            x=sizes,
                            y=[
                                _per_task_ms(*found[rate, size])
                                for size in sizes
                            ],
                            style={"marker": "o"},
                        )
                        for rate, sizes in lines.items()
                    ]
                    + [
                        charts.Series(
                            label="paper, 1500 tasks/s",
                            x=list(PAPER_MS),
                            y=list(PAPER_MS.values()),
                            style={
                                "linestyle": "",
                                "marker": "x",
                                "markersize": 10,
                            },
                        )
                    ],
                )
            ]
        ],
    )


# -- Figure 7 --------------------------------------------------------------

_OVERHEAD_S = group_loads.PATH_S + group_loads.GROUP_S
_PLOTTED = ("static", "nnls", "ahead")
#: How often a picture of a course has a point.
_STEP_S = 1.0
_LOW = 0.5


@dataclasses.dataclass(frozen=True)
class Values:
    """A row's values.

    :ivar useful: share of the slots' time with tasks, in percent.
    :ivar programming: share of programming, which is no use.
    :ivar worst_a_s: the longest of group A.
    :ivar refused: batches, mean over the seeds.
    """

    useful: float
    programming: float
    latency_s: float
    worst_a_s: float
    refused: float

    @property
    def idle(self) -> float:
        """Return the share without tasks and programming, in percent."""
        return 100 - self.useful - self.programming


@dataclasses.dataclass(frozen=True)
class Variant:
    """A row of the table.

    :ivar load: P or Q; low: half of it.
    :ivar name: of the policy, in words.
    :ivar reference: what an independent simulator found.
    :ivar paper: useful percent and latency as the paper prints them.
    """

    load: str
    name: str
    run: group_loads.GroupRun
    reference: Values
    paper: tuple[float, float] | None = None

    def runs(self) -> list[group_loads.GroupRun]:
        """Return its simulations."""
        return [
            dataclasses.replace(self.run, seed=seed)
            for seed in group_loads.SEEDS
        ]


def _variant(
    name: str,
    load: str,
    policy: str,
    reference: tuple[float, float, float, float, float],
    paper: tuple[float, float] | None = None,
    **members: object,
) -> Variant:
    run = group_loads.GroupRun(
        load.split()[0],
        policy,
        group_loads.SEEDS[0],
        scale=_LOW if load.endswith("low") else 1.0,
    )
    run = dataclasses.replace(run, **members)  # type: ignore[arg-type]
    return Variant(load, name, run, Values(*reference), paper)


VARIANTS = (
    _variant(
        "static", "Q", "none", (52.2, 0, 11.4, 22.0, 2803), paper=(52, 6.49)
    ),
    _variant(
        "nnls", "Q", "nnls", (63.7, 13.0, 4.42, 10.9, 0), paper=(61, 2.55)
    ),
    _variant(
        "nnls, b = I, t × S",
        "Q",
        "nnls",
        (62.7, 13.3, 4.69, 16.7, 233),
        estimate="saturated",
    ),
    _variant(
        "nnls, b = I, t ÷ S",
        "Q",
        "nnls",
        (60.7, 16.3, 7.64, 16.9, 717),
        estimate="as_printed",
    ),
    _variant("ahead", "Q", "ahead", (63.7, 1.4, 1.68, 7.1, 0)),
    _variant(
        "ahead, 5 s", "Q", "ahead", (63.8, 2.9, 1.22, 6.3, 0), period_s=5.0
    ),
    _variant(
        "static 4/3/1", "Q", "none", (63.7, 0, 0.42, 1.7, 0), split=(4, 3, 1)
    ),
    _variant("static", "P", "none", (60.5, 0, 6.06, 22.0, 882)),
    _variant("nnls", "P", "nnls", (63.0, 13.4, 6.04, 16.8, 145)),
    _variant("ahead", "P", "ahead", (64.1, 1.6, 3.45, 7.7, 0)),
    _variant(
        "ahead, 5 s", "P", "ahead", (64.1, 2.4, 2.90, 12.3, 3), period_s=5.0
    ),
    _variant(
        "static 3/3/2",
        "P",
        "none",
        (63.8, 0, 4.62, 14.7, 48),
        split=(3, 3, 2),
    ),
    _variant(
        "static",
        "Q low",
        "none",
        (32.0, 0, 0.56, 2.7, 0),
        paper=(32, 0.43),
    ),
    _variant("nnls", "Q low", "nnls", (32.0, 17.2, 1.80, 7.5, 0)),
    _variant("ahead", "Q low", "ahead", (32.0, 0.8, 0.16, 1.4, 0)),
)


def compare(measure: figure.Measure) -> dict[Variant, Values]:
    """Simulate all variants."""
    results = measure([run for each in VARIANTS for run in each.runs()])
    return {
        variant: _mean([results[run] for run in variant.runs()])
        for variant in VARIANTS
    }


def _mean(some: Sequence[group_results.GroupsResult]) -> Values:
    def mean(values: Sequence[float]) -> float:
        return math.fsum(values) / len(values)

    return Values(
        useful=100 * mean([each.busy for each in some]),
        programming=100 * mean([each.programming for each in some]),
        latency_s=mean([_given(each.latency.mean_s) for each in some])
        + _OVERHEAD_S,
        worst_a_s=max(_given(each.group("A").latency.worst_s) for each in some)
        + _OVERHEAD_S,
        refused=mean([each.latency.refused for each in some]),
    )


def _given(value_s: float | None) -> float:
    return math.nan if value_s is None else value_s


def _row(variant: Variant, values: Values) -> tuple[object, ...]:
    return (
        *(variant.load, variant.name, len(group_loads.SEEDS)),
        *(values.useful, values.programming, values.idle, values.latency_s),
        *(values.worst_a_s, values.refused),
        *(variant.paper or (None, None)),
        *dataclasses.astuple(variant.reference),
    )


def _claims7(found: Mapping[Variant, Values]) -> list[figure.Claim]:
    of = {(each.load, each.name): values for each, values in found.items()}

    def change(load: str, name: str) -> float:
        before = of[load, "static"].latency_s
        return 100 * (of[load, name].latency_s / before - 1)

    static, nnls = of["Q", "static"], of["Q", "nnls"]
    saved, best = change("Q", "nnls"), of["Q", "static 4/3/1"]
    return [
        figure.Claim(
            "the useful share of static sizes with load Q",
            "52 %",
            f"{static.useful:.1f} %",
            abs(static.useful - 52) <= 1.5,
        ),
        figure.Claim(
            "that of the paper's rule",
            "61 %",
            f"{nnls.useful:.1f} %, and programming takes "
            f"{nnls.programming:.1f} % besides, which is no use",
            nnls.useful >= 61,
        ),
        figure.Claim(
            "the rule makes latencies shorter",
            "-61 % (6.49 to 2.55 s)",
            f"{saved:+.0f} % with load Q, {change('P', 'nnls'):+.0f} % with "
            f"P, {change('Q low', 'nnls'):+.0f} % at low load; the best "
            f"static sizes, 4/3/1, have {best.latency_s:.2f} s",
            saved <= -55,
        ),
        figure.Claim(
            "'ahead' makes them shorter still, with less programming",
            "not looked at",
            f"{change('Q', 'ahead'):+.0f} % on Q, {change('P', 'ahead'):+.0f} "
            f"% on P, {change('Q low', 'ahead'):+.0f} % at low load; "
            f"programming {of['Q', 'ahead'].programming:.1f} and "
            f"{of['P', 'ahead'].programming:.1f} %",
            change("Q", "ahead") < saved,
        ),
    ]


def _notes7(found: Mapping[Variant, Values]) -> list[str]:
    lines = [
        "Ours, and in parentheses an independent simulation of other "
        "arrivals:",
        f"{'load':6}{'policy':20}{'useful %':>15}{'programming %':>15}"
        f"{'latency s':>16}{'worst A s':>15}{'refused':>15}",
    ]
    for variant, values in found.items():
        other = variant.reference
        lines.append(
            f"{variant.load:6}{variant.name:20}"
            f"{values.useful:6.1f} ({other.useful:6.1f})"
            f"{values.programming:7.1f} ({other.programming:5.1f})"
            f"{values.latency_s:8.2f} ({other.latency_s:5.2f})"
            f"{values.worst_a_s:7.1f} ({other.worst_a_s:5.1f})"
            f"{values.refused:7.0f} ({other.refused:5.0f})"
        )
    return lines


def _picture7(found: Mapping[Variant, Values]) -> charts.Picture:
    def panel(title: str, text: str, *members: str) -> charts.Panel:
        return charts.Panel(
            title=title,
            horizontal=True,
            categories=[f"{each.load}: {each.name}" for each in found],
            series=[
                charts.Series(
                    label="tasks" if at == 0 else "programming",
                    y=[getattr(each, member) for each in found.values()],
                    stacked=at > 0,
                    marks=[getattr(each.reference, member) for each in found]
                    if at == 0
                    else [],
                    texts=text,
                )
                for at, member in enumerate(members)
            ],
        )

    return charts.Picture(
        title="Figure 7 of FPGA groups: elastic groups against static ones",
        subtitle=f"8 slots, {group_loads.PERIOD_S:g} s periods, programming "
        f"{group_loads.PROGRAMMING_S} s; means of {len(group_loads.SEEDS)} "
        "seeds. Accepted batches have a latency, refused ones have none.",
        row_in=4.2,
        left_in=1.7,
        gap_in=0.4,
        sharey="row",
        panels=[
            [
                panel("time of the slots, %", "", "useful", "programming"),
                panel("mean latency, s", "{:.2f}", "latency_s"),
                panel("refused batches", "{:.0f}", "refused"),
            ]
        ],
    )


def _draw_courses(_found: object, out_dir: pathlib.Path) -> None:
    """Draw the first seed of some policies."""
    for load in ("P", "Q"):
        courses = {}
        for variant in VARIANTS:
            if variant.load == load and variant.name in _PLOTTED:
                result, course = variant.run.record(_STEP_S)
                title = (
                    f"{variant.name}: {result.latency.mean_s:.2f} s mean "
                    f"latency, {result.latency.refused} batches refused"
                )
                courses[title] = course
        plots.draw_groups(
            courses,
            group_loads.NAMES,
            out_dir / f"groups7-{load}.png",
            title=f"FPGA groups over time, load {load}",
            subtitle="8 slots; missing members are being programmed; first "
            "seed.",
        )


FIGURES = (
    figure.Figure(
        name="groups5",
        subject="Figure 5 of FPGA groups (both parts are constants of the "
        "model; the benchmark group_tasks measures a real group)",
        run=_add,
        header=("access", "tasks", "refused", "mean_ms", "above_mean_ms"),
        rows=lambda found: [
            (
                *(name, found.latency.batches, found.latency.refused),
                *(mean_ms, found.spread_ms),
            )
            for name, mean_ms in (
                ("slot", found.alone_ms),
                ("group of 1", found.group_ms),
            )
        ],
        claims=lambda found: [
            figure.Claim(
                "a group of 1 adds little to a short task",
                "0.09 ms",
                f"adds {found.group_ms - found.alone_ms:.2f} ms to "
                f"{found.alone_ms:.2f} ms, with the same spread",
                found.group_ms - found.alone_ms < 0.1,
            )
        ],
        picture=_picture5,
    ),
    figure.Figure(
        name="groups6",
        subject="Figure 6 of FPGA groups",
        run=_vary,
        header=(
            *("tasks_per_s", "size", "time_per_task_ms", "refused", "steady"),
        ),
        rows=lambda found: [
            (
                *(*key, _per_task_ms(run, latency), latency.refused),
                "yes" if run.is_steady else "no",
            )
            for key, (run, latency) in found.items()
        ],
        claims=_claims6,
        picture=_picture6,
    ),
    figure.Figure(
        name="groups7",
        subject="Figure 7 of FPGA groups",
        run=lambda measure: compare(measure),
        header=(
            *("load", "variant", "seeds", "useful_percent"),
            *("programming_percent", "idle_percent", "latency_s"),
            *("worst_a_s", "refused", "paper_useful_percent"),
            *("paper_latency_s", "reference_useful_percent"),
            *("reference_programming_percent", "reference_latency_s"),
            *("reference_worst_a_s", "reference_refused"),
        ),
        rows=lambda found: [_row(*each) for each in found.items()],
        claims=_claims7,
        notes=_notes7,
        picture=_picture7,
        more=_draw_courses,
    ),
)
