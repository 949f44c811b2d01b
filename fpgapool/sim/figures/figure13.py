# SPDX-License-Identifier: Apache-2.0

"""Figure 13: WRA and WA over q and k1, exponential sizes."""

from __future__ import annotations

import pathlib

from fpgapool.sim.figures import experiments
from fpgapool.sim.figures import maps

PLAN = maps.Plan(
    number=13,
    sizes=experiments.EXPONENTIAL,
    sizes_name="exponential",
    best=experiments.SHORT_TAIL,
    qs=(1.1, 1.2, 1.41, 1.7, 2.0),
    k1s=(1, 5, 10, 15),
    least_act=1.98,
    least_tct95=2.20,
)


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``figure13.png`` and ``figure13.csv``; see the package."""
    return maps.make(PLAN, out_dir, measure)
