# SPDX-License-Identifier: Apache-2.0

"""Figures 5 to 7 of the paper on Blaze: one application, with boards or not.

An application has one container on each host, with all its cores, and computes
its kernel on the processor or on the board, never on both. The kernel takes
80 % of the time without boards, as the paper says for LR and KM; for the
others it does not say it. A board computes kernels as many times faster as
Table 1 has it.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Mapping

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import results
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import tables
from reproduction.figures import verdicts
from reproduction.models import containers

#: By application: how many times faster a board computes its kernel than
#: twelve threads do (Table 1).
SPEEDUPS = {"LR": 3.4, "KM": 4.3, "GSA": 10.0, "COMP": 26.7}
#: Applications of which the paper prints the share of the kernel.
KNOWN = ("LR", "KM")
KERNEL_SHARE = 0.8
#: The least and the most that the paper has gained, in time and in energy.
PAPER_SPEEDUP = (1.7, 3.0)
PAPER_ENERGY = (1.5, 2.7)
#: How far a speedup may be from Amdahl's, relatively.
TOLERANCE = 0.1
#: Hosts of Figure 6 without boards, and with them.
PLAIN_HOSTS = (4, 8, 12)
BOARDS = 4
#: How many times as many hosts without boards are worth the paper's four.
PAPER_HOSTS = 3.0
TARGET_HOSTS = (2.5, 3.2)
#: What fits the paper's energies; the board's is the paper's.
_HOST_W = 200.0
_BOARD_W = 25.0
# The whole application: tasks, each a second of a host without a board.
_TASKS = 960
_TASK_S = 1.0
_BYTES_PER_S = 1e6
_HEIGHT_IN = 4.6


class Took(typing.NamedTuple):
    """What an application took.

    :ivar kernel_s: of the time, that with kernels; the longest of all hosts.
    """

    time_s: float
    kernel_s: float
    energy_j: float


@dataclasses.dataclass(frozen=True)
class ApplicationRun:
    """One application alone on a cluster.

    :ivar application: one of :data:`SPEEDUPS`.
    :ivar boards: whether hosts have boards; else they compute kernels.
    """

    application: str
    hosts: int
    boards: bool

    def measure(self) -> Took:
        """Simulate."""
        scenario = scenarios.Scenario(
            format=scenarios.FORMAT,
            cluster=scenarios.Cluster(
                hosts=self.hosts,
                fpga_hosts=tuple(range(self.hosts)),
                slots_per_device=1,
                accelerators={
                    "kernel": scenarios.AcceleratorProfile(
                        SPEEDUPS[self.application] * _BYTES_PER_S,
                        platforms={
                            containers.PROCESSOR: scenarios.Platform(
                                _BYTES_PER_S
                            )
                        },
                    )
                },
                shape="board" if self.boards else containers.PROCESSOR,
                reconfiguration_s=1.5,
                heartbeat_s=1.0,
                power=scenarios.Power(
                    host_w=_HOST_W,
                    device_idle_w=_BOARD_W if self.boards else 0.0,
                    device_active_w=_BOARD_W if self.boards else 0.0,
                ),
            ),
            strategies={"naive": scenarios.StrategyOptions()},
            jobs=[
                self._make_container(number) for number in range(self.hosts)
            ],
        )
        outcomes = simulation.run(scenario, "naive")
        found = results.evaluate(scenario, outcomes)
        assert found.details.energy is not None
        return Took(
            time_s=found.measured.makespan_s,
            kernel_s=max(
                outcome.container.slot_s
                for outcome in outcomes
                if outcome.container is not None
            ),
            energy_j=found.details.energy.total_j,
        )

    def _make_container(self, number: int) -> scenarios.JobSpec:
        tasks = _TASKS // self.hosts
        return scenarios.JobSpec(
            id=number,
            host=None,
            size_bytes=tasks * KERNEL_SHARE * _TASK_S * _BYTES_PER_S,
            arrival_s=0.0,
            accelerator="kernel",
            app=self.application,
            tasks=tasks,
            cpu_s_per_task=(1 - KERNEL_SHARE) * _TASK_S,
        )


Found = Mapping[ApplicationRun, Took]


def amdahl(application: str, share: float = KERNEL_SHARE) -> float:
    """Return how much faster an application gets by Amdahl's law.

    :param share: of the kernel in the time without boards.
    """
    return 1 / (1 - share + share / SPEEDUPS[application])


def compare(measure: experiments.Measure) -> Found:
    """Simulate all applications alone, and two on clusters."""
    runs = [
        ApplicationRun(application, 1, boards)
        for application in SPEEDUPS
        for boards in (False, True)
    ]
    for application in KNOWN:
        runs += [
            ApplicationRun(application, hosts, False) for hosts in PLAIN_HOSTS
        ]
        runs.append(ApplicationRun(application, BOARDS, True))
    found = measure(runs)
    return {run: found[run] for run in runs}


def gains(found: Found, application: str) -> tuple[float, float]:
    """Return how many times less time and energy a board takes."""
    plain, board = (
        found[ApplicationRun(application, 1, boards)]
        for boards in (False, True)
    )
    return plain.time_s / board.time_s, plain.energy_j / board.energy_j


def worth(found: Found, application: str) -> float:
    """Return how many hosts without boards are worth one with a board.

    It counts on hosts that share the work evenly.
    """
    plain = found[ApplicationRun(application, BOARDS, False)]
    return (
        plain.time_s / found[ApplicationRun(application, BOARDS, True)].time_s
    )


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write a picture, its numbers and its claims; see the package."""
    found = compare(measure)
    tables.write(
        out_dir / "blaze5.csv",
        ("application", "hosts", "boards", *Took._fields),
        [
            (
                run.application,
                run.hosts,
                run.hosts if run.boards else 0,
                *(f"{value:.6g}" for value in took),
            )
            for run, took in found.items()
        ],
    )
    claims = _claims(found)
    verdicts.write(out_dir / "blaze5-claims.csv", claims)
    _draw(found, out_dir / "blaze5.png")
    return verdicts.say("Figures 5 to 7 of the paper on Blaze", claims)


def _claims(found: Found) -> list[verdicts.Claim]:
    of_all = {name: gains(found, name) for name in SPEEDUPS}
    claims = [
        verdicts.Claim(
            f"{name} is faster with a board, by Amdahl's law",
            f"{amdahl(name):.2f} ×, which follows from 80 % and "
            f"{SPEEDUPS[name]:g} ×",
            f"{of_all[name][0]:.2f} ×; the rest goes into programming and "
            "waiting for a heartbeat",
            abs(of_all[name][0] / amdahl(name) - 1) <= TOLERANCE,
        )
        for name in KNOWN
    ]
    claims.append(_range(of_all, 0, "time", PAPER_SPEEDUP))
    claims.append(_range(of_all, 1, "energy", PAPER_ENERGY))
    for name in KNOWN:
        ratio = worth(found, name)
        claims.append(
            verdicts.Claim(
                f"four hosts with boards compute {name} as fast as twelve "
                "without",
                f"roughly {BOARDS * PAPER_HOSTS:.0f} hosts; "
                f"{BOARDS * TARGET_HOSTS[0]:g} to "
                f"{BOARDS * TARGET_HOSTS[1]:g} would do",
                f"{BOARDS * ratio:.1f} hosts; Amdahl's law allows "
                f"{BOARDS * amdahl(name):.1f}",
                TARGET_HOSTS[0] <= ratio <= TARGET_HOSTS[1],
            )
        )
    for name in KNOWN:
        plain, board = (
            found[ApplicationRun(name, BOARDS, boards)]
            for boards in (False, True)
        )
        claims.append(
            verdicts.Claim(
                f"{name} is bound by computing, and the kernel gains",
                "the kernel shrinks, the rest stays",
                f"kernel {plain.kernel_s:.0f} s, then {board.kernel_s:.0f} s; "
                f"rest {plain.time_s - plain.kernel_s:.0f} s, then "
                f"{board.time_s - board.kernel_s:.0f} s",
                board.kernel_s < plain.kernel_s / 2,
            )
        )
    return claims


def _range(
    of_all: Mapping[str, tuple[float, float]],
    member: int,
    what: str,
    paper: tuple[float, float],
) -> verdicts.Claim:
    """Return the claim on the gains of all four applications."""
    low, high = paper
    needed = ", ".join(
        f"{name} at most {100 * _share_for(name, PAPER_SPEEDUP[1]):.0f} %"
        for name in SPEEDUPS
        if name not in KNOWN
    )
    return verdicts.Claim(
        f"a board saves {what} in all four applications",
        f"{low:g} to {high:g} ×",
        ", ".join(
            f"{name} {each[member]:.2f}" for name, each in of_all.items()
        )
        + f"; the kernels' shares would have to be lower: {needed}",
        all(low <= each[member] <= high for each in of_all.values()),
    )


def _share_for(application: str, speedup: float) -> float:
    """Return the kernel's share that Amdahl's law needs for a speedup."""
    return (1 - 1 / speedup) / (1 - 1 / SPEEDUPS[application])


# -- picture ---------------------------------------------------------------


def _draw(found: Found, path: pathlib.Path) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN,
        (1, 3),
        left=0.04,
        bottom=0.12,
        top=0.72,
        gaps=(0.0, 0.16),
    )
    names = ("time", "energy", "processor", "kernel", *KNOWN)
    colours = style.colours_of(names)
    handles = [
        *_draw_gains(found, grid[0][0], colours),
        *_draw_clusters(found, grid[0][1], colours),
        *_draw_parts(found, grid[0][2], colours),
    ]
    for axes, title in zip(
        grid[0],
        (
            "Figure 5: one host, × less with a board",
            "Figure 6: throughput, × four hosts",
            "Figure 7: four hosts, time in s",
        ),
        strict=True,
    ):
        style.prepare_axes(axes, "y")
        style.name_panel(axes, title)
    style.add_legend(figure, handles, 9)
    style.write_texts(
        figure,
        "Figures 5 to 7 of Blaze: one application, with boards and without",
        "The kernel takes 80 % without boards (of GSA and COMP the paper does "
        "not say it); grey: the paper's savings of time, and its throughput.",
    )
    style.save(figure, path)


def _draw_gains(
    found: Found, axes: typing.Any, colours: Mapping[str, str]
) -> list[typing.Any]:
    handles = []
    for member, what in enumerate(("time", "energy")):
        places = [at + 0.4 * (member - 0.5) for at in range(len(SPEEDUPS))]
        values = [gains(found, name)[member] for name in SPEEDUPS]
        handles.append(
            axes.bar(
                places, values, width=0.38, color=colours[what], label=what
            )
        )
        _write_values(axes, places, values, "{:.2f}")
    axes.axhspan(*PAPER_SPEEDUP, color=style.BAND, zorder=0)
    axes.set_xticks(range(len(SPEEDUPS)), list(SPEEDUPS))
    return handles


def _draw_clusters(
    found: Found, axes: typing.Any, colours: Mapping[str, str]
) -> list[typing.Any]:
    runs = [(hosts, False) for hosts in PLAIN_HOSTS] + [(BOARDS, True)]
    handles = []
    for column, name in enumerate(KNOWN):
        first = found[ApplicationRun(name, PLAIN_HOSTS[0], False)]
        values = [
            first.time_s / found[ApplicationRun(name, hosts, boards)].time_s
            for hosts, boards in runs
        ]
        places = [at + 0.4 * (column - 0.5) for at in range(len(runs))]
        handles.append(
            axes.bar(
                places, values, width=0.38, color=colours[name], label=name
            )
        )
        _write_values(axes, places, values, "{:.2f}")
    last = len(runs) - 1
    axes.plot(
        [last - 0.4, last + 0.4],
        [PAPER_HOSTS] * 2,
        color=style.LIGHT,
        linewidth=3,
    )
    axes.set_xticks(
        range(len(runs)),
        [
            f"{hosts} boards" if boards else f"{hosts} hosts"
            for hosts, boards in runs
        ],
    )
    return handles


def _draw_parts(
    found: Found, axes: typing.Any, colours: Mapping[str, str]
) -> list[typing.Any]:
    runs = [
        ApplicationRun(name, BOARDS, boards)
        for name in KNOWN
        for boards in (False, True)
    ]
    rest_s = [found[run].time_s - found[run].kernel_s for run in runs]
    kernels_s = [found[run].kernel_s for run in runs]
    places = range(len(runs))
    handles = [
        axes.bar(
            places,
            rest_s,
            width=0.6,
            color=colours["processor"],
            label="processor",
        ),
        axes.bar(
            places,
            kernels_s,
            bottom=rest_s,
            width=0.6,
            color=colours["kernel"],
            label="kernel",
        ),
    ]
    for place, run in zip(places, runs, strict=True):
        _write_values(axes, [place], [found[run].time_s], "{:.0f}")
    axes.set_xticks(
        places,
        [
            f"{run.application}\n{'boards' if run.boards else 'no boards'}"
            for run in runs
        ],
    )
    return handles


def _write_values(
    axes: typing.Any,
    places: list[float],
    values: list[float],
    pattern: str,
) -> None:
    for place, value in zip(places, values, strict=True):
        axes.text(
            place,
            value,
            pattern.format(value),
            ha="center",
            va="bottom",
            fontsize=7.5,
        )
