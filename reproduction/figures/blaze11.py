# SPDX-License-Identifier: Apache-2.0

"""Figure 11 of the paper on Blaze: mixes of two kinds of applications.

The paper prints no workload. Here there are four hosts with a board and three
places each, and forty applications of two containers, whose tasks take the
processor for 2 s and then the board for 2 s. The seven mixes differ in which
applications are LR; the others are KM.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random
import statistics
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import results
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import tables
from reproduction.figures import verdicts
from reproduction.models import containers

SEEDS: Sequence[int] = range(10)
#: The part of the applications that are LR.
SHARES = (0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0)
APPLICATIONS = 40
_HOSTS = 4
_TASK_S = 2.0
_BYTES_PER_S = 1e6

#: Distances to the bound in percent of an independent simulation, in the
#: order of the policies; a mix has the mean of these shares.
REFERENCE: dict[tuple[float, ...], tuple[float, ...]] = {
    (1.0, 0.0): (50.7, 5.8, 5.8, 1.5),
    (0.8, 0.2): (38.9, 22.8, 8.3, 3.3),
    (0.6, 0.4): (18.9, 28.4, 8.3, 3.0),
    (0.5,): (7.2, 29.0, 7.9, 3.3),
    SHARES: (32.0, 20.5, 7.5, 2.8),
}
#: The same of ``gam``, mean of all mixes, by misses.
REFERENCE_BY_MISSES = {
    1: 18.9,
    5: 12.5,
    10: 9.6,
    20: 7.8,
    containers.MISSES: 7.5,
    160: 6.5,
}
#: How far a distance may be from the reference, which is rounded twice.
TOLERANCE = 0.1
#: The paper's distances, means of its mixes.
PAPER = {"static": 27, "naive": 22, "gam": 9}
_HEIGHT_IN = 4.6


class Mixed(typing.NamedTuple):
    """A policy on a mix.

    :ivar distance: to the bound, as a part of the makespan.
    :ivar utilisation: time in which boards compute, as a part of all.
    """

    distance: float
    utilisation: float
    reprogrammings: float


def make_jobs(share: float, seed: int) -> list[scenarios.JobSpec]:
    """Draw a mix; the same seed gives the same containers."""
    draw = random.Random(seed)
    gaps_s = [draw.expovariate(1 / 2) for _ in range(APPLICATIONS)]
    sizes = [
        (draw.randint(5, 25), draw.randint(5, 25)) for _ in range(APPLICATIONS)
    ]
    ids = list(range(APPLICATIONS))
    draw.shuffle(ids)
    lr = frozenset(ids[: round(APPLICATIONS * share)])
    jobs: list[scenarios.JobSpec] = []
    arrival_s = 0.0
    for number in range(APPLICATIONS):
        for tasks in sizes[number]:
            jobs.append(
                scenarios.JobSpec(
                    id=len(jobs),
                    host=None,
                    size_bytes=tasks * _TASK_S * _BYTES_PER_S,
                    arrival_s=arrival_s,
                    accelerator="lr" if number in lr else "km",
                    app=str(number),
                    tasks=tasks,
                    cpu_s_per_task=_TASK_S,
                )
            )
        # The first one arrives at 0.
        arrival_s += gaps_s[number]
    return jobs


@dataclasses.dataclass(frozen=True)
class MixRun:
    """One policy on one mix.

    :ivar misses: of policies with affinity.
    """

    policy: str
    share: float
    seed: int
    misses: int = containers.MISSES

    def measure(self) -> Mixed:
        """Simulate."""
        options = scenarios.StrategyOptions()
        if self.policy in containers.WITH_AFFINITY:
            options = scenarios.StrategyOptions(affinity_misses=self.misses)
        scenario = scenarios.Scenario(
            format=scenarios.FORMAT,
            cluster=scenarios.Cluster(
                hosts=_HOSTS,
                fpga_hosts=tuple(range(_HOSTS)),
                slots_per_device=1,
                accelerators={
                    name: scenarios.AcceleratorProfile(_BYTES_PER_S)
                    for name in ("lr", "km")
                },
                reconfiguration_s=1.5,
                heartbeat_s=1.0,
                containers_per_device=3,
            ),
            strategies={self.policy: options},
            jobs=make_jobs(self.share, self.seed),
        )
        outcomes = simulation.run(scenario, self.policy)
        found = results.evaluate(scenario, outcomes)
        assert found.packing is not None
        computed_s = _TASK_S * sum(job.tasks or 0 for job in scenario.jobs)
        return Mixed(
            distance=found.packing.distance_to_bound,
            utilisation=computed_s / (_HOSTS * found.measured.makespan_s),
            reprogrammings=found.packing.reprogrammings,
        )


Means = Mapping[tuple[str, float], Mixed]


def compare(measure: experiments.Measure) -> Means:
    """Simulate all policies on all mixes.

    :returns: means over the seeds, by policy and share.
    """
    return _means(
        measure,
        {
            (policy, share): [MixRun(policy, share, seed) for seed in SEEDS]
            for policy in containers.POLICIES
            for share in SHARES
        },
    )


def compare_misses(measure: experiments.Measure) -> Mapping[int, Mixed]:
    """Simulate ``gam`` with other numbers of misses.

    :returns: means over mixes and seeds.
    """
    return _means(
        measure,
        {
            misses: [
                MixRun("gam", share, seed, misses)
                for share in SHARES
                for seed in SEEDS
            ]
            for misses in REFERENCE_BY_MISSES
        },
    )


_Key = typing.TypeVar("_Key")


def _means(
    measure: experiments.Measure, wanted: Mapping[_Key, Sequence[MixRun]]
) -> dict[_Key, Mixed]:
    found = measure([run for runs in wanted.values() for run in runs])
    return {
        key: Mixed(
            *map(statistics.fmean, zip(*map(found.get, runs), strict=True))
        )
        for key, runs in wanted.items()
    }


def distance_percent(
    means: Means, policy: str, shares: Sequence[float] = SHARES
) -> float:
    """Return the mean distance over mixes in percent."""
    return 100 * statistics.fmean(
        means[policy, share].distance for share in shares
    )


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write a picture, its numbers and its claims; see the package."""
    means, by_misses = compare(measure), compare_misses(measure)
    tables.write(
        out_dir / "blaze11.csv",
        ("policy", "lr_share", "misses", *Mixed._fields),
        [
            (
                policy,
                f"{share:g}",
                containers.MISSES
                if policy in containers.WITH_AFFINITY
                else "",
                *(f"{value:.6g}" for value in mixed),
            )
            for (policy, share), mixed in means.items()
        ]
        + [
            ("gam", "all", misses, *(f"{value:.6g}" for value in mixed))
            for misses, mixed in by_misses.items()
        ],
    )
    claims = _claims(means)
    verdicts.write(out_dir / "blaze11-claims.csv", claims)
    _draw(means, by_misses, out_dir / "blaze11.png")
    return "\n".join(
        [
            verdicts.say("Figure 11 of the paper on Blaze", claims),
            _ours(means),
            _reference(means, by_misses),
        ]
    )


def _claims(means: Means) -> list[verdicts.Claim]:
    static, naive, gam, _ = (
        distance_percent(means, policy) for policy in containers.POLICIES
    )
    alone = {
        policy: distance_percent(means, policy, (0.0, 1.0))
        for policy in containers.POLICIES
    }
    half = {
        policy: distance_percent(means, policy, (0.5,))
        for policy in containers.POLICIES
    }
    used = {
        policy: 100
        * statistics.fmean(
            means[policy, share].utilisation for share in SHARES
        )
        for policy in containers.POLICIES
    }
    return [
        verdicts.Claim(
            "GAM is the closest to the bound, then naive, then static; means "
            "of the mixes",
            ", ".join(f"{name} {value} %" for name, value in PAPER.items()),
            f"static {static:.1f} %, naive {naive:.1f} %, gam {gam:.1f} %",
            gam < naive < static and gam <= PAPER["gam"],
        ),
        verdicts.Claim(
            "naive beats static if all applications are of one kind",
            "better",
            f"{alone['naive']:.1f} and {alone['static']:.1f} % away",
            alone["naive"] < alone["static"],
        ),
        verdicts.Claim(
            "static beats naive if half of them are LR",
            "better",
            f"{half['static']:.1f} and {half['naive']:.1f} % away",
            half["static"] < half["naive"],
        ),
        verdicts.Claim(
            "GAM has the best of both: nothing is better in any mix",
            "the best aspects of both",
            f"at a half static wins, {half['static']:.1f} against "
            f"{half['gam']:.1f} %; else GAM is as good as the better one",
            all(
                means["gam", share].distance
                <= min(
                    means[policy, share].distance
                    for policy in ("static", "naive")
                )
                for share in SHARES
            ),
        ),
        verdicts.Claim(
            "GAM uses the boards more than both",
            "more",
            ", ".join(
                f"{policy} {used[policy]:.0f} %"
                for policy in ("static", "naive", "gam")
            ),
            used["gam"] > max(used["static"], used["naive"]),
        ),
    ]


def _ours(means: Means) -> str:
    lpt = distance_percent(means, "lpt")
    return (
        "'lpt', which is not the paper's, is as GAM but takes the application "
        f"with the largest container first: {lpt:.1f} % away (aim 4)."
    )


def deviations(
    means: Means, by_misses: Mapping[int, Mixed]
) -> dict[str, float]:
    """Return by how many points each distance differs from the reference."""
    found = {
        f"{policy} at {', '.join(map('{:g}'.format, shares))}": (
            distance_percent(means, policy, shares) - value
        )
        for shares, values in REFERENCE.items()
        for policy, value in zip(containers.POLICIES, values, strict=True)
    }
    return found | {
        f"gam with {misses} misses": 100 * by_misses[misses].distance - value
        for misses, value in REFERENCE_BY_MISSES.items()
    }


def _reference(means: Means, by_misses: Mapping[int, Mixed]) -> str:
    found = deviations(means, by_misses)
    far = [name for name, off in found.items() if abs(off) > TOLERANCE]
    return (
        f"{len(found) - len(far)} of {len(found)} distances are those of an "
        f"independent simulation within {TOLERANCE:g} points"
        + (f"; not: {'; '.join(far)}." if far else ".")
    )


# -- picture ---------------------------------------------------------------


def _draw(
    means: Means, by_misses: Mapping[int, Mixed], path: pathlib.Path
) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN,
        (1, 3),
        left=0.05,
        bottom=0.13,
        top=0.72,
        gaps=(0.0, 0.17),
    )
    throughput, utilisation, misses = grid[0]
    colours = style.lines_of(containers.POLICIES)
    for (policy, colour), pattern in zip(
        colours.items(), style.PATTERNS, strict=False
    ):
        mixes = [means[policy, share] for share in SHARES]
        for axes, values in (
            (throughput, [1 - mixed.distance for mixed in mixes]),
            (utilisation, [mixed.utilisation for mixed in mixes]),
        ):
            axes.plot(
                SHARES,
                [100 * value for value in values],
                color=colour,
                linestyle=pattern,
                marker="o",
                markersize=4,
                label=policy,
            )
    misses.plot(
        list(by_misses),
        [100 * mixed.distance for mixed in by_misses.values()],
        color=colours["gam"],
        marker="o",
        markersize=4,
    )
    misses.set_xscale("log")
    misses.set_xticks(list(by_misses), list(map(str, by_misses)))
    misses.minorticks_off()
    for axes, title, below in (
        (throughput, "throughput, % of the bound", "share of LR"),
        (utilisation, "time in which boards compute, %", "share of LR"),
        (misses, "gam: distance to the bound, %", "misses until any host"),
    ):
        style.prepare_axes(axes, "both")
        style.name_panel(axes, title)
        axes.set_xlabel(below, fontsize=9)
        axes.set_ylim(bottom=0)
    style.add_legend(figure, throughput.get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        "Figure 11 of Blaze: two kinds of applications on four boards",
        f"{APPLICATIONS} applications of two containers, means of "
        f"{len(SEEDS)} seeds; 'lpt' is not the paper's.",
    )
    style.save(figure, path)
