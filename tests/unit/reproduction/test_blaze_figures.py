# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim figures`` for the paper on Blaze."""

from __future__ import annotations

import itertools
import pathlib
import random

import pytest

from reproduction import figures
from reproduction.figures import blaze5
from reproduction.figures import blaze8
from reproduction.figures import blaze9
from reproduction.figures import blaze11
from reproduction.models import containers
from tests.unit.reproduction import figure_runs


@pytest.fixture
def two_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blaze11, "SEEDS", range(2))


@pytest.mark.usefixtures("two_seeds")
@pytest.mark.parametrize(
    ("name", "rows", "claims", "fails"),
    [
        # Four applications on a host, two on clusters of four kinds.
        ("blaze5", 4 * 2 + 2 * 4, 8, 3),
        # Streams × boards.
        ("blaze8", 2 * 2, 3, 1),
        # Applications × (naive, cached, pipelined with up to four stages).
        ("blaze9", 2 * (2 + 4), 6, 2),
        # Policies × mixes, and misses.
        ("blaze11", 4 * 7 + 6, 5, 1),
    ],
)
def test_figure(
    name: str, rows: int, claims: int, fails: int, tmp_path: pathlib.Path
) -> None:
    said = figures.FIGURES[name](tmp_path, figure_runs.simulate)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure_runs.rows_of(tmp_path / f"{name}.csv")) == rows
    judged = figure_runs.rows_of(tmp_path / f"{name}-claims.csv")
    assert len(judged) == claims
    assert [claim["holds"] for claim in judged].count("no") == fails
    for claim in judged:
        verdict = "so" if claim["holds"] == "yes" else "NOT so"
        assert (
            f"\n{verdict}: {claim['claim']}, paper: {claim['paper']}, here: "
            f"{claim['ours']}." in said
        )


def test_every_figure_is_tried() -> None:
    names = [name for name in figures.FIGURES if name.startswith("blaze")]
    assert names == ["blaze5", "blaze8", "blaze9", "blaze11"]


# -- Figures 5 to 7 --------------------------------------------------------


def test_amdahl() -> None:
    assert blaze5.amdahl("LR") == pytest.approx(2.30, abs=0.005)
    assert blaze5.amdahl("KM") == pytest.approx(2.59, abs=0.005)


def test_one_host_and_clusters() -> None:
    found = blaze5.compare(figure_runs.simulate)
    for name in blaze5.KNOWN:
        time, energy = blaze5.gains(found, name)
        assert time == pytest.approx(blaze5.amdahl(name), rel=0.02)
        assert energy == pytest.approx(time * 200 / 225)
    # Four boards are worth this many hosts; the paper has twelve.
    assert 4 * blaze5.worth(found, "LR") == pytest.approx(9.0, abs=0.05)
    assert 4 * blaze5.worth(found, "KM") == pytest.approx(10.15, abs=0.05)
    # The rest takes the same time with boards and without.
    for name in blaze5.KNOWN:
        rests_s = {
            run: took.time_s - took.kernel_s
            for run, took in found.items()
            if run.application == name and run.hosts == blaze5.BOARDS
        }
        assert len(rests_s) == 2
        assert max(rests_s.values()) - min(rests_s.values()) < 1


# -- Figure 8 --------------------------------------------------------------


def test_shared_boards() -> None:
    found = blaze8.compare(figure_runs.simulate)
    for streams, least in blaze8.TARGETS.items():
        assert least <= blaze8.ratio(found, streams) <= 1
    own = found[blaze8.StreamsRun(1, shared=False)]
    assert own == pytest.approx(blaze8.PAPER_OWN, rel=0.001)


# -- Figures 9 and 10 ------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_formula_is_what_a_pipeline_takes(seed: int) -> None:
    draw = random.Random(seed)
    stages = blaze9.Stages(
        tuple(draw.uniform(0, 3) for _ in range(draw.randint(0, 4))),
        draw.uniform(0.1, 3),
        draw.random() < 0.8,
    )
    tasks = draw.randint(1, 30)
    busy = blaze9.kernels(stages, tasks, 5.0)
    assert len(busy) == tasks
    assert busy[-1][1] - 5 == pytest.approx(blaze9.formula(stages, tasks))
    # The kernel works for one task at a time.
    for (_, last), (first, _) in itertools.pairwise(busy):
        assert first >= last - 1e-9


def test_worked_pipelines() -> None:
    # i = 2, x = 1, and no output.
    serial = blaze9.Stages((2.0,), 1.0, overlaps=False)
    assert blaze9.kernels(serial, 2) == [(2, 3), (5, 6)]
    pipelined = blaze9.Stages((2.0,), 1.0)
    assert blaze9.kernels(pipelined, 3) == [(2, 3), (4, 5), (6, 7)]
    assert blaze9.formula(pipelined, 3) == 2 + 1 + 2 * 2
    cached = blaze9.Stages((), 1.0)
    assert blaze9.kernels(cached, 2, 4.0) == [(4, 5), (5, 6)]


def test_gain_of_pipelining_is_bounded_by_the_stages() -> None:
    found = blaze9.compare(figure_runs.simulate)
    for application in blaze9.NAIVE:
        gains = [
            blaze9.gain(found, application, stages)
            for stages in range(1, blaze9.MOST_STAGES + 1)
        ]
        assert gains == sorted(gains)
        for stages, gain in enumerate(gains, 1):
            assert gain < stages + 1
        low, high = blaze9.PAPER_GAIN
        assert gains[1] < low < gains[2] < gains[3] < high


def test_use_of_the_board() -> None:
    for application in blaze9.NAIVE:
        uses: dict[str, list[float]] = {}
        starts = []
        for part, start, use in blaze9.use_over_time(application):
            uses.setdefault(part, []).append(use)
            starts.append(start)
        assert starts == sorted(starts)
        assert max(uses["naive"]) < 0.05
        assert max(uses["pipelined"]) < 0.25
        assert min(uses["cached"]) > blaze9.LEAST_CACHED_USE


# -- Figure 11 -------------------------------------------------------------


def test_mixes_differ_in_kinds_only() -> None:
    some, many = (blaze11.make_jobs(share, 3) for share in (0.2, 0.6))
    for before, after in zip(some, many, strict=True):
        assert before.app == after.app
        assert before.tasks == after.tasks
        assert before.arrival_s == after.arrival_s
        # LR stays LR.
        assert before.accelerator == "km" or after.accelerator == "lr"
    assert [job.accelerator for job in many].count("lr") == 2 * 24
    assert some[0].arrival_s == 0
    assert {job.tasks for job in some} <= set(range(5, 26))
    assert some == blaze11.make_jobs(0.2, 3)
    assert some != blaze11.make_jobs(0.2, 4)


def test_mixes_of_equal_parts() -> None:
    """All seeds; tests/reproduction has the other mixes."""
    runs = {
        policy: [blaze11.MixRun(policy, 0.5, seed) for seed in range(10)]
        for policy in containers.POLICIES
    }
    found = figure_runs.simulate(
        [run for some in runs.values() for run in some]
    )
    for (policy, some), reference in zip(
        runs.items(), blaze11.REFERENCE[0.5,], strict=True
    ):
        distances = [found[run].distance for run in some]
        assert 100 * sum(distances) / 10 == pytest.approx(reference, abs=0.05)
        # Nothing is before the bound.
        assert min(distances) >= 0
        if policy == "static":
            assert {found[run].reprogrammings for run in some} == {4}


def test_deviations_from_the_reference_are_found() -> None:
    mixed = blaze11.Mixed(0.5, 0.5, 4)
    means = {
        (policy, share): mixed
        for policy in containers.POLICIES
        for share in blaze11.SHARES
    }
    by_misses = dict.fromkeys(blaze11.REFERENCE_BY_MISSES, mixed)
    off = blaze11.deviations(means, by_misses)
    assert len(off) == 5 * 4 + 6
    assert off["naive at 0.5"] == pytest.approx(50 - 29.0)
    assert off["gam with 40 misses"] == pytest.approx(50 - 7.5)
