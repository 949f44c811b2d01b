# SPDX-License-Identifier: Apache-2.0

"""The reference table, at its full size: takes minutes, outside of the gate.

Run it with ``make test-reproduction`` after a change of a strategy, of the
fluid engine or of the workloads.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from collections.abc import Sequence

import pytest

from fpgapool.sim import crews
from fpgapool.sim import metrics
from fpgapool.sim.figures import experiments
from fpgapool.sim.figures import table6

_LIMIT_S = 1800


def _simulate(
    runs: Sequence[experiments.Run], /
) -> Mapping[experiments.Run, metrics.Metrics]:
    processes = multiprocessing.cpu_count()
    return dict(crews.work_here(experiments.measure_one, runs, processes))


@pytest.fixture(scope="module")
def cells() -> list[table6.Cell]:
    return table6.compare(_simulate)


@pytest.mark.timeout(_LIMIT_S)
@pytest.mark.parametrize("strategy", experiments.STRATEGIES)
@pytest.mark.parametrize(
    "setting", table6.SETTINGS, ids=lambda setting: setting.name
)
def test_cell(
    setting: table6.Setting, strategy: str, cells: list[table6.Cell]
) -> None:
    [cell] = [
        each
        for each in cells
        if each.setting is setting and each.strategy == strategy
    ]
    assert cell.gain.seeds == 5
    assert abs(cell.act_deviation) <= table6.ACT_TOLERANCE
    assert abs(cell.tct95_deviation) <= table6.TCT95_TOLERANCE
