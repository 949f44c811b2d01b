# SPDX-License-Identifier: Apache-2.0

"""Figure 12: the gain over FIFO, by the share of hosts with boards.

The same number of bytes arrives with every share: as many as the DMA pipes of
50 boards carry.
"""

from __future__ import annotations

import pathlib

from reproduction.figures import curves
from reproduction.figures import experiments

STRATEGIES = ("wa", "ra", "wra")
SHARES_PERCENT = (10, 20, 30, 40, 50, 60, 70, 80, 90)
#: λE[s], in units of the rate of one board's DMA pipe.
ARRIVING_BOARDS = 50
#: From this percentage of hosts on, the paper finds RA ahead of WA.
_CROSSING_PERCENT = 50
#: Two strategies within this factor count as equal.
_EQUAL = 1.03


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``figure12.png`` and ``figure12.csv``; see the package."""
    plan = curves.Plan(
        name="figure12",
        heading="Figure 12",
        axis=curves.Axis(
            "hosts with a board, %", "board_share_percent", SHARES_PERCENT
        ),
        make_run=_run,
        strategies=STRATEGIES,
        metrics=("act", "tct95"),
        seeds=experiments.MANY_SEEDS,
        title="Figure 12: improvement over FIFO by the share of hosts with "
        "boards",
        subtitle="100 hosts, 50 jobs each, exponential sizes of 400 MB on "
        "average; arriving bytes/s = DMA rate of 50 boards throughout; C = 2, "
        "D = 5",
        settings="exponential sizes; WRA's fallback gives slots to remote "
        "jobs that had better wait, if there are many boards",
        claims=_claims,
    )
    return curves.make(plan, out_dir, measure)


def _run(
    x: float, return_ratio: float, strategy: str, seed: int
) -> experiments.ClusterRun:
    boards = round(x)
    return experiments.ClusterRun(
        strategy,
        experiments.EXPONENTIAL,
        ARRIVING_BOARDS / boards,
        return_ratio,
        seed,
        boards=boards,
    )


def _claims(found: curves.Curves, return_ratio: float) -> list[curves.Claim]:
    crossing = _crossing(found, return_ratio)
    return [
        curves.Claim(
            f"RA's ACT is worse than WA's up to {_CROSSING_PERCENT - 10} % of "
            f"hosts with boards and better from {_CROSSING_PERCENT} % on "
            f"(here {_crossing_text(crossing)})",
            crossing == _CROSSING_PERCENT,
        ),
        *(
            _best_claim(found, metric, name, return_ratio)
            for metric, name in (("act", "ACT"), ("tct95", "TCT"))
        ),
    ]


def _crossing(found: curves.Curves, return_ratio: float) -> float | None:
    """The smallest share from which on RA stays ahead of WA."""
    behind = [
        wa > ra
        for wa, ra in zip(
            found.line("act", return_ratio, "wa"),
            found.line("act", return_ratio, "ra"),
            strict=True,
        )
    ]
    if behind[-1]:
        return None
    last = max((at for at, is_so in enumerate(behind) if is_so), default=-1)
    return found.axis.values[last + 1]


def _crossing_text(share: float | None) -> str:
    return "nowhere" if share is None else f"from {share:g} % on"


def _best_claim(
    found: curves.Curves, metric: str, name: str, return_ratio: float
) -> curves.Claim:
    """Claim that WRA is at least as good as the better of the others."""
    wa, ra, wra = (
        found.line(metric, return_ratio, strategy) for strategy in STRATEGIES
    )
    ratios = [
        ours / max(others) for ours, *others in zip(wra, wa, ra, strict=True)
    ]
    behind = [
        f"{share:g}"
        for share, ratio in zip(found.axis.values, ratios, strict=True)
        if ratio * _EQUAL < 1
    ]
    where = f"behind at {', '.join(behind)} %" if behind else "everywhere"
    return curves.Claim(
        f"WRA's {name} is about as good as the better one's or better (here "
        f"{where}, at worst {min(ratios):.2f} times as good)",
        not behind,
    )
