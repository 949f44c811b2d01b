# SPDX-License-Identifier: Apache-2.0

"""The command ``validate``: compare the simulator with the real system."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import rich.console

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import progress
from fpgapool.sim import screen
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import schedules
from fpgapool.sim.plots import pictures
from fpgapool.vocabulary import shapes
from reproduction.figures import figure
from reproduction.validation import differences
from reproduction.validation import experiments
from reproduction.validation import picture
from reproduction.validation import system

FAILURE = 1

NAME = "figure6"
SCALES = (1e-4, 0.1)
#: Clients have a thread for each job.
MAX_JOBS = 2000
MAX_RUNS = 100
#: Above this share, the real system's own work may slow down the jobs.
_BUSY = 0.9

#: A real job that takes longer than this many times the simulation, and longer
#: than the least time, has failed.
_PATIENCE = 10.0
_LEAST_PATIENCE_S = 120.0

_HEADER = ("mode", "min_bytes", "max_bytes", "jobs", "real_s")
_JOBS_HEADER = (
    *("mode", "seed", "who", "id", "origin", "accelerator", "size_bytes"),
    *("arrival_s", "start_s", "finish_s", "host", "slot", "local"),
)


def add_parser(subparsers: typing.Any) -> None:
    """Add this command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "validate",
        help="compare the simulator with the real system",
        description="Run the same jobs in a real pool with emulated boards on "
        "this machine and in the simulator, and compare completion times "
        "(Figure 6 of the paper). Exit status 1: a mode misses the goal, or "
        "the real system failed.",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="write the picture and the tables into this directory; it is "
        "made if needed",
    )
    parser.add_argument(
        "--modes",
        default=",".join(experiments.MODES),
        metavar="LIST",
        help="sources of the jobs, separated by commas; default: "
        + "; ".join(
            f"{mode.name} ({mode.purpose})"
            for mode in experiments.MODES.values()
        ),
    )
    parser.add_argument(
        "--jobs",
        type=screen.whole(1, MAX_JOBS),
        default=120,
        metavar="N",
        help="number of jobs of each run; default: %(default)s",
    )
    parser.add_argument(
        "--runs",
        type=screen.whole(1, MAX_RUNS),
        default=2,
        metavar="N",
        help="number of runs in each mode, each with other jobs; default: "
        "%(default)s",
    )
    parser.add_argument(
        "--seed",
        type=screen.whole(0),
        default=1,
        metavar="N",
        help="seed of the first run's jobs; the other runs have the next "
        "seeds; default: %(default)s",
    )
    parser.add_argument(
        "--scale",
        type=screen.argument(float, shapes.number(*SCALES)),
        default=0.002,
        metavar="X",
        help="multiply all sizes and rates in the real system by X; times "
        "stay the same, and a smaller X means less work for this machine's "
        "processors; default: %(default)s",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run both, and show how far they are apart.

    :raises errors.InputError: for invalid input.
    :raises errors.SystemFailed: if the real system fails.
    """
    modes = _modes(arguments.modes)
    trials = _trials(modes, arguments)
    out_dir: pathlib.Path = arguments.out
    pictures.prepare(out_dir, "validate")
    files.check_writable(out_dir / f"{NAME}.csv")
    console = screen.make_console()
    done = [trial.perform() for trial in trials]
    found = [
        _compare(mode, [each for each in done if each.trial.mode is mode])
        for mode in modes
    ]
    _write(out_dir, done, found)
    try:
        picture.draw(found, _subtitle(arguments), out_dir / f"{NAME}.png")
    except OSError as error:
        raise files.unusable(out_dir, error) from error
    _show(console, found)
    screen.say(console, f"The files are in {out_dir}.")
    missed = [each.mode for each in found if not each.reaches_goal]
    return FAILURE if missed else 0


class _Trial:
    """Some jobs of a mode, for both systems."""

    def __init__(
        self, mode: experiments.Mode, seed: int, options: argparse.Namespace
    ) -> None:
        self.mode = mode
        self.seed = seed
        self.scenario = experiments.make_scenario(
            mode, options.jobs, seed, options.scale
        )
        self._scale: float = options.scale

    def perform(self) -> _Done:
        """Run the jobs in both systems.

        :raises errors.SystemFailed: if the real system fails.
        """
        name = f"{self.mode.name}, seed {self.seed}"
        simulated = {}
        # All output has the simpler engine first.
        for engine in sorted(simulation.ENGINES, reverse=True):
            with progress.work(
                f"{name}, {engine} engine", len(self.scenario.jobs), "jobs"
            ) as work:
                simulated[engine] = simulation.run(
                    self.scenario,
                    experiments.STRATEGY,
                    engine=engine,
                    on_end=work.advance,
                )
        longest_s = max(
            job.finish_s for some in simulated.values() for job in some
        )
        with progress.work(
            f"{name}: the real system starts and works for {longest_s:.0f} s"
        ):
            real = system.run(
                self.scenario,
                self._scale,
                max(_LEAST_PATIENCE_S, _PATIENCE * longest_s),
            )
        return _Done(self, real, simulated)


@dataclasses.dataclass(frozen=True)
class _Done:
    """The results of a trial."""

    trial: _Trial
    real: system.Run
    simulated: Mapping[str, Sequence[schedules.JobOutcome]]

    def sample(self) -> differences.Sample:
        """Return the completion times."""
        jobs = self.trial.scenario.jobs
        real = [self.real.times[job.id] for job in jobs]
        return differences.Sample(
            metrics.column(job.size_bytes for job in jobs),
            metrics.column(each.finish_s - each.arrival_s for each in real),
            {
                engine: metrics.column(
                    done.finish_s - job.arrival_s
                    for job, done in zip(jobs, outcomes, strict=True)
                )
                for engine, outcomes in self.simulated.items()
            },
        )

    def rows(self) -> Iterator[Sequence[object]]:
        """Yield a row for each job in the real system and with each engine."""
        jobs = self.trial.scenario.jobs
        for job in jobs:
            times = self.real.times[job.id]
            yield (
                *self._cells("real", job),
                *_seconds(times.arrival_s, times.start_s, times.finish_s),
                # The pool names its hosts node1 and so on.
                int(times.host.removeprefix("node")) - 1,
                times.slot,
                times.local,
            )
        for engine, outcomes in self.simulated.items():
            for job, done in zip(jobs, outcomes, strict=True):
                yield (
                    *self._cells(engine, job),
                    *_seconds(job.arrival_s, done.start_s, done.finish_s),
                    done.host,
                    done.slot,
                    done.local,
                )

    def _cells(self, who: str, job: scenarios.JobSpec) -> tuple[object, ...]:
        return (
            self.trial.mode.name,
            self.trial.seed,
            who,
            job.id,
            job.host,
            job.accelerator,
            round(job.size_bytes),
        )


def _seconds(*times_s: float) -> list[str]:
    return [f"{each:.6f}" for each in times_s]


# -- input -----------------------------------------------------------------


def _trials(
    modes: Sequence[experiments.Mode], arguments: argparse.Namespace
) -> list[_Trial]:
    trials = [
        _Trial(mode, arguments.seed + number, arguments)
        for mode in modes
        for number in range(arguments.runs)
    ]
    for trial in trials:
        _check_jobs(trial)
    return trials


def _modes(text: str) -> list[experiments.Mode]:
    names = text.split(",")
    for name in names:
        if name not in experiments.MODES:
            raise errors.InputError(
                "--modes",
                "",
                f"unknown mode {name!r}; known: "
                f"{', '.join(experiments.MODES)}",
            )
    return [mode for mode in experiments.MODES.values() if mode.name in names]


def _check_jobs(trial: _Trial) -> None:
    least_bytes = differences.GOAL_MIN_BYTES
    if not any(job.size_bytes >= least_bytes for job in trial.scenario.jobs):
        raise errors.InputError(
            "--jobs",
            "",
            f"none of the {trial.mode.name} ones has "
            f"{least_bytes / 1e6:.0f} MB or more, as the goal needs; increase "
            "--jobs or change --seed",
        )


# -- output ----------------------------------------------------------------


def _compare(
    mode: experiments.Mode, done: Sequence[_Done]
) -> differences.Comparison:
    return differences.compare(
        mode.name,
        [each.sample() for each in done],
        sum(each.real.busy for each in done) / len(done),
    )


def _subtitle(options: argparse.Namespace) -> str:
    return (
        f"FIFO · {experiments.HOSTS} hosts, {experiments.BOARDS} boards of "
        f"{experiments.SLOTS} slots · sizes Gaussian, "
        f"{experiments.MEAN_BYTES / 1e6:.0f} ± "
        f"{experiments.DEVIATION_BYTES / 1e6:.0f} MB; all sizes and rates × "
        f"{options.scale:g} in the real system · seeds {options.seed} to "
        f"{options.seed + options.runs - 1}, {options.jobs} jobs each"
    )


def _write(
    out_dir: pathlib.Path,
    done: Iterable[_Done],
    found: Sequence[differences.Comparison],
) -> None:
    engines = list(found[0].total.simulated_s)
    columns = [f"{engine}_s" for engine in engines]
    columns += [f"{engine}_difference" for engine in engines]
    figure.write(
        out_dir / f"{NAME}.csv",
        (*_HEADER, *columns),
        [
            (
                each.mode,
                f"{row.low_bytes:.0f}",
                "" if row.high_bytes == math.inf else f"{row.high_bytes:.0f}",
                row.jobs,
                *_seconds(row.real_s, *row.simulated_s.values()),
                *(f"{row.of(engine):.6f}" for engine in engines),
            )
            for each in found
            for row in (*each.classes, each.large, each.total)
        ],
    )
    figure.write(
        out_dir / f"{NAME}-jobs.csv",
        _JOBS_HEADER,
        (row for each in done for row in each.rows()),
    )


def _show(
    console: rich.console.Console, found: Sequence[differences.Comparison]
) -> None:
    engines = list(found[0].total.simulated_s)
    table = screen.make_table(
        ("mode",),
        ("size", "jobs", "real", *engines),
        "Mean completion time, simulated and real",
        caption="In brackets: the least and the greatest of the runs.",
    )
    for each in found:
        large_name = f"≥ {differences.GOAL_MIN_BYTES / 1e6:.0f} MB"
        rows = [(picture.class_name(row), row) for row in each.classes]
        rows += [(large_name, each.large), ("all", each.total)]
        for at, (name, row) in enumerate(rows):
            is_last = at == len(rows) - 1
            table.add_row(
                "" if at else each.mode,
                name,
                str(row.jobs),
                f"{row.real_s:.3f} s",
                *(_cell(row, engine) for engine in engines),
                style="bold" if row is each.large else None,
                end_section=is_last,
            )
    console.print(table)
    for each in found:
        screen.say(console, _verdict(each))


def _cell(row: differences.Difference, engine: str) -> str:
    runs = row.runs[engine]
    return (
        f"{row.simulated_s[engine]:.3f} s {row.of(engine):+6.1%} "
        f"({min(runs):+6.1%}…{max(runs):+6.1%})"
    )


def _verdict(each: differences.Comparison) -> str:
    relation = "within" if each.reaches_goal else "MORE than"
    text = (
        f"{each.mode}: {each.worst:.1%} for jobs of "
        f"{differences.GOAL_MIN_BYTES / 1e6:.0f} MB and more, {relation} the "
        f"goal of {differences.GOAL:.0%}; processors busy: {each.busy:.0%}"
    )
    if each.busy > _BUSY:
        text += (
            " (so busy that they may have held up the real system: reduce "
            "--scale, or use a machine without other work)"
        )
    return text
