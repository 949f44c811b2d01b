# SPDX-License-Identifier: Apache-2.0

"""``python -m reproduction figures`` for the paper on HJF."""

from __future__ import annotations

import pathlib

import pytest

from reproduction import figures
from reproduction.figures import bags
from reproduction.figures import figure
from reproduction.figures import hjf
from tests.unit.reproduction import figure_runs


@pytest.fixture
def few_bags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bags, "SEEDS", range(3))
    monkeypatch.setattr(bags, "SETS", 2)


@pytest.mark.usefixtures("few_bags")
@pytest.mark.parametrize(
    ("name", "rows", "claims"),
    [
        # Shares of HR × rules.
        ("hjf7", 3 * 4, 3),
        ("hjf9", 3 * 4, 3),
        ("hjf11", 3 * 4, 3),
        # Modes × rules.
        ("hjf13", 4 * 4, 2),
        # Settings × rules.
        ("hjf-table7", 8 * 4, 3),
    ],
)
def test_figure(
    name: str, rows: int, claims: int, tmp_path: pathlib.Path
) -> None:
    said = figures.FIGURES[name].make(tmp_path, figure_runs.simulate)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    found = figure_runs.rows_of(tmp_path / f"{name}.csv")
    assert len(found) == rows
    for row in found:
        assert 0 < float(row["sla_percent"]) <= 100
        assert float(row["kj_per_sla"]) > 0
        for member in ("sla_percent", "kj_per_sla", "wasted_frames"):
            assert (
                float(row[f"{member}_95_low"])
                <= float(row[member])
                <= float(row[f"{member}_95_high"])
            )
    judged = figure_runs.rows_of(tmp_path / f"{name}-claims.csv")
    assert len(judged) == claims
    for claim in judged:
        verdict = "so" if claim["holds"] == "yes" else "NOT so"
        assert claim["paper"]
        assert (
            f"\n{verdict}: {claim['claim']}, paper: {claim['paper']}, here: "
            f"{claim['ours']}." in said
        )


def test_bags_differ_in_deadlines_only() -> None:
    some, many = (
        bags.make_jobs(bags.Setting("fine", high), 7) for high in (2, 10)
    )
    tight = 0
    for before, after in zip(some, many, strict=True):
        assert before.size_bytes == after.size_bytes
        assert before.arrival_s == after.arrival_s
        assert before.deadline_s is not None
        assert after.deadline_s is not None
        assert after.deadline_s <= before.deadline_s
        chunks = after.size_bytes / 60e6
        assert chunks in range(3, 10)
        tight += after.deadline_s < 150 * chunks - 25
    assert tight == 10
    assert some == bags.make_jobs(bags.Setting("fine", 2), 7)
    assert some != bags.make_jobs(bags.Setting("fine", 2), 8)


@pytest.mark.usefixtures("few_bags")
def test_a_table_is_the_mean_of_different_sets() -> None:
    key = (hjf.MAIN, "EDF")
    sets = bags.compare_sets(figure_runs.simulate, [hjf.MAIN], ["EDF"])
    # The reference has the first one.
    assert sets[0] == bags.compare(figure_runs.simulate, [hjf.MAIN], ["EDF"])
    first, second = (each[key].energy_kj for each in sets)
    assert first != second
    assert bags.means(sets)[key].energy_kj == pytest.approx(
        (first + second) / 2
    )
    # Student's t with one degree of freedom, over √2 of the deviation.
    assert bags.halves(sets)[key].energy_kj == pytest.approx(
        12.706 * abs(first - second) / 2, rel=1e-3
    )


def test_targets_of_the_main_setting() -> None:
    """All bags; tests/reproduction has the other settings."""
    main = hjf.MAIN
    scores = bags.compare(figure_runs.simulate, [main])
    kj = {rule: scores[main, rule].kj_per_sla for rule in bags.RULES}
    assert 0.92 <= kj["HJF"] / kj["EDF"] <= 0.95
    assert 0.77 <= kj["HJF"] / kj["RND"] <= 0.81
    assert kj["need"] <= hjf.NEED_TO_HJF * kj["HJF"]
    for rule, (sla, kj_per_sla) in zip(
        bags.RULES, hjf.REFERENCE[main], strict=True
    ):
        found = scores[main, rule]
        assert found.sla_percent == pytest.approx(sla, abs=0.051)
        assert found.kj_per_sla == pytest.approx(kj_per_sla, abs=0.0051)
    points = scores[main, "HJF"].sla_percent - scores[main, "RND"].sla_percent
    assert 18 <= points <= 21


def test_need_where_hjf_fails() -> None:
    settings = [hjf.FEW_CORES, hjf.TIGHT]
    scores = bags.compare(
        figure_runs.simulate, settings, ("EDF", "HJF", "need")
    )
    for setting in settings:
        edf, ours, need = (
            scores[setting, rule] for rule in ("EDF", "HJF", "need")
        )
        assert ours.sla_percent < edf.sla_percent < need.sla_percent
        assert need.kj_per_sla <= hjf.NEED_TO_EDF * edf.kj_per_sla


def test_what_does_not_reproduce_is_said() -> None:
    def energy(rnd: float) -> figure.Claim:
        scores = {
            (bags.Setting("coarse", high), rule): bags.Score(
                80.0, rnd if rule == "RND" else 400.0, 20.0, 30.0, 1e4
            )
            for high in bags.HIGH
            for rule in bags.RULES
        }
        return figures.FIGURES["hjf7"].claims([scores])[0]

    same, less = energy(401.0), energy(500.0)
    assert not same.holds
    assert "idle host and board" in same.ours
    assert less.holds
    assert figure.say("Table 1", [same, less]).startswith(
        "Table 1: what the paper says holds in part.\nNOT so: HJF and EDF"
    )
