# SPDX-License-Identifier: Apache-2.0

"""Figure 7 of FPGA groups: elastic groups against static ones.

The paper has the totals of one run of each kind, and not its arrivals. The
table has two loads that fit what it prints, and means over seeds.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import plots
from fpgapool.sim.outcomes import group_results
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import group_loads
from reproduction.figures import tables

_OVERHEAD_S = group_loads.PATH_S + group_loads.GROUP_S
_HEADER = (
    "load",
    "variant",
    "seeds",
    "useful_percent",
    "programming_percent",
    "idle_percent",
    "latency_s",
    "worst_a_s",
    "refused",
    "paper_useful_percent",
    "paper_latency_s",
    "reference_useful_percent",
    "reference_programming_percent",
    "reference_latency_s",
    "reference_worst_a_s",
    "reference_refused",
)
_PLOTTED = ("static", "nnls", "ahead")
#: How often a picture of a course has a point.
_STEP_S = 1.0


_LOW = 0.5


@dataclasses.dataclass(frozen=True)
class Values:
    """A row's values.

    :ivar useful: share of the slots' time with tasks, in percent.
    :ivar programming: share of programming, which is no use.
    :ivar latency_s: mean of accepted batches.
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
    :ivar run: its first seed.
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


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``groups7.png``, two pictures of courses and ``groups7.csv``."""
    found = compare(measure)
    tables.write(
        out_dir / "groups7.csv",
        _HEADER,
        [_row(variant, values) for variant, values in found.items()],
    )
    _draw(found, out_dir / "groups7.png")
    for load in ("P", "Q"):
        _draw_courses(load, out_dir / f"groups7-{load}.png")
    return _judge(found)


def compare(measure: experiments.Measure) -> dict[Variant, Values]:
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
    paper = variant.paper or ("", "")
    return (
        variant.load,
        variant.name,
        len(group_loads.SEEDS),
        f"{values.useful:.2f}",
        f"{values.programming:.2f}",
        f"{values.idle:.2f}",
        f"{values.latency_s:.4f}",
        f"{values.worst_a_s:.3f}",
        f"{values.refused:.1f}",
        *paper,
        *dataclasses.astuple(variant.reference),
    )


# -- what is said ----------------------------------------------------------


def _judge(found: Mapping[Variant, Values]) -> str:
    by_name = {(each.load, each.name): each for each in found}

    def change(load: str, name: str) -> float:
        after, before = (
            found[by_name[load, one]].latency_s for one in (name, "static")
        )
        return 100 * (after / before - 1)

    static, nnls = (found[by_name["Q", one]] for one in ("static", "nnls"))
    best = found[by_name["Q", "static 4/3/1"]]
    ahead = [found[by_name[load, "ahead"]].programming for load in ("P", "Q")]
    latency = change("Q", "nnls")
    holds = [abs(static.useful - 52) <= 1.5, nnls.useful >= 61, latency <= -55]
    lines = [
        f"Figure 7 of FPGA groups {experiments.verdict(holds)} with load Q "
        f"(means of {len(group_loads.SEEDS)} seeds; paper: useful 52 to 61 %, "
        f"latency -61 %): useful {static.useful:.1f} to {nnls.useful:.1f} %, "
        f"latency {latency:+.0f} %, and programming takes "
        f"{nnls.programming:.1f} % besides, which is no use. The best static "
        f"sizes, 4/3/1, have {best.latency_s:.2f} s and win. With load P the "
        f"paper's rule changes the latency by {change('P', 'nnls'):+.0f} % "
        "only, and at low load it makes it "
        f"{1 + change('Q low', 'nnls') / 100:.1f} times as long. 'ahead' "
        f"changes it by {change('Q', 'ahead'):+.0f} % on Q, "
        f"{change('P', 'ahead'):+.0f} % on P and "
        f"{change('Q low', 'ahead'):+.0f} % at low load, with at most "
        f"{max(ahead):.1f} % programming. The paper's latencies of static "
        "sizes (6.49 s, 0.43 s) are not those of load Q. Below: ours, and in "
        "parentheses the reference, an independent simulation of other "
        "arrivals.",
        f"{'load':6}{'policy':20}{'useful %':>15}{'programming %':>15}"
        f"{'latency s':>16}{'worst A s':>15}{'refused':>15}",
    ]
    for variant, values in found.items():
        lines.append(
            f"{variant.load:6}{variant.name:20}" + _cells(variant, values)
        )
    return "\n".join(lines)


def _cells(variant: Variant, values: Values) -> str:
    reference = variant.reference
    return (
        f"{values.useful:6.1f} ({reference.useful:6.1f})"
        f"{values.programming:7.1f} ({reference.programming:5.1f})"
        f"{values.latency_s:8.2f} ({reference.latency_s:5.2f})"
        f"{values.worst_a_s:7.1f} ({reference.worst_a_s:5.1f})"
        f"{values.refused:7.0f} ({reference.refused:5.0f})"
    )


def _draw(found: Mapping[Variant, Values], path: pathlib.Path) -> None:
    height_in = 6.2
    figure, grid = style.make_panels(
        height_in,
        (1, 3),
        left=0.145,
        bottom=0.08,
        top=0.78,
        gaps=(0.0, 0.08),
        sharey=True,
    )
    rows = range(len(found))
    names = [f"{each.load}: {each.name}" for each in found]
    useful, latency, refused = grid[0]
    values = list(found.values())
    useful.barh(
        rows,
        [each.useful for each in values],
        color=style.NEUTRAL,
        label="tasks",
    )
    useful.barh(
        rows,
        [each.programming for each in values],
        left=[each.useful for each in values],
        color="#D55E00",
        label="programming",
    )
    for axes, name, pattern in (
        (latency, "latency_s", "{:.2f}"),
        (refused, "refused", "{:.0f}"),
    ):
        numbers = [getattr(each, name) for each in values]
        axes.barh(rows, numbers, color=style.NEUTRAL)
        for row, number in zip(rows, numbers, strict=True):
            axes.text(number, row, " " + pattern.format(number), va="center")
        axes.set_xlim(right=1.18 * max(numbers))
    for axes, name in zip(
        grid[0],
        ("time of the slots, %", "mean latency, s", "refused batches"),
        strict=True,
    ):
        style.prepare_axes(axes)
        style.name_panel(axes, name, 10)
        axes.plot(
            [getattr(each.reference, _MEMBERS[name]) for each in found],
            rows,
            linestyle="",
            marker="|",
            markersize=12,
            color=style.INK,
            label="reference",
        )
    useful.set_yticks(rows, names, fontsize=8.5)
    useful.invert_yaxis()
    style.add_legend(figure, useful.get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        "Figure 7 of FPGA groups: elastic groups against static ones",
        f"8 slots, {group_loads.PERIOD_S:g} s periods, programming "
        f"{group_loads.PROGRAMMING_S} s; means of {len(group_loads.SEEDS)} "
        "seeds. Accepted batches have a latency, refused ones have none.",
    )
    style.save(figure, path)


_MEMBERS = {
    "time of the slots, %": "useful",
    "mean latency, s": "latency_s",
    "refused batches": "refused",
}


def _draw_courses(load: str, path: pathlib.Path) -> None:
    """Draw the first seed of some policies."""
    courses = {}
    for variant in VARIANTS:
        if variant.load == load and variant.name in _PLOTTED:
            result, course = variant.run.record(_STEP_S)
            title = (
                f"{variant.name}: {result.latency.mean_s:.2f} s mean latency, "
                f"{result.latency.refused} batches refused"
            )
            courses[title] = course
    plots.draw_groups(
        courses,
        group_loads.NAMES,
        path,
        title=f"FPGA groups over time, load {load}",
        subtitle="8 slots; missing members are being programmed; first seed.",
    )
