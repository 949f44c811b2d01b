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
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import results
from reproduction.figures import charts
from reproduction.figures import figure
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


def compare(measure: figure.Measure) -> Found:
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


def _claims(found: Found) -> list[figure.Claim]:
    of_all = {name: gains(found, name) for name in SPEEDUPS}
    claims = [
        figure.Claim(
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
            figure.Claim(
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
            figure.Claim(
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
) -> figure.Claim:
    """Return the claim on the gains of all four applications."""
    low, high = paper
    needed = ", ".join(
        f"{name} at most {100 * _share_for(name, PAPER_SPEEDUP[1]):.0f} %"
        for name in SPEEDUPS
        if name not in KNOWN
    )
    return figure.Claim(
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


def _bars(label: str, y: Sequence[float]) -> charts.Series:
    return charts.Series(label=label, y=y, texts="{:.2f}")


def _clusters(found: Found) -> charts.Panel:
    runs = {f"{hosts} hosts": (hosts, False) for hosts in PLAIN_HOSTS}
    runs[f"{BOARDS} boards"] = (BOARDS, True)
    times_s = {
        name: [
            found[ApplicationRun(name, *run)].time_s for run in runs.values()
        ]
        for name in KNOWN
    }
    return charts.Panel(
        title="Figure 6: throughput, × four hosts",
        categories=list(runs),
        levels=[("", PAPER_HOSTS)],
        series=[
            _bars(name, [some[0] / each for each in some])
            for name, some in times_s.items()
        ],
    )


def _parts(found: Found) -> charts.Panel:
    runs = [
        ApplicationRun(name, BOARDS, boards)
        for name in KNOWN
        for boards in (False, True)
    ]
    took = [found[run] for run in runs]
    return charts.Panel(
        title="Figure 7: four hosts, time in s",
        categories=[
            f"{run.application}\n{'boards' if run.boards else 'no boards'}"
            for run in runs
        ],
        series=[
            charts.Series(
                label="processor",
                y=[each.time_s - each.kernel_s for each in took],
            ),
            charts.Series(
                label="kernel",
                y=[each.kernel_s for each in took],
                stacked=True,
                texts=[f"{each.time_s:.0f}" for each in took],
            ),
        ],
    )


def _picture(found: Found) -> charts.Picture:
    return charts.Picture(
        title="Figures 5 to 7 of Blaze: one application, with boards and "
        "without",
        subtitle="The kernel takes 80 % without boards (of GSA and COMP the "
        "paper does not say it); grey: the paper's savings of time; dotted: "
        "its throughput.",
        gap_in=0.5,
        panels=[
            [
                charts.Panel(
                    title="Figure 5: one host, × less with a board",
                    categories=list(SPEEDUPS),
                    band=PAPER_SPEEDUP,
                    series=[
                        _bars(
                            what, [gains(found, name)[at] for name in SPEEDUPS]
                        )
                        for at, what in enumerate(("time", "energy"))
                    ],
                ),
                _clusters(found),
                _parts(found),
            ]
        ],
    )


FIGURES = (
    figure.Figure(
        name="blaze5",
        subject="Figures 5 to 7 of the paper on Blaze",
        run=lambda measure: compare(measure),
        header=("application", "hosts", "boards", *Took._fields),
        rows=lambda found: [
            (
                *(run.application, run.hosts, run.hosts if run.boards else 0),
                *took,
            )
            for run, took in found.items()
        ],
        claims=_claims,
        picture=_picture,
    ),
)
