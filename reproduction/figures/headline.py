# SPDX-License-Identifier: Apache-2.0

"""What decides the gains over FIFO: the length of the run, or the load.

At a load of 0.8 FIFO has no steady state when results travel back: its queue
grows as long as jobs arrive, so a strategy that keeps up gains the more, the
more jobs a run has. At loads that FIFO carries, gains do not depend on it once
the first jobs, which find an empty cluster, are left out.
"""

from __future__ import annotations

import itertools
import pathlib

from reproduction.figures import curves
from reproduction.figures import experiments

JOBS_PER_HOST = (12, 25, 50, 100, 200)
LOAD = 0.8
#: Loads that FIFO carries.
LOADS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
STEADY_JOBS_PER_HOST = 100
#: The share of the jobs that finds the cluster too empty.
WARM_UP = 0.25

_CLUSTER = (
    "100 hosts, 50 with a board of 4 slots, exponential sizes of 400 MB on "
    "average; C = 2, D = 5"
)
#: A time that grows by less than this factor counts as steady.
_STEADY = 1.15


def make_jobs_per_host(
    out_dir: pathlib.Path, measure: experiments.Measure
) -> str:
    """Write ``jobs-per-host.png`` and its table; see the package."""
    plan = curves.Plan(
        name="jobs-per-host",
        heading="The figure of jobs per host",
        axis=curves.Axis("jobs per host", "jobs_per_host", JOBS_PER_HOST),
        make_run=_long_run,
        metrics=("act", "tct95"),
        return_ratios=(1.0,),
        seeds=experiments.MANY_SEEDS,
        title=f"The length of a run: improvement over FIFO at load {LOAD:g}",
        subtitle=_CLUSTER,
        settings=f"load {LOAD:g}, exponential sizes",
        claims=_claims_of_lengths,
    )
    return curves.make(plan, out_dir, measure)


def make_steady_loads(
    out_dir: pathlib.Path, measure: experiments.Measure
) -> str:
    """Write ``steady-loads.png`` and its table; see the package."""
    plan = curves.Plan(
        name="steady-loads",
        heading="The figure of steady loads",
        axis=curves.Axis("load", "load", LOADS),
        make_run=_steady_run,
        metrics=("act", "tct95"),
        return_ratios=(1.0,),
        seeds=experiments.MANY_SEEDS,
        title="Loads that FIFO carries: improvement where no queue grows",
        subtitle=f"{_CLUSTER}; {STEADY_JOBS_PER_HOST} jobs per host, the "
        f"first {100 * WARM_UP:.0f} % left out",
        settings=f"loads of {LOADS[0]:g} to {LOADS[-1]:g}, exponential sizes, "
        f"the first {100 * WARM_UP:.0f} % of the jobs left out",
        claims=_claims_of_loads,
    )
    return curves.make(plan, out_dir, measure)


def _long_run(
    x: float, return_ratio: float, strategy: str, seed: int
) -> experiments.ClusterRun:
    return experiments.ClusterRun(
        strategy,
        experiments.EXPONENTIAL,
        LOAD,
        return_ratio,
        seed,
        jobs_per_host=round(x),
    )


def _steady_run(
    x: float, return_ratio: float, strategy: str, seed: int
) -> experiments.ClusterRun:
    return experiments.ClusterRun(
        strategy,
        experiments.EXPONENTIAL,
        x,
        return_ratio,
        seed,
        jobs_per_host=STEADY_JOBS_PER_HOST,
        warm_up=WARM_UP,
    )


def _times_s(
    found: curves.Curves, return_ratio: float, strategy: str
) -> list[float]:
    return [
        found.gain(x, return_ratio, strategy).means["act_s"]
        for x in found.axis.values
    ]


def _claims_of_lengths(
    found: curves.Curves, return_ratio: float
) -> list[curves.Claim]:
    fifo_s = _times_s(found, return_ratio, "fifo")
    factors = found.line("act", return_ratio, "wra")
    lengths = [f"{x:g}" for x in found.axis.values]
    return [
        curves.Claim(
            "FIFO has no steady state, its ACT grows with the jobs (here "
            f"{_listed([f'{each:.0f}' for each in fifo_s])} s with "
            f"{_listed(lengths)} jobs per host)",
            all(
                later > _STEADY * earlier
                for earlier, later in itertools.pairwise(fifo_s)
            ),
        ),
        curves.Claim(
            "WRA's gain in ACT grows with them (here "
            f"{_listed([f'{each:.1f}' for each in factors])} times)",
            all(
                later > earlier
                for earlier, later in itertools.pairwise(factors)
            ),
        ),
    ]


def _claims_of_loads(
    found: curves.Curves, return_ratio: float
) -> list[curves.Claim]:
    low, high = found.span("act", return_ratio, "wra")
    tail_low, tail_high = found.span("tct95", return_ratio, "wra")
    factors = found.line("act", return_ratio, "wra")
    return [
        curves.Claim(
            f"WRA improves ACT (here {low:.2f} to {high:.2f} times)", low > 1
        ),
        curves.Claim(
            f"WRA improves TCT (here {tail_low:.2f} to {tail_high:.2f} times)",
            tail_low > 1,
        ),
        curves.Claim(
            "WRA gains more at higher loads",
            all(
                later > earlier
                for earlier, later in itertools.pairwise(factors)
            ),
        ),
    ]


def _listed(texts: list[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
