# SPDX-License-Identifier: Apache-2.0

"""What the demo says about the paper's direction is what was measured."""

import dataclasses

import pytest

from fpgapool.demo.acts import comparison
from fpgapool.sim import metrics

FIFO = metrics.Metrics(
    jobs=10,
    act_s=6.0,
    tct95_s=10.0,
    p50_s=5.0,
    p99_s=11.0,
    sar=0.2,
    dlr=0.2,
    makespan_s=12.0,
)
WRA = dataclasses.replace(FIFO, act_s=2.0, tct95_s=8.0, dlr=0.5)


def test_direction_shows() -> None:
    text = comparison.verdict(FIFO, WRA)
    assert "direction shows" in text
    assert "3.00 times" in text
    assert "1.25 times" in text
    assert "2.50 times" in text


@pytest.mark.parametrize(
    "change",
    [{"act_s": 6.1}, {"tct95_s": 10.1}, {"dlr": 0.39}],
    ids=lambda change: next(iter(change)),
)
def test_direction_does_not_show(change: dict[str, float]) -> None:
    text = comparison.verdict(FIFO, dataclasses.replace(WRA, **change))
    assert "does NOT show" in text
