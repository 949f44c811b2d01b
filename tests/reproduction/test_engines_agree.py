# SPDX-License-Identifier: Apache-2.0

"""The chunk engine beside the fluid one, at full size: takes minutes.

A window that is large enough hides the steps of the data plane, so that both
engines say the same; a window of one chunk does not.
"""

from __future__ import annotations

import functools

import pytest

from fpgapool.sim import simulation
from fpgapool.sim.engines import chunk
from fpgapool.sim.outcomes import results
from reproduction.rate_aware import era

LOAD = 0.8
SEED = 77

#: How far the mean completion times may be from each other.
TOLERANCES = {"exp": 0.05, "pow": 0.17}


def mean_completion_s(
    setting: era.Setting,
    strategy: str,
    monkeypatch: pytest.MonkeyPatch,
    window: int | None,
) -> float:
    """Simulate; None: with the fluid engine."""
    name = "fluid"
    if window is not None:
        name = "chunk"
        engine = functools.partial(chunk.ChunkEngine, window=window)
        monkeypatch.setitem(simulation.ENGINES, name, engine)
    scenario = era.make_scenario(setting, SEED)
    outcomes = simulation.run(scenario, strategy, engine=name, seed=SEED)
    return results.evaluate(scenario, outcomes).measured.act_s


@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["ra", "wra"])
@pytest.mark.parametrize("return_ratio", [0.0, 1.0])
@pytest.mark.parametrize("sizes", list(TOLERANCES))
def test_engines_agree(
    sizes: str,
    return_ratio: float,
    strategy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = era.Setting(sizes, return_ratio, LOAD)
    fluid_s = mean_completion_s(setting, strategy, monkeypatch, None)
    chunk_s = mean_completion_s(setting, strategy, monkeypatch, chunk.WINDOW)
    assert chunk_s == pytest.approx(fluid_s, rel=TOLERANCES[sizes])
    slow_s = mean_completion_s(setting, strategy, monkeypatch, 1)
    assert slow_s > 1.4 * fluid_s
