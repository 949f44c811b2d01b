# SPDX-License-Identifier: Apache-2.0

"""The reference table, at its full size: takes minutes, outside of the gate.

Run it with ``make test-reproduction`` after a change of a strategy, of the
fluid engine or of the workloads.
"""

from __future__ import annotations

import pytest

from reproduction.figures import experiments
from reproduction.figures import table6
from tests.reproduction import laboratory

_LIMIT_S = 1800


@pytest.fixture(scope="module")
def cells() -> list[table6.Cell]:
    return table6.compare(laboratory.simulate)


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
