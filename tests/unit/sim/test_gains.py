# SPDX-License-Identifier: Apache-2.0

"""Gains over seeds, with intervals."""

import math

import pytest

from fpgapool.sim.outcomes import gains
from tests.unit.sim import measures


def test_gain_over_seeds() -> None:
    before = [
        measures.measured(8.0, 9.0, 0.2, 0.1),
        measures.measured(8.0, 9.0, 0.2, 0.1),
    ]
    after = [
        measures.measured(4.0, 3.0, 0.4, 0.4),
        measures.measured(1.0, 9.0, 0.8, 0.1),
    ]
    gain = gains.compare(before, after)
    assert gain.seeds == 2
    assert gain.act[:3] == pytest.approx((4.0, 2.0, 8.0))
    assert gain.tct95[:3] == pytest.approx((math.sqrt(3.0), 1.0, 3.0))
    # Logarithms of 2 and 8 have the standard error log 2.
    low, high = 4.0 * 2**-12.71, 4.0 * 2**12.71
    assert gain.act[3:] == pytest.approx((low, high))
    assert gain.dlr_itself[:3] == pytest.approx((0.25, 0.1, 0.4))
    assert gain.sar.mean == pytest.approx(math.sqrt(8.0))
    assert gain.dlr.mean == pytest.approx(2.0)
    assert gain.means == pytest.approx(
        {
            "act_s": 2.5,
            "tct95_s": 6.0,
            "sar": 0.6,
            "dlr": 0.25,
            "wait_p95_s": 3.0,
        }
    )
    nothing_local = gains.compare([measures.measured(dlr=0.0)], after[:1])
    assert nothing_local.dlr.mean == math.inf
    # A single seed has no interval.
    assert nothing_local.act.interval_high == math.inf
