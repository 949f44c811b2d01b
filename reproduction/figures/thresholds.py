# SPDX-License-Identifier: Apache-2.0

"""Figures 5, 9, 13 and 14: the thresholds of the queues, and the sizes.

Figure 5 has the completion time against the number of queues by a formula.
Hybrid, geometric and linear thresholds have their best parameters for each
number of queues, except that the first threshold is the smallest size. Figure
9 has the distributions of sizes of Figures 10 and 11. Nothing is simulated for
these. Figures 13 and 14 simulate WRA and WA with other thresholds than the
best: a map over q and k1 for each strategy and metric.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Callable
from collections.abc import Sequence

import numpy as np

from fpgapool.sim.experiments import queueing
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import families
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import gains
from reproduction.figures import charts
from reproduction.figures import clusters
from reproduction.figures import curves
from reproduction.figures import figure

# -- Figure 5 --------------------------------------------------------------

#: Queues of the x axis. One queue is first come, first served.
QUEUES: tuple[int, ...] = tuple(range(2, 31))
#: The paper's gain of hybrid thresholds in percent, by queues.
PAPER5 = {7: 27, 20: 7}
_LOAD5 = 0.95
#: At this rate, 1 MB takes 1 s.
_BYTES_PER_S = 1e6

SIZES: dict[str, distributions.SizeDistribution] = {
    "exponential": distributions.Exponential(0.5e6, 400e6),
    "power law": distributions.BoundedPowerLaw(20e6, 10e9, 1.1),
}
FORMULAS: dict[queueing.Formula, str] = {
    "paper": "the paper's formula",
    "cobham": "Cobham's formula",
}
STRUCTURES: tuple[queueing.Structure, ...] = ("geometric", "linear", "hybrid")


class Best(typing.NamedTuple):
    """The best thresholds of one kind.

    :ivar is_free: whether the search includes the first threshold.
    """

    sizes: str
    formula: queueing.Formula
    structure: queueing.Structure
    queues: int
    is_free: bool

    def find(self) -> queueing.Tuning:
        """Search them."""
        sizes = SIZES[self.sizes]
        return queueing.minimise(
            queueing.PriorityServer(sizes, _LOAD5, _BYTES_PER_S),
            self.queues,
            structure=self.structure,
            formula=self.formula,
            E_bytes=None if self.is_free else sizes.min_bytes,
        )


Tunings = dict[Best, queueing.Tuning]


def search(_measure: figure.Measure | None = None) -> Tunings:
    """Return the best thresholds of each kind."""
    wanted = [
        Best(sizes, formula, structure, queues, is_free)
        for is_free, some in ((False, QUEUES), (True, tuple(PAPER5)))
        for sizes in SIZES
        for formula in FORMULAS
        for queues in some
        for structure in STRUCTURES
    ]
    return {best: best.find() for best in wanted}


def _services(best: Best, tuning: queueing.Tuning) -> float:
    """Return the mean completion time in mean service times."""
    return tuning.completion_s * _BYTES_PER_S / SIZES[best.sizes].mean_bytes


def _worse_percent(
    found: Tunings,
    formula: queueing.Formula,
    queues: int,
    other: queueing.Structure,
    is_free: bool = False,
) -> float:
    """Return how far hybrid is below others for exponential sizes."""
    ours, theirs = (
        found[Best("exponential", formula, structure, queues, is_free)]
        for structure in ("hybrid", other)
    )
    return 100 * (1 - ours.completion_s / theirs.completion_s)


def _claims5(found: Tunings) -> list[figure.Claim]:
    claims = []
    for formula, name in FORMULAS.items():
        gained = [
            _worse_percent(found, formula, queues, "geometric")
            for queues in PAPER5
        ]
        claims.append(
            figure.Claim(
                f"by {name} hybrid thresholds are better than geometric ones "
                f"with {figure.listed(PAPER5)} queues",
                f"{figure.listed(PAPER5.values(), '{} %')}",
                figure.listed(gained, "{:.1f} %"),
                all(
                    one > paper - 0.5
                    for one, paper in zip(gained, PAPER5.values(), strict=True)
                ),
            )
        )
    linear = max(
        _worse_percent(found, "paper", queues, "linear") for queues in QUEUES
    )
    free = max(
        _worse_percent(found, "cobham", queues, "geometric", True)
        for queues in PAPER5
    )
    kinds = {
        (tuning.k1, tuning.k2)
        for best, tuning in found.items()
        if best.sizes == "power law"
        and best.structure == "hybrid"
        and best.queues > 2
        and not best.is_free
    }
    return [
        *claims,
        figure.Claim(
            "linear thresholds need more queues for exponential sizes",
            "more",
            f"with a free step they are within {linear:.2f} % of hybrid ones",
            linear > 1,
        ),
        figure.Claim(
            "for the power law the optimum is geometric",
            "geometric",
            f"(k1, k2) = {figure.listed(sorted(kinds))}",
            kinds == {(1, 2)},
        ),
        figure.Claim(
            "it makes no difference any more once E is free, by Cobham's "
            "formula, which is right for such queues",
            "not looked at",
            f"{free:.1f} % at most",
            free < 1,
        ),
    ]


def _picture5(found: Tunings) -> charts.Picture:
    styles = {
        "geometric": {"linestyle": "--", "marker": "s", "markersize": 6},
        "linear": {"linestyle": ":", "marker": "^", "markersize": 6},
        "hybrid": {"linestyle": "-", "marker": "o", "markersize": 4},
    }
    return charts.Picture(
        title="Figure 5: completion time against the number of queues",
        subtitle=f"Load {_LOAD5}; first threshold = smallest size (0.5 MB "
        "exponential with mean 400 MB; 20 MB power law to 10 GB, α = 1.1); "
        "the other parameters are the best for each number of queues.",
        panels=[
            [
                charts.Panel(
                    title=f"{sizes} sizes, {name}",
                    xlabel="queues",
                    ylabel="mean completion time / service time",
                    log="y",
                    ticks=(2, 5, 7, 10, 15, 20, 25, 30),
                    series=[
                        charts.Series(
                            label=f"{structure} thresholds",
                            x=QUEUES,
                            y=[
                                _services(best, found[best])
                                for best in (
                                    Best(
                                        *(sizes, formula, structure),
                                        *(queues, False),
                                    )
                                    for queues in QUEUES
                                )
                            ],
                            style=styles[structure],
                        )
                        for structure in STRUCTURES
                    ],
                )
                for sizes in SIZES
            ]
            for formula, name in FORMULAS.items()
        ],
    )


# -- Figure 9 --------------------------------------------------------------

_MB = 1e6
_LINES9 = {
    "exponential": {
        f"mean {mean} MB": curves.exponential(mean) for mean in curves.MEANS_MB
    },
    "power law": {
        f"α = {alpha:g}": curves.power_law(alpha) for alpha in curves.ALPHAS
    },
}

Shares = dict[tuple[str, str], list[float]]
_SIZES_MB = np.geomspace(20.0, 10_000.0, 400)


def distribute(_measure: figure.Measure | None = None) -> Shares:
    """Return the share of jobs up to each size, by kind and parameter."""
    return {
        (kind, name): families.parse(text, "sizes")
        .cdf(_SIZES_MB * _MB)
        .tolist()
        for kind, lines in _LINES9.items()
        for name, text in lines.items()
    }


def claims9(found: Shares) -> list[figure.Claim]:
    """Return the claim on power laws, from the smallest α on."""
    at = int(np.searchsorted(_SIZES_MB, 1000.0))
    large = [
        100 * (1 - shares[at])
        for (kind, _), shares in found.items()
        if kind == "power law"
    ]
    return [
        figure.Claim(
            "the smaller α, the longer the tail (the parameters are ours)",
            "longer",
            f"{figure.listed(large, '{:.2f}')} % of jobs are above 1 GB",
            all(one > other for one, other in itertools.pairwise(large)),
        )
    ]


def _picture9(found: Shares) -> charts.Picture:
    return charts.Picture(
        title="Figure 9: distributions of sizes",
        subtitle="Exponential: no job below 20 MB. Bounded power law: from 20 "
        "MB to 10 GB. Figures 10 and 11 use them.",
        panels=[
            [
                charts.Panel(
                    title=f"{kind}: jobs of at most this size",
                    xlabel="size, MB, logarithmic",
                    log="x",
                    series=[
                        charts.Series(
                            label=name,
                            x=_SIZES_MB.tolist(),
                            y=shares,
                            style={"linewidth": 1.8},
                        )
                        for (other, name), shares in found.items()
                        if other == kind
                    ],
                )
                for kind in _LINES9
            ]
        ],
        row_in=3.6,
    )


# -- Figures 13 and 14 -----------------------------------------------------

STRATEGIES = ("wra", "wa")
LOAD = 1.5
_METRICS = {"act": "ACT", "tct95": "TCT(95)"}


Gains = dict[tuple[typing.Any, str], gains.Gain]


@dataclasses.dataclass(frozen=True)
class Plan:
    """One of the maps.

    :ivar sizes: as :class:`.clusters.ClusterRun` has them.
    :ivar best: the thresholds that the paper calls optimal.
    :ivar least: the paper's smallest factors of ACT and TCT.
    """

    number: int
    sizes_name: str
    sizes: str
    best: scenarios.Queues
    qs: Sequence[float]
    k1s: Sequence[int]
    least: tuple[float, float]
    seeds: Sequence[int] = clusters.SEEDS

    def make_run(
        self, q: float, k1: int
    ) -> Callable[[str, int], clusters.ClusterRun]:
        """Return what makes runs of a strategy and a seed."""
        queues = dataclasses.replace(self.best, q=q, k1=k1)
        # FIFO has no queues: one run of it serves all of them.
        return lambda strategy, seed: clusters.ClusterRun(
            *(strategy, self.sizes, LOAD, 1.0, seed),
            self.best if strategy == clusters.BASELINE else queues,
        )

    @property
    def places(self) -> list[tuple[float, int]]:
        """Return all q and k1."""
        return list(itertools.product(self.qs, self.k1s))

    def factors(self, found: Gains, strategy: str, metric: str) -> list[float]:
        """Return factors over FIFO at all places."""
        return [
            getattr(found[place, strategy], metric).mean
            for place in self.places
        ]

    def claims(self, found: Gains) -> list[figure.Claim]:
        """Return the paper's claims."""
        made = []
        for (metric, name), least in zip(
            _METRICS.items(), self.least, strict=True
        ):
            wra, wa = (
                self.factors(found, strategy, metric)
                for strategy in STRATEGIES
            )
            ahead = sum(
                one > other for one, other in zip(wra, wa, strict=True)
            )
            made += [
                figure.Claim(
                    f"WRA improves {name} over FIFO whatever q and k1 are",
                    f"at least {least:g} times",
                    figure.to(wra, "{:.2f}", " times"),
                    min(wra) >= least,
                ),
                figure.Claim(
                    f"WRA is ahead of WA in {name}",
                    "mostly",
                    f"at {ahead} of {len(wra)} settings; WA improves it "
                    f"{figure.to(wa, '{:.2f}', ' times')}",
                    2 * ahead > len(wra),
                ),
            ]
        act = dict(
            zip(self.places, self.factors(found, "wra", "act"), strict=True)
        )
        best = max(act, key=lambda place: act[place])
        named = self.best.q, self.best.k1
        made.append(
            figure.Claim(
                f"q = {named[0]:g}, k1 = {named[1]} is optimal for ACT",
                "optimal",
                f"{act[named]:.2f} times; the best is q = {best[0]:g}, k1 = "
                f"{best[1]} with {act[best]:.2f}",
                best == named,
            )
        )
        return made

    def cells(
        self, found: Gains, strategy: str, metric: str
    ) -> list[list[tuple[float, str]]]:
        """Return a map, a row per q."""
        return [
            [
                (
                    spread.mean,
                    f"{spread.mean:.2f}"
                    + (f" ± {sum(bar) / 2:.2f}" if any(bar) else ""),
                )
                for spread in (
                    getattr(found[(q, k1), strategy], metric)
                    for k1 in self.k1s
                )
                for bar in [charts.bar(spread)]
            ]
            for q in self.qs
        ]

    def picture(self, found: Gains) -> charts.Picture:
        """Return the maps of both strategies and metrics."""
        best = self.best
        return charts.Picture(
            title=f"Figure {self.number}: WRA and WA with other thresholds, "
            f"{self.sizes_name} sizes",
            subtitle=f"K = {best.queues}, k2 = {best.k2}, E = "
            f"{best.E_bytes / 1e6:g} MB; 100 hosts, 50 boards, 50 jobs per "
            f"host, load {LOAD:g}, return ratio 1, C = 2, D = 5; "
            f"{len(self.seeds)} seeds, ±: 95 % intervals. Framed: the paper's "
            "optimum.",
            panels=[
                [
                    charts.Panel(
                        title=f"{strategy.upper()}: {name}, times shorter "
                        "than FIFO",
                        xlabel="k1 (queues with geometric thresholds)",
                        ylabel="q (ratio of thresholds)",
                        categories=[str(k1) for k1 in self.k1s],
                        rows=[f"{q:g}" for q in self.qs],
                        cells=self.cells(found, strategy, metric),
                        framed=(
                            self.k1s.index(best.k1),
                            self.qs.index(best.q),
                        ),
                    )
                    for strategy in STRATEGIES
                ]
                for metric, name in _METRICS.items()
            ],
        )


def make_map(plan: Plan) -> figure.Figure:
    """Return a row of the table of figures."""
    return figure.Figure(
        name=str(plan.number),
        subject=f"Figure {plan.number} ({plan.sizes_name} sizes, load "
        f"{LOAD:g}, results sent back)",
        run=lambda measure: clusters.measure_gains(
            measure,
            {place: plan.make_run(*place) for place in plan.places},
            STRATEGIES,
            plan.seeds,
        ),
        header=("q", "k1", "strategy", *clusters.GAIN_HEADER),
        rows=lambda found: [
            (*place, strategy, *clusters.cells_of(gain))
            for (place, strategy), gain in found.items()
            if strategy != clusters.BASELINE
        ],
        claims=plan.claims,
        picture=plan.picture,
    )


MAPS = (
    Plan(
        number=13,
        sizes_name="exponential",
        sizes=clusters.EXPONENTIAL,
        best=scenarios.SHORT_TAIL,
        qs=(1.1, 1.2, 1.41, 1.7, 2.0),
        k1s=(1, 5, 10, 15),
        least=(1.98, 2.20),
        seeds=clusters.MANY_SEEDS,
    ),
    Plan(
        number=14,
        sizes_name="power-law",
        sizes=clusters.POWER_LAW,
        best=scenarios.LONG_TAIL,
        qs=(1.2, 1.5, 1.8, 2.1, 2.4),
        k1s=(1, 4, 7, 10),
        least=(3.85, 1.82),
    ),
)
FIGURES = (
    figure.Figure(
        name="5",
        subject="Figure 5 (sizes of 400 MB on average, load 0.95)",
        run=search,
        header=(
            *("sizes", "formula", "structure", "queues", "first_threshold"),
            *("mean_completion_s", "mean_completion_services"),
            *("E_bytes", "q", "k1", "k2"),
        ),
        rows=lambda found: [
            (
                *best[:4],
                "free" if best.is_free else "smallest size",
                *(tuning.completion_s, _services(best, tuning)),
                *(tuning.E_bytes, tuning.q, tuning.k1, tuning.k2),
            )
            for best, tuning in found.items()
        ],
        claims=_claims5,
        picture=_picture5,
    ),
    figure.Figure(
        name="9",
        subject="Figure 9",
        run=distribute,
        header=("sizes", "parameter", "size_mb", "share_of_jobs"),
        rows=lambda found: [
            (kind, name, float(size_mb), share)
            for (kind, name), shares in found.items()
            for size_mb, share in zip(_SIZES_MB, shares, strict=True)
        ],
        claims=claims9,
        picture=_picture9,
    ),
    *map(make_map, MAPS),
)
