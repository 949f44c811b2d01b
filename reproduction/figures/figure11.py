# SPDX-License-Identifier: Apache-2.0

"""Figure 11: the gain over FIFO, by the tail of power-law sizes."""

from __future__ import annotations

import pathlib

from fpgapool.sim.inputs import scenario as scenarios
from reproduction.figures import curves
from reproduction.figures import experiments

ALPHAS = (0.7, 0.9, 1.1, 1.3, 1.5, 1.7)
LOAD = 1.0

#: The paper's factors of WRA.
_MOST_ACT = 7
_MOST_TCT95 = 3


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``figure11.png`` and ``figure11.csv``; see the package."""
    plan = curves.Plan(
        name="figure11",
        heading="Figure 11",
        axis=curves.Axis("α (smaller: longer tail)", "alpha", ALPHAS),
        make_run=_run,
        title="Figure 11: improvement over FIFO, power-law sizes",
        subtitle="100 hosts, 50 with a board of 4 slots, 50 jobs per host, "
        f"load {LOAD:g}, sizes from 20 MB to 10 GB; thresholds of α = 1.1 "
        "throughout; C = 2, D = 5, W = 0.01 s/MB",
        settings=f"power-law sizes with α from {ALPHAS[0]:g} to "
        f"{ALPHAS[-1]:g}, load {LOAD:g}",
        claims=_claims,
    )
    return curves.make(plan, out_dir, measure)


def sizes(alpha: float) -> str:
    """Return the sizes of a point on the axis."""
    return f"power-law:s0_bytes=20e6,smax_bytes=10e9,alpha={alpha:g}"


def _run(
    x: float, return_ratio: float, strategy: str, seed: int
) -> experiments.ClusterRun:
    return experiments.ClusterRun(
        strategy, sizes(x), LOAD, return_ratio, seed, scenarios.LONG_TAIL
    )


def _claims(found: curves.Curves, return_ratio: float) -> list[curves.Claim]:
    act_low, act_high = found.span("act", return_ratio, "wra")
    tct95_low, tct95_high = found.span("tct95", return_ratio, "wra")
    return [
        curves.Claim(
            "WRA is ahead of SJF and WA in ACT, TCT and DLR",
            found.is_ahead(
                ("act", "tct95", "dlr"), return_ratio, ("wra",), ("sjf", "wa")
            ),
        ),
        curves.Claim(
            "WRA is ahead of RA in ACT",
            found.is_ahead(("act",), return_ratio, ("wra",), ("ra",)),
        ),
        curves.Claim(
            "WRA is ahead of RA in TCT",
            found.is_ahead(("tct95",), return_ratio, ("wra",), ("ra",)),
        ),
        curves.Claim(
            "RA and WRA improve SAR less than SJF and WA",
            found.is_ahead(
                ("sar",), return_ratio, ("sjf", "wa"), ("ra", "wra")
            ),
        ),
        curves.Claim(
            "WRA's SAR is above RA's",
            found.is_ahead(("sar",), return_ratio, ("wra",), ("ra",)),
        ),
        curves.Claim(
            f"WRA improves ACT up to {_MOST_ACT:g} times (here "
            f"{act_low:.1f} to {act_high:.1f})",
            act_high >= _MOST_ACT,
        ),
        curves.Claim(
            f"WRA improves TCT up to {_MOST_TCT95:g} times (here "
            f"{tct95_low:.1f} to {tct95_high:.1f})",
            tct95_high >= _MOST_TCT95,
        ),
    ]
