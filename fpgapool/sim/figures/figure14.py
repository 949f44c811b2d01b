#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


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
