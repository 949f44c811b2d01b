# SPDX-License-Identifier: Apache-2.0

"""Figure 14: WRA and WA over q and k1, sizes of a bounded power law."""

from __future__ import annotations

import pathlib

from fpgapool.sim.figures import experiments
from fpgapool.sim.figures import maps

PLAN = maps.Plan(
    number=14,
    sizes=experiments.POWER_LAW,
    sizes_name="power-law",
    best=experiments.LONG_TAIL,
    qs=(1.2, 1.5, 1.8, 2.1, 2.4),
    k1s=(1, 4, 7, 10),
    least_act=3.85,
    least_tct95=1.82,
)


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``figure14.png`` and ``figure14.csv``; see the package."""
    return maps.make(PLAN, out_dir, measure)
