# SPDX-License-Identifier: Apache-2.0

"""Figure 10: the gain over FIFO, by the mean of exponential sizes."""

from __future__ import annotations

import pathlib

from reproduction.figures import curves
from reproduction.figures import experiments

MEANS_MB = (100, 200, 400, 600, 800, 1000)
LOAD = 1.0

#: The paper's factors of WRA.
_LEAST_ACT = 5
_LEAST_TCT95 = 2
#: The bounds of "close to 50 %", "comparable", and "clearly more".
_CLOSE_DLR = 0.45
_COMPARABLE = 0.9
_CLEARLY = 1.05


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``figure10.png`` and ``figure10.csv``; see the package."""
    plan = curves.Plan(
        name="figure10",
        heading="Figure 10",
        axis=curves.Axis("mean size, MB", "mean_mb", MEANS_MB),
        make_run=_run,
        title="Figure 10: improvement over FIFO, exponential sizes",
        subtitle="100 hosts, 50 with a board of 4 slots, 50 jobs per host, "
        f"load {LOAD:g}, no job below 20 MB; thresholds of 400 MB "
        "throughout; C = 2, D = 5, W = 0.01 s/MB",
        settings=f"exponential sizes of {MEANS_MB[0]} to {MEANS_MB[-1]} MB, "
        f"load {LOAD:g}",
        claims=_claims,
    )
    return curves.make(plan, out_dir, measure)


def sizes(mean_mb: float) -> str:
    """Return the sizes of a point on the axis."""
    return f"exponential:s0_bytes=20e6,mean_bytes={mean_mb:g}e6"


def _run(
    x: float, return_ratio: float, strategy: str, seed: int
) -> experiments.ClusterRun:
    return experiments.ClusterRun(strategy, sizes(x), LOAD, return_ratio, seed)


def _claims(found: curves.Curves, return_ratio: float) -> list[curves.Claim]:
    act = found.line("act", return_ratio, "wra")
    act_low, act_high = found.span("act", return_ratio, "wra")
    tct95_low, tct95_high = found.span("tct95", return_ratio, "wra")
    dlr_low, dlr_high = found.span("dlr", return_ratio, "wra")
    sar, sar_sjf, sar_wa = (
        found.line("sar", return_ratio, strategy)
        for strategy in ("wra", "sjf", "wa")
    )
    return [
        curves.Claim(
            "RA and WRA are ahead of SJF and WA in ACT and DLR",
            found.is_ahead(
                ("act", "dlr"), return_ratio, ("ra", "wra"), ("sjf", "wa")
            ),
        ),
        curves.Claim(
            f"WRA improves ACT {_LEAST_ACT:g} to 7 times (here "
            f"{act_low:.1f} to {act_high:.1f})",
            act_low >= _LEAST_ACT,
        ),
        curves.Claim(
            f"WRA improves TCT {_LEAST_TCT95:g} to 4 times (here "
            f"{tct95_low:.1f} to {tct95_high:.1f})",
            tct95_low >= _LEAST_TCT95,
        ),
        curves.Claim(
            "WRA's DLR is close to the 50 % of hosts with boards (here "
            f"{100 * dlr_low:.0f} to {100 * dlr_high:.0f} %)",
            dlr_low >= _CLOSE_DLR,
        ),
        curves.Claim(
            "WRA gains more where jobs are smaller (here "
            f"{act[0]:.1f} and {act[-1]:.1f} times at both ends)",
            act[0] > _CLEARLY * act[-1],
        ),
        curves.Claim(
            "WRA's SAR is comparable to SJF's and WA's",
            all(
                ours >= _COMPARABLE * max(others)
                for ours, *others in zip(sar, sar_sjf, sar_wa, strict=True)
            ),
        ),
        curves.Claim(
            "RA's SAR is lower than all others'",
            found.is_ahead(
                ("sar",), return_ratio, ("sjf", "wa", "wra"), ("ra",)
            ),
        ),
    ]
