# SPDX-License-Identifier: Apache-2.0

"""The tables of the paper on HJF, with all bags."""

from __future__ import annotations

import pytest

from reproduction.figures import bags
from reproduction.figures import hjf7
from reproduction.figures import hjf_table7
from tests.reproduction import laboratory

#: Bounds of HJF's energy per SLA over that of RND and of EDF, at HR 50 %.
RATIOS = {
    "coarse": ((0.84, 0.88), (0.96, 0.99)),
    "fine": ((0.77, 0.81), (0.92, 0.95)),
    "opt": ((0.80, 0.84), (0.94, 0.96)),
}


@pytest.fixture(scope="module")
def cells() -> list[hjf_table7.Cell]:
    return hjf_table7.compare(laboratory.simulate)


def test_reference_table(cells: list[hjf_table7.Cell]) -> None:
    assert len(cells) == 32
    assert [cell for cell in cells if not cell.is_near] == []


@pytest.mark.parametrize("mode", RATIOS)
def test_ratios(mode: str, cells: list[hjf_table7.Cell]) -> None:
    kj = {
        cell.rule: cell.score.kj_per_sla
        for cell in cells
        if cell.setting == bags.Setting(mode)
    }
    for rule, (low, high) in zip(("RND", "EDF"), RATIOS[mode], strict=True):
        assert low <= kj["HJF"] / kj[rule] <= high


@pytest.mark.parametrize(
    "plan", [hjf7.COARSE, hjf7.FINE, hjf7.OPT], ids=lambda plan: plan.name
)
def test_total_energy_is_about_the_same(plan: hjf7.Plan) -> None:
    scores = hjf7.compare(plan, laboratory.simulate)
    for high in bags.HIGH:
        setting = bags.Setting(plan.mode, high)
        rnd_kj = scores[setting, "RND"].energy_kj
        for rule in bags.PAPER_RULES:
            assert abs(scores[setting, rule].energy_kj / rnd_kj - 1) < 0.03


def test_frames_and_waste(cells: list[hjf_table7.Cell]) -> None:
    opt = {
        cell.rule: cell.score
        for cell in cells
        if cell.setting == bags.Setting("opt")
    }
    frames = {rule: opt[rule].frames_per_s for rule in bags.RULES}
    assert frames["HJF"] / frames["RND"] == pytest.approx(1.25, abs=0.025)
    assert frames["HJF"] / frames["EDF"] == pytest.approx(1.115, abs=0.02)
    wasted = {rule: opt[rule].wasted_frames for rule in bags.RULES}
    assert wasted["HJF"] == pytest.approx(12_800, abs=50)
    assert wasted["RND"] == pytest.approx(36_500, abs=50)
