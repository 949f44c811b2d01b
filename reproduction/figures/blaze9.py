# SPDX-License-Identifier: Apache-2.0

"""Figures 9 and 10 of the paper on Blaze: pipelining and cached data.

Tasks go through stages: transfer of the input, kernel, transfer of the output.
The unit of time is what a task takes on twelve threads of the processor. The
kernel then takes what Table 1 says, and the transfers the rest of what the
paper has for a task without pipelining. The output of LR and KM is a sum, so
its transfer takes nothing.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim.plots import style
from reproduction.figures import blaze5
from reproduction.figures import experiments
from reproduction.figures import tables
from reproduction.figures import verdicts

#: Times of a task without pipelining, as the paper has them.
NAIVE = {"LR": 6.71, "KM": 6.95}
#: The least and the most that it gains by pipelining.
PAPER_GAIN = (2.8, 3.8)
#: The least of the formula that simulated pipelining should reach.
LEAST_OF_FORMULA = 0.9
LEAST_CACHED_USE = 0.85
#: Tasks that may be under way, as in the data plane.
WINDOW = 8
#: Tasks of an iteration.
TASKS = 24
#: What is between two iterations, in times of a kernel: new weights.
GAP_KERNELS = 2.0
#: Iterations that Figure 10 shows of each part.
ITERATIONS = {"naive": 2, "pipelined": 4, "cached": 20}
#: Equal stages that the transfers are divided into at most.
MOST_STAGES = 4
_HEIGHT_IN = 4.8

Interval = tuple[float, float]


class Stages(typing.NamedTuple):
    """What a task goes through.

    :ivar transfers: times of the stages before the kernel.
    :ivar overlaps: whether stages work on different tasks at a time.
    """

    transfers: tuple[float, ...]
    kernel: float
    overlaps: bool = True


def formula(stages: Stages, tasks: int) -> float:
    """Return the time of some tasks by the paper's idea.

    All stages of one task, and then the longest stage for each other one;
    without overlap, all stages of all.
    """
    times = (*stages.transfers, stages.kernel)
    if stages.overlaps:
        return sum(times) + (tasks - 1) * max(times)
    return tasks * sum(times)


def kernels(stages: Stages, tasks: int, start: float = 0.0) -> list[Interval]:
    """Simulate tasks in a pipeline.

    :returns: when the kernel works for each; it is the last stage.
    """
    times = (*stages.transfers, stages.kernel)
    free = [start] * len(times)
    found: list[Interval] = []
    for number in range(tasks):
        now = start
        if not stages.overlaps:
            now = free[-1]
        elif number >= WINDOW:
            now = found[number - WINDOW][1]
        for stage, time in enumerate(times):
            began = max(now, free[stage])
            now = free[stage] = began + time
        found.append((began, now))
    return found


def parts_of(application: str, stages: int = 1) -> dict[str, Stages]:
    """Return the three parts of Figure 9.

    :param stages: equal ones that the transfers are divided into.
    """
    kernel = 1 / blaze5.SPEEDUPS[application]
    transfers = ((NAIVE[application] - kernel) / stages,) * stages
    return {
        "naive": Stages(transfers, kernel, overlaps=False),
        "pipelined": Stages(transfers, kernel),
        "cached": Stages((), kernel),
    }


@dataclasses.dataclass(frozen=True)
class PipelineRun:
    """An iteration of an application."""

    application: str
    part: str
    stages: int = 1

    def measure(self) -> float:
        """Simulate; return the time of a task."""
        stages = parts_of(self.application, self.stages)[self.part]
        return kernels(stages, TASKS)[-1][1] / TASKS


Found = Mapping[PipelineRun, float]


def compare(measure: experiments.Measure) -> Found:
    """Simulate all parts, pipelined ones with more stages, too."""
    runs = [
        PipelineRun(application, part, stages)
        for application in NAIVE
        for part in ITERATIONS
        for stages in range(1, MOST_STAGES + 1)
        if part == "pipelined" or stages == 1
    ]
    found = measure(runs)
    return {run: found[run] for run in runs}


def gain(found: Found, application: str, stages: int = 1) -> float:
    """Return how many times faster pipelining makes an iteration."""
    return (
        found[PipelineRun(application, "naive")]
        / found[PipelineRun(application, "pipelined", stages)]
    )


def use_over_time(application: str) -> list[tuple[str, float, float]]:
    """Return how much the kernel is used over time, as Figure 10 has it.

    The transfers of the pipelined part are divided into four equal stages,
    which is the best for it.

    :returns: part, start and use of each sample; samples are as long as a
        task without pipelining.
    """
    samples = []
    start = 0.0
    for part, iterations in ITERATIONS.items():
        stages = parts_of(application, MOST_STAGES)[part]
        busy: list[Interval] = []
        now = 0.0
        for _ in range(iterations):
            busy += kernels(stages, TASKS, now)
            now = busy[-1][1] + GAP_KERNELS * stages.kernel
        length = NAIVE[application]
        # Only whole samples.
        for number in range(int(now / length)):
            begin = number * length
            samples.append(
                (part, start, _within(busy, begin, begin + length) / length)
            )
            start += length
    return samples


def _within(busy: Iterable[Interval], begin: float, end: float) -> float:
    return math.fsum(
        max(0.0, min(last, end) - max(first, begin)) for first, last in busy
    )


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write a picture, its numbers and its claims; see the package."""
    found = compare(measure)
    tables.write(
        out_dir / "blaze9.csv",
        ("application", "part", "transfer_stages", "task", "formula"),
        [
            (
                run.application,
                run.part,
                run.stages,
                f"{time:.6g}",
                f"{_by_formula(run):.6g}",
            )
            for run, time in found.items()
        ],
    )
    used = {application: use_over_time(application) for application in NAIVE}
    tables.write(
        out_dir / "blaze10.csv",
        ("application", "part", "start", "use"),
        [
            (application, part, f"{start:.6g}", f"{use:.6g}")
            for application, samples in used.items()
            for part, start, use in samples
        ],
    )
    claims = _claims(found, used)
    verdicts.write(out_dir / "blaze9-claims.csv", claims)
    _draw(found, used["LR"], out_dir / "blaze9.png")
    return verdicts.say("Figures 9 and 10 of the paper on Blaze", claims)


def _by_formula(run: PipelineRun) -> float:
    stages = parts_of(run.application, run.stages)[run.part]
    return formula(stages, TASKS) / TASKS


# -- claims ----------------------------------------------------------------


def _claims(
    found: Found, used: Mapping[str, Sequence[tuple[str, float, float]]]
) -> list[verdicts.Claim]:
    low, high = PAPER_GAIN
    of_formula = min(_by_formula(run) / time for run, time in found.items())
    divided = ", ".join(
        f"{stages}: {gain(found, 'LR', stages):.1f} ×"
        for stages in range(2, MOST_STAGES + 1)
    )
    uses = {
        part: [use for name, _, use in used["LR"] if name == part]
        for part in ITERATIONS
    }
    kernel = 1 / blaze5.SPEEDUPS["LR"]
    mean_uses = [100 * each * kernel / NAIVE["LR"] for each in PAPER_GAIN]
    return [
        verdicts.Claim(
            "pipelining makes LR and KM faster",
            f"{low:g} to {high:g} ×",
            ", ".join(f"{name} {gain(found, name):.2f} ×" for name in NAIVE)
            + " with the input as one stage, which is far longer than the "
            f"kernel; LR with equal stages of transfer {divided}; so the "
            "paper has more stages than input, kernel and output",
            all(low <= gain(found, name) <= high for name in NAIVE),
        ),
        verdicts.Claim(
            "pipelining takes what the formula says",
            "all stages once, and the longest for each further task",
            f"at least {of_formula:.3f} of the formula",
            of_formula >= LEAST_OF_FORMULA,
        ),
        verdicts.Claim(
            "cached data makes up for the transfers, from the second "
            "iteration on",
            "a huge improvement",
            ", ".join(
                f"{name} {1 / found[PipelineRun(name, 'cached')]:.1f} × the "
                "processor"
                for name in NAIVE
            ),
            all(found[PipelineRun(name, "cached")] < 1 for name in NAIVE),
        ),
        verdicts.Claim(
            "without pipelining and cache the board is hardly used",
            "consistently low",
            f"{_percents(uses['naive'])} for LR",
            max(uses["naive"]) < 0.1,
        ),
        verdicts.Claim(
            "with pipelining its use is high from time to time",
            "high periodically",
            f"{_percents(uses['pipelined'])} for LR; the paper's own gain "
            f"allows {mean_uses[0]:.0f} to {mean_uses[1]:.0f} % on average",
            max(uses["pipelined"]) > 0.5,
        ),
        verdicts.Claim(
            "with cached data its use is high",
            "dramatically increased",
            f"{_percents(uses['cached'])} for LR, with "
            f"{GAP_KERNELS:g} kernels' time between iterations of {TASKS} "
            "tasks",
            min(uses["cached"]) > LEAST_CACHED_USE,
        ),
    ]


def _percents(values: Sequence[float]) -> str:
    low, high = (f"{100 * each:.0f}" for each in (min(values), max(values)))
    return f"{low} %" if low == high else f"{low} to {high} %"


# -- picture ---------------------------------------------------------------


def _draw(
    found: Found,
    samples: Sequence[tuple[str, float, float]],
    path: pathlib.Path,
) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN, (1, 2), left=0.045, bottom=0.12, top=0.74, gaps=(0.0, 0.12)
    )
    tasks, use = grid[0]
    kinds = {
        "naive": ("naive", 1),
        "pipelined": ("pipelined", 1),
        f"pipelined, {MOST_STAGES} stages": ("pipelined", MOST_STAGES),
        "cached": ("cached", 1),
    }
    colours = style.colours_of(kinds)
    for column, (label, (part, stages)) in enumerate(kinds.items()):
        for at, application in enumerate(NAIVE):
            time = found[PipelineRun(application, part, stages)]
            place = at + 0.21 * (column - 1.5)
            tasks.bar(
                place,
                time,
                width=0.2,
                color=colours[label],
                label=None if at else label,
            )
            tasks.text(
                place,
                time,
                f"{time:.2f}",
                ha="center",
                va="bottom",
                fontsize=8.5,
            )
            if part == "pipelined":
                tasks.plot(
                    [place + 0.08] * 2,
                    [NAIVE[application] / each for each in PAPER_GAIN],
                    color=style.INK,
                    linewidth=2,
                    label=None if at or stages > 1 else "paper",
                )
    tasks.axhline(1, color=style.MUTED, linewidth=1, linestyle="--")
    tasks.set_xticks(range(len(NAIVE)), list(NAIVE))
    style.name_panel(tasks, "Figure 9: time of a task; 1: the processor")
    for part, (_, colour) in zip(
        ITERATIONS,
        [each for each in colours.items() if each[0] != "pipelined"],
        strict=True,
    ):
        some = [each for each in samples if each[0] == part]
        use.bar(
            [start for _, start, _ in some],
            [100 * value for _, _, value in some],
            width=NAIVE["LR"],
            align="edge",
            color=colour,
        )
    use.set_xlabel("time", fontsize=9)
    style.name_panel(use, "Figure 10: use of the board by LR, %")
    for axes in grid[0]:
        style.prepare_axes(axes, "y")
        axes.set_ylim(bottom=0)
    style.add_legend(figure, tasks.get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        "Figures 9 and 10 of Blaze: pipelining, and data that stays on the "
        "board",
        "Tasks go through input, kernel and output, or through four equal "
        "stages of transfer and the kernel.",
    )
    style.save(figure, path)
