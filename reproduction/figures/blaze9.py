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

from reproduction.figures import blaze5
from reproduction.figures import charts
from reproduction.figures import figure

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


def compare(measure: figure.Measure) -> Found:
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


def _by_formula(run: PipelineRun) -> float:
    stages = parts_of(run.application, run.stages)[run.part]
    return formula(stages, TASKS) / TASKS


# -- claims ----------------------------------------------------------------


def _claims(found: Found) -> list[figure.Claim]:
    low, high = PAPER_GAIN
    samples = use_over_time("LR")
    of_formula = min(_by_formula(run) / time for run, time in found.items())
    divided = ", ".join(
        f"{stages}: {gain(found, 'LR', stages):.1f} ×"
        for stages in range(2, MOST_STAGES + 1)
    )
    uses = {
        part: [100 * use for name, _, use in samples if name == part]
        for part in ITERATIONS
    }
    kernel = 1 / blaze5.SPEEDUPS["LR"]
    mean_uses = [100 * each * kernel / NAIVE["LR"] for each in PAPER_GAIN]
    return [
        figure.Claim(
            "pipelining makes LR and KM faster",
            f"{low:g} to {high:g} ×",
            ", ".join(f"{name} {gain(found, name):.2f} ×" for name in NAIVE)
            + " with the input as one stage, which is far longer than the "
            f"kernel; LR with equal stages of transfer {divided}; so the "
            "paper has more stages than input, kernel and output",
            all(low <= gain(found, name) <= high for name in NAIVE),
        ),
        figure.Claim(
            "pipelining takes what the formula says",
            "all stages once, and the longest for each further task",
            f"at least {of_formula:.3f} of the formula",
            of_formula >= LEAST_OF_FORMULA,
        ),
        figure.Claim(
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
        figure.Claim(
            "without pipelining and cache the board is hardly used",
            "consistently low",
            f"{figure.to(uses['naive'], '{:.0f}', ' %')} for LR",
            max(uses["naive"]) < 10,
        ),
        figure.Claim(
            "with pipelining its use is high from time to time",
            "high periodically",
            f"{figure.to(uses['pipelined'], '{:.0f}', ' %')} for LR; the "
            f"paper's own gain allows {mean_uses[0]:.0f} to "
            f"{mean_uses[1]:.0f} % on average",
            max(uses["pipelined"]) > 50,
        ),
        figure.Claim(
            "with cached data its use is high",
            "dramatically increased",
            f"{figure.to(uses['cached'], '{:.0f}', ' %')} for LR, with "
            f"{GAP_KERNELS:g} kernels' time between iterations of {TASKS} "
            "tasks",
            min(uses["cached"]) > 100 * LEAST_CACHED_USE,
        ),
    ]


def _picture(found: Found) -> charts.Picture:
    samples = use_over_time("LR")
    kinds = {
        "naive": ("naive", 1),
        "pipelined": ("pipelined", 1),
        f"pipelined, {MOST_STAGES} stages": ("pipelined", MOST_STAGES),
        "cached": ("cached", 1),
    }
    return charts.Picture(
        title="Figures 9 and 10 of Blaze: pipelining, and data that stays on "
        "the board",
        subtitle="Tasks go through input, kernel and output, or through four "
        "equal stages of transfer and the kernel; lines: the paper's longest.",
        panels=[
            [
                charts.Panel(
                    title="Figure 9: time of a task; 1: the processor",
                    categories=list(NAIVE),
                    levels=[("", 1.0)],
                    series=[
                        charts.Series(
                            label=label,
                            y=[
                                found[PipelineRun(name, part, stages)]
                                for name in NAIVE
                            ],
                            marks=[
                                NAIVE[name] / PAPER_GAIN[0]
                                if part == "pipelined"
                                else None
                                for name in NAIVE
                            ],
                            texts="{:.2f}",
                        )
                        for label, (part, stages) in kinds.items()
                    ],
                ),
                charts.Panel(
                    title="Figure 10: use of the board by LR, %",
                    xlabel="time",
                    series=[
                        charts.Series(
                            label=label,
                            x=[
                                start
                                for name, start, _ in samples
                                if name == part
                            ],
                            y=[
                                100 * use
                                for name, _, use in samples
                                if name == part
                            ],
                            step=True,
                        )
                        for label, part in (
                            ("naive", "naive"),
                            (f"pipelined, {MOST_STAGES} stages", "pipelined"),
                            ("cached", "cached"),
                        )
                    ],
                ),
            ]
        ],
    )


def _write_use(_found: Found, out_dir: pathlib.Path) -> None:
    figure.write(
        out_dir / "blaze10.csv",
        ("application", "part", "start", "use"),
        [
            (application, *sample)
            for application in NAIVE
            for sample in use_over_time(application)
        ],
    )


FIGURES = (
    figure.Figure(
        name="blaze9",
        subject="Figures 9 and 10 of the paper on Blaze",
        run=lambda measure: compare(measure),
        header=("application", "part", "transfer_stages", "task", "formula"),
        rows=lambda found: [
            (run.application, run.part, run.stages, time, _by_formula(run))
            for run, time in found.items()
        ],
        claims=_claims,
        picture=_picture,
        more=_write_use,
    ),
)
