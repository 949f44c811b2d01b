# SPDX-License-Identifier: Apache-2.0

"""Figures 10 to 12, and two more: gains over FIFO along an axis.

Figure 10 varies the mean of exponential sizes, Figure 11 the tail of a power
law, Figure 12 the share of hosts with boards, while the bytes that arrive stay
those that the DMA pipes of 50 boards carry.

The other two say what decides the gains. At a load of 0.8 FIFO has no steady
state when results travel back: its queue grows as long as jobs arrive, so a
strategy that keeps up gains the more, the more jobs a run has. At loads that
FIFO carries, gains do not depend on it once the first jobs, which find an
empty cluster, are left out.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import gains
from reproduction.figures import charts
from reproduction.figures import clusters
from reproduction.figures import figure

#: All results travel back, or no results do.
RETURN_RATIOS = (1.0, 0.0)
#: The panels' titles, by metric.
_PANELS = {
    "act": "ACT, times shorter",
    "tct95": "TCT(95), times shorter",
    "sar": "SAR, times larger",
    "dlr": "DLR, %",
}
_STYLES: dict[str, tuple[str, typing.Any, str]] = {
    "fifo": ("#666666", (0, (1, 2)), ""),
    "sjf": ("#CC79A7", ":", "^"),
    "wa": ("#E69F00", "-.", "s"),
    "ra": ("#009E73", "--", "D"),
    "wra": ("#1B4F8A", "-", "o"),
}
_SETTINGS = "100 hosts, 50 with a board of 4 slots, C = 2, D = 5"

Make = Callable[[float, float, str, int], clusters.ClusterRun]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """One of the figures.

    :ivar axis: label with unit, and the same as the name of a column.
    :ivar make_run: of x, return ratio, strategy and seed.
    :ivar return_ratios: a row of panels each.
    :ivar claims: the claims about a return ratio.
    """

    name: str
    subject: str
    axis: tuple[str, str]
    values: Sequence[float]
    make_run: Make
    strategies: Sequence[str] = clusters.STRATEGIES
    metrics: Sequence[str] = ("act", "tct95", "sar", "dlr")
    return_ratios: Sequence[float] = RETURN_RATIOS
    seeds: Sequence[int] = clusters.SEEDS
    title: str
    settings: str
    claims: Callable[[Curves, float], Sequence[figure.Claim]]


class Curves:
    """The results, to be looked up."""

    def __init__(self, plan: Plan, measure: figure.Measure) -> None:
        def maker(
            x: float, ratio: float
        ) -> Callable[[str, int], clusters.ClusterRun]:
            return lambda *rest: plan.make_run(x, ratio, *rest)

        self.values = plan.values
        self.gains = clusters.measure_gains(
            measure,
            {
                (x, ratio): maker(x, ratio)
                for ratio in plan.return_ratios
                for x in plan.values
            },
            plan.strategies,
            plan.seeds,
        )

    def along(self, ratio: float, strategy: str) -> list[gains.Gain]:
        """Return the gains along the axis."""
        return [self.gains[(x, ratio), strategy] for x in self.values]

    def line(self, metric: str, ratio: float, strategy: str) -> list[float]:
        """Return a metric along the axis: factors over FIFO, or DLR itself."""
        some = self.along(ratio, strategy)
        if metric == "dlr":
            return [each.means["dlr"] for each in some]
        return [getattr(each, metric).mean for each in some]

    def claim_ahead(
        self, metrics: str, ratio: float, better: str, worse: str
    ) -> figure.Claim:
        """Return that some strategies are above others along the axis."""
        ahead = [
            one > other
            for metric in metrics.split()
            for first in better.split()
            for second in worse.split()
            for one, other in zip(
                self.line(metric, ratio, first),
                self.line(metric, ratio, second),
                strict=True,
            )
        ]
        return figure.Claim(
            f"{better.replace(' ', ' and ').upper()} ahead of "
            f"{worse.replace(' ', ' and ').upper()} in "
            f"{metrics.removesuffix('95').replace(' ', ' and ').upper()}",
            "everywhere",
            f"in {sum(ahead)} of {len(ahead)} comparisons",
            all(ahead),
        )


def make_figure(plan: Plan) -> figure.Figure:
    """Return a row of the table of figures."""

    def claims(found: Curves) -> list[figure.Claim]:
        return [
            claim._replace(text=f"with return ratio {ratio:g} {claim.text}")
            for ratio in plan.return_ratios
            for claim in plan.claims(found, ratio)
        ]

    def picture(found: Curves) -> charts.Picture:
        return charts.Picture(
            title=plan.title,
            subtitle=f"{plan.settings}; {len(plan.seeds)} seeds, bars: 95 % "
            "intervals.",
            panels=[
                [_panel(plan, found, ratio, metric) for metric in plan.metrics]
                for ratio in plan.return_ratios
            ],
            gap_in=0.5,
            sharex=True,
            colours={key.upper(): each[0] for key, each in _STYLES.items()},
        )

    return figure.Figure(
        name=plan.name,
        subject=f"{plan.subject} ({plan.settings})",
        run=lambda measure: Curves(plan, measure),
        header=(
            *(plan.axis[1], "return_ratio", "strategy"),
            *clusters.GAIN_HEADER,
        ),
        rows=lambda found: [
            (x, ratio, strategy, *clusters.cells_of(gain))
            for ((x, ratio), strategy), gain in found.gains.items()
        ],
        claims=claims,
        picture=picture,
    )


def _panel(
    plan: Plan, found: Curves, ratio: float, metric: str
) -> charts.Panel:
    is_share = metric == "dlr"
    return charts.Panel(
        title=_PANELS[metric],
        xlabel=plan.axis[0],
        ylabel=f"return ratio {ratio:g}" if metric == "act" else "",
        series=[
            charts.Series(
                label=strategy.upper(),
                x=found.values,
                spreads=[
                    each.dlr_itself if is_share else getattr(each, metric)
                    for each in found.along(ratio, strategy)
                ],
                factor=100 if is_share else 1,
                style={
                    "linestyle": _STYLES[strategy][1],
                    "marker": _STYLES[strategy][2],
                    "markersize": 4.5,
                },
            )
            for strategy in (clusters.BASELINE, *plan.strategies)
        ],
    )


# -- sizes -----------------------------------------------------------------

MEANS_MB = (100, 200, 400, 600, 800, 1000)
ALPHAS = (0.7, 0.9, 1.1, 1.3, 1.5, 1.7)
#: The bounds of "close to 50 %", "comparable", and "clearly more".
_CLOSE_DLR, _COMPARABLE, _CLEARLY = 0.45, 0.9, 1.05


def exponential(mean_mb: float) -> str:
    """Return the sizes of a point of Figure 10."""
    return f"exponential:s0_bytes=20e6,mean_bytes={mean_mb:g}e6"


def power_law(alpha: float) -> str:
    """Return the sizes of a point of Figure 11."""
    return f"power-law:s0_bytes=20e6,smax_bytes=10e9,alpha={alpha:g}"


def _factor(
    found: Curves,
    ratio: float,
    metric: str,
    paper: str,
    holds: Callable[[float, float], bool],
) -> figure.Claim:
    """Return a claim on the gain of WRA, of its ends along the axis."""
    values = found.line(metric, ratio, "wra")
    return figure.Claim(
        f"WRA improves {metric.removesuffix('95').upper()}",
        paper,
        figure.to(values, "{:.2f}", " times"),
        holds(min(values), max(values)),
    )


def _claims10(found: Curves, ratio: float) -> list[figure.Claim]:
    act = found.line("act", ratio, "wra")
    dlr = found.line("dlr", ratio, "wra")
    sar, sjf, wa = (
        found.line("sar", ratio, name) for name in ("wra", "sjf", "wa")
    )
    shares = [
        ours / max(others) for ours, *others in zip(sar, sjf, wa, strict=True)
    ]
    return [
        found.claim_ahead("act dlr", ratio, "ra wra", "sjf wa"),
        _factor(found, ratio, "act", "5 to 7 times", lambda low, _: low >= 5),
        _factor(
            found, ratio, "tct95", "2 to 4 times", lambda low, _: low >= 2
        ),
        figure.Claim(
            "WRA's DLR is close to the share of hosts with boards",
            "50 %",
            figure.to([100 * each for each in dlr], "{:.0f}", " %"),
            min(dlr) >= _CLOSE_DLR,
        ),
        figure.Claim(
            "WRA gains more where jobs are smaller",
            "more",
            f"{act[0]:.1f} and {act[-1]:.1f} times at both ends",
            act[0] > _CLEARLY * act[-1],
        ),
        figure.Claim(
            "WRA's SAR is comparable to the better of SJF's and WA's",
            "comparable",
            figure.to(shares, "{:.2f}", " times"),
            min(shares) >= _COMPARABLE,
        ),
        found.claim_ahead("sar", ratio, "sjf wa wra", "ra"),
    ]


def _claims11(found: Curves, ratio: float) -> list[figure.Claim]:
    return [
        found.claim_ahead("act tct95 dlr", ratio, "wra", "sjf wa"),
        found.claim_ahead("act", ratio, "wra", "ra"),
        found.claim_ahead("tct95", ratio, "wra", "ra"),
        found.claim_ahead("sar", ratio, "sjf wa", "ra wra"),
        found.claim_ahead("sar", ratio, "wra", "ra"),
        _factor(
            found, ratio, "act", "up to 7 times", lambda _, high: high >= 7
        ),
        _factor(
            found, ratio, "tct95", "up to 3 times", lambda _, high: high >= 3
        ),
    ]


# -- boards ----------------------------------------------------------------

SHARES_PERCENT = (10, 20, 30, 40, 50, 60, 70, 80, 90)
#: λE[s], in units of the rate of one board's DMA pipe.
ARRIVING_BOARDS = 50
#: From this percentage of hosts on, the paper finds RA ahead of WA.
_CROSSING_PERCENT = 50
#: Two strategies within this factor count as equal.
_EQUAL = 1.03


def _claims12(found: Curves, ratio: float) -> list[figure.Claim]:
    behind = [
        wa > ra
        for wa, ra in zip(
            found.line("act", ratio, "wa"),
            found.line("act", ratio, "ra"),
            strict=True,
        )
    ]
    last = max((at for at, is_so in enumerate(behind) if is_so), default=-1)
    crossing = None if behind[-1] else found.values[last + 1]
    claims = [
        figure.Claim(
            "RA's ACT is worse than WA's with few boards, and then better",
            f"from {_CROSSING_PERCENT} % of hosts on",
            "nowhere" if crossing is None else f"from {crossing:g} % on",
            crossing == _CROSSING_PERCENT,
        )
    ]
    for metric in ("act", "tct95"):
        wa, ra, wra = (
            found.line(metric, ratio, name) for name in ("wa", "ra", "wra")
        )
        ratios = [
            ours / max(others)
            for ours, *others in zip(wra, wa, ra, strict=True)
        ]
        late = [
            x
            for x, one in zip(found.values, ratios, strict=True)
            if one * _EQUAL < 1
        ]
        where = f"behind at {figure.listed(late, '{:g}')} %"
        claims.append(
            figure.Claim(
                f"WRA's {metric.removesuffix('95').upper()} is about as good "
                "as the better one's or better",
                "everywhere",
                f"{where if late else 'everywhere'}, at worst "
                f"{min(ratios):.2f} times as good",
                not late,
            )
        )
    return claims


# -- what decides the gain -------------------------------------------------

#: The share of the jobs that finds the cluster too empty.
_WARM_UP = 0.25
#: A time that grows by less than this factor counts as steady.
_STEADY = 1.15


def _claims_of_lengths(found: Curves, ratio: float) -> list[figure.Claim]:
    fifo_s = [
        each.means["act_s"] for each in found.along(ratio, clusters.BASELINE)
    ]
    factors = found.line("act", ratio, "wra")
    return [
        figure.Claim(
            "FIFO has no steady state, its ACT grows with the jobs",
            "not looked at",
            f"{figure.listed(fifo_s, '{:.0f}')} s",
            all(b > _STEADY * a for a, b in itertools.pairwise(fifo_s)),
        ),
        figure.Claim(
            "WRA's gain in ACT grows with them",
            "not looked at",
            f"{figure.listed(factors, '{:.1f}')} times",
            all(b > a for a, b in itertools.pairwise(factors)),
        ),
    ]


def _claims_of_loads(found: Curves, ratio: float) -> list[figure.Claim]:
    factors = found.line("act", ratio, "wra")
    paper = "not looked at"
    return [
        _factor(found, ratio, "act", paper, lambda low, _: low > 1),
        _factor(found, ratio, "tct95", paper, lambda low, _: low > 1),
        figure.Claim(
            "WRA gains more at higher loads",
            paper,
            f"{figure.listed(factors, '{:.2f}')} times",
            all(b > a for a, b in itertools.pairwise(factors)),
        ),
    ]


def _at(
    sizes: str, load: float, **options: typing.Any
) -> Callable[[float, str, int], clusters.ClusterRun]:
    """Return what makes runs of a return ratio, a strategy and a seed."""
    return lambda ratio, strategy, seed: clusters.ClusterRun(
        strategy, sizes, load, ratio, seed, **options
    )


PLANS = (
    Plan(
        name="10",
        subject="Figure 10",
        axis=("mean size, MB", "mean_mb"),
        values=MEANS_MB,
        make_run=lambda x, *rest: _at(exponential(x), 1.0)(*rest),
        title="Figure 10: improvement over FIFO, exponential sizes",
        settings=f"{_SETTINGS}, 50 jobs per host, load 1, no job below 20 MB, "
        "thresholds of 400 MB throughout",
        claims=_claims10,
    ),
    Plan(
        name="11",
        subject="Figure 11",
        axis=("α (smaller: longer tail)", "alpha"),
        values=ALPHAS,
        make_run=lambda x, *rest: _at(
            power_law(x), 1.0, queues=scenarios.LONG_TAIL
        )(*rest),
        title="Figure 11: improvement over FIFO, power-law sizes",
        settings=f"{_SETTINGS}, 50 jobs per host, load 1, sizes from 20 MB to "
        "10 GB, thresholds of α = 1.1 throughout",
        claims=_claims11,
    ),
    Plan(
        name="12",
        subject="Figure 12",
        axis=("hosts with a board, %", "board_share_percent"),
        values=SHARES_PERCENT,
        make_run=lambda x, *rest: _at(
            clusters.EXPONENTIAL, ARRIVING_BOARDS / round(x), boards=round(x)
        )(*rest),
        strategies=("wa", "ra", "wra"),
        metrics=("act", "tct95"),
        seeds=clusters.MANY_SEEDS,
        title="Figure 12: improvement over FIFO by the share of hosts with "
        "boards",
        settings="100 hosts, 50 jobs each, exponential sizes of 400 MB on "
        "average, arriving bytes/s: DMA rate of 50 boards; WRA's fallback "
        "gives slots to remote jobs that had better wait",
        claims=_claims12,
    ),
    Plan(
        name="jobs-per-host",
        subject="The figure of jobs per host",
        axis=("jobs per host", "jobs_per_host"),
        values=(12, 25, 50, 100, 200),
        make_run=lambda x, *rest: _at(
            clusters.EXPONENTIAL, 0.8, jobs_per_host=round(x)
        )(*rest),
        metrics=("act", "tct95"),
        return_ratios=(1.0,),
        seeds=clusters.MANY_SEEDS,
        title="The length of a run: improvement over FIFO at load 0.8",
        settings=f"{_SETTINGS}, load 0.8, exponential sizes",
        claims=_claims_of_lengths,
    ),
    Plan(
        name="steady-loads",
        subject="The figure of steady loads",
        axis=("load", "load"),
        values=(0.1, 0.15, 0.2, 0.25, 0.3, 0.35),
        make_run=lambda x, *rest: _at(
            clusters.EXPONENTIAL, x, jobs_per_host=100, warm_up=_WARM_UP
        )(*rest),
        metrics=("act", "tct95"),
        return_ratios=(1.0,),
        seeds=clusters.MANY_SEEDS,
        title="Loads that FIFO carries: improvement where no queue grows",
        settings=f"{_SETTINGS}, 100 jobs per host, exponential sizes, the "
        f"first {100 * _WARM_UP:.0f} % of the jobs left out",
        claims=_claims_of_loads,
    ),
)
FIGURES = tuple(map(make_figure, PLANS))
