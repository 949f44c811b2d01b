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
