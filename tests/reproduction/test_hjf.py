# SPDX-License-Identifier: Apache-2.0

"""The tables of the paper on HJF, with all bags."""

from __future__ import annotations

import pytest

from reproduction.figures import bags
from reproduction.figures import hjf
from tests.reproduction import laboratory

#: Bounds of HJF's energy per SLA over that of RND and of EDF, at HR 50 %.
RATIOS = {
    "coarse": ((0.84, 0.88), (0.96, 0.99)),
    "fine": ((0.77, 0.81), (0.92, 0.95)),
    "opt": ((0.80, 0.84), (0.94, 0.96)),
}


@pytest.fixture(scope="module")
def scores() -> bags.Scores:
    return bags.compare(laboratory.simulate, hjf.REFERENCE)


def test_reference_table(scores: bags.Scores) -> None:
    found = hjf.deviations(scores)
    assert len(found) == 48
    far = {name for name, off in found.items() if abs(off) > 1}
    assert far == set()


@pytest.mark.parametrize("mode", RATIOS)
def test_ratios(mode: str, scores: bags.Scores) -> None:
    setting = bags.Setting(mode)
    kj = {rule: scores[setting, rule].kj_per_sla for rule in bags.RULES}
    for rule, (low, high) in zip(("RND", "EDF"), RATIOS[mode], strict=True):
        assert low <= kj["HJF"] / kj[rule] <= high


@pytest.mark.parametrize("mode", bags.PAPER_MODES)
def test_total_energy_is_about_the_same(mode: str) -> None:
    settings = [bags.Setting(mode, high) for high in bags.HIGH]
    scores = bags.compare(laboratory.simulate, settings)
    for setting in settings:
        rnd_kj = scores[setting, "RND"].energy_kj
        for rule in bags.PAPER_RULES:
            assert abs(scores[setting, rule].energy_kj / rnd_kj - 1) < 0.03


def test_frames_and_waste(scores: bags.Scores) -> None:
    setting = bags.Setting("opt")
    opt = {rule: scores[setting, rule] for rule in bags.RULES}
    frames = {rule: opt[rule].frames_per_s for rule in bags.RULES}
    assert frames["HJF"] / frames["RND"] == pytest.approx(1.25, abs=0.025)
    assert frames["HJF"] / frames["EDF"] == pytest.approx(1.115, abs=0.02)
    wasted = {rule: opt[rule].wasted_frames for rule in bags.RULES}
    assert wasted["HJF"] == pytest.approx(12_800, abs=50)
    assert wasted["RND"] == pytest.approx(36_500, abs=50)
