# SPDX-License-Identifier: Apache-2.0

"""The command ``figures``, and the figures on FPGAPooling."""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

import pytest

from fpgapool.sim.outcomes import metrics
from reproduction import __main__ as reproduction
from reproduction import figures
from reproduction.figures import charts
from reproduction.figures import clusters
from reproduction.figures import curves
from reproduction.figures import figure
from reproduction.figures import pairs
from reproduction.figures import table6
from reproduction.figures import thresholds
from tests.unit.reproduction import commands
from tests.unit.reproduction import figure_runs
from tests.unit.sim import measures


def test_every_paper_has_its_figures() -> None:
    assert list(figures.FIGURES) == [
        *("5", "7", "8", "9", "10", "11", "12", "13", "14"),
        *("jobs-per-host", "steady-loads", "table6"),
        *("groups5", "groups6", "groups7", "goals3", "goals6", "goals-mixes"),
        *("hjf7", "hjf9", "hjf11", "hjf13", "hjf-table7"),
        *("blaze5", "blaze8", "blaze9", "blaze11", "real-traces"),
    ]


# -- the command -----------------------------------------------------------


def test_figures_are_made(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(thresholds, "QUEUES", (2, 7, 20))
    out_dir = tmp_path / "new" / "pictures"
    assert reproduction.main(["figures", "5", "--out", str(out_dir)]) == 0
    said = capsys.readouterr().out
    assert "Figure 5 (sizes of 400 MB on average, load 0.95): what" in said
    # By the paper's formula, and by Cobham's.
    assert "here: 27.2 %, 7.1 %" in " ".join(said.split())
    assert "here: 14.2 %, 3.3 %" in " ".join(said.split())
    assert {path.name for path in out_dir.iterdir()} == {
        "figure5.png",
        "figure5.csv",
        "figure5-claims.csv",
    }
    assert (out_dir / "figure5.png").read_bytes().startswith(b"\x89PNG")
    rows = figure_runs.rows_of(out_dir / "figure5.csv")
    # Sizes, formulas and structures; two of the queues with E free, too.
    assert len(rows) == 2 * 2 * 3 * (3 + 2)
    claims = figure_runs.rows_of(out_dir / "figure5-claims.csv")
    assert [claim["holds"] for claim in claims] == [
        *("yes", "no", "no", "yes", "yes"),
    ]


def test_all_makes_each_once(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Made(typing.NamedTuple):
        name: str

        def make(self, out_dir: pathlib.Path, _measure: object) -> str:
            assert out_dir == tmp_path
            return f"[{self.name}] holds"

    monkeypatch.setattr(
        figures, "FIGURES", {name: Made(name) for name in ("5", "7")}
    )
    for chosen in (["all"], ["7", "5", "7"], ["5", "all"]):
        arguments = ["figures", *chosen, "--out", str(tmp_path)]
        assert reproduction.main(arguments) == 0
        assert capsys.readouterr().out.splitlines()[:2] == [
            "[5] holds",
            "[7] holds",
        ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["4"], "figures: 4: unknown figure; known: 5"),
        (
            ["9", "--processes", "0"],
            "--processes: must be an integer from 1 to",
        ),
    ],
)
def test_what_is_refused(
    options: list[str],
    said: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    found = commands.refused(capsys, "figures", *options, "--out", out)
    assert found.startswith(said)
    assert not out.exists()


def test_directory_that_cannot_be(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_text("")
    said = commands.refused(capsys, "figures", "5", "--out", path)
    assert said == f"{path}: File exists"


def test_a_run_is_done_once_for_all_figures(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[clusters.ClusterRun] = []

    def measure(run: clusters.ClusterRun) -> metrics.Metrics:
        done.append(run)
        return measures.measured()

    monkeypatch.setattr(clusters.ClusterRun, "measure", measure)
    monkeypatch.setattr(charts, "draw", lambda _picture, _path: None)
    arguments = ["figures", "13", "14", "10", "12", "--processes", "1"]
    assert reproduction.main([*arguments, "--out", str(tmp_path)]) == 0
    assert len(done) == len(set(done))
    # Half of the hosts with boards, sizes of 400 MB: Figures 10 and 12.
    assert len(
        [
            run
            for run in done
            if run.boards == 50
            and "=400e6" in run.sizes
            and run.load == 1
            and run.strategy == "wra"
        ]
    ) == len(curves.RETURN_RATIOS) * len(clusters.MANY_SEEDS)
    # FIFO has no queues: one run per seed serves all thresholds.
    fifo = [
        run
        for run in done
        if run.strategy == "fifo" and run.load == thresholds.LOAD
    ]
    assert len(fifo) == sum(len(plan.seeds) for plan in thresholds.MAPS)


# -- figures of simulations ------------------------------------------------


def _invented(
    of_run: Callable[[typing.Any], metrics.Metrics],
) -> figure.Measure:
    """Whoever needs no simulation to know what comes out."""

    def measure(
        runs: Sequence[typing.Any], /
    ) -> Mapping[typing.Any, metrics.Metrics]:
        return {run: of_run(run) for run in runs}

    return measure


def _tiny(run: typing.Any) -> metrics.Metrics:
    """Simulate only a few jobs."""
    if isinstance(run, clusters.ClusterRun):
        return dataclasses.replace(run, jobs_per_host=1).measure()
    return dataclasses.replace(run, jobs_per_host=3).measure()


def _small(name: str) -> figure.Figure:
    """A figure at both ends of its axes, with one seed or two."""
    for plan in curves.PLANS:
        if plan.name == name:
            ends = (plan.values[0], plan.values[-1])
            return curves.make_figure(
                dataclasses.replace(plan, values=ends, seeds=(1,))
            )
    for map_plan in thresholds.MAPS:
        if str(map_plan.number) == name:
            best = map_plan.best
            return thresholds.make_map(
                dataclasses.replace(
                    map_plan, qs=(best.q,), k1s=(1, best.k1), seeds=(1, 2)
                )
            )
    return figures.FIGURES[name]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        # Sizes × return ratios.
        ("7", 2 * 2),
        ("8", 2 * 2),
        # Points × return ratios × strategies, with FIFO.
        ("10", 2 * 2 * 5),
        ("11", 2 * 2 * 5),
        ("12", 2 * 2 * 4),
        # Thresholds × strategies.
        ("13", 2 * 2),
        ("14", 2 * 2),
        ("table6", 4 * 4),
        # Points × strategies, with FIFO.
        ("jobs-per-host", 2 * 5),
        ("steady-loads", 2 * 5),
    ],
)
def test_simulated_figure(
    name: str,
    rows: int,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table6, "SEEDS", (101, 102))
    monkeypatch.setattr(pairs, "SEEDS", (1, 2))
    monkeypatch.setattr(pairs, "MEANS_MB", (100, 1000))
    made = _small(name)
    said = made.make(tmp_path, _invented(_tiny))
    assert said.startswith(f"{made.subject}: what the paper says ")
    stem = f"figure{name}" if name.isdecimal() else name
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{stem}.png",
        f"{stem}.csv",
        f"{stem}-claims.csv",
    }
    assert (tmp_path / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    table = figure_runs.rows_of(tmp_path / f"{stem}.csv")
    assert len(table) == rows
    for row in table:
        assert float(row["act_s"]) > 0
        assert all(row.values())


def test_figure_9(tmp_path: pathlib.Path) -> None:
    said = figures.FIGURES["9"].make(tmp_path, figure_runs.simulate)
    assert said.startswith("Figure 9: what the paper says holds")
    lines: dict[tuple[str, str], list[float]] = {}
    for row in figure_runs.rows_of(tmp_path / "figure9.csv"):
        lines.setdefault((row["sizes"], row["parameter"]), []).append(
            float(row["share_of_jobs"])
        )
    assert len(lines) == len(curves.MEANS_MB) + len(curves.ALPHAS)
    for shares in lines.values():
        assert shares == sorted(shares)
        assert shares[0] == 0.0
        assert shares[-1] == pytest.approx(1.0, abs=1e-4)
    # A tail that is not longer for smaller α contradicts the paper.
    power_laws = [each for each in lines.items() if each[0][0] == "power law"]
    [claim] = thresholds.claims9(dict(reversed(power_laws)))
    assert not claim.holds


def test_hosts_apart_do_not_use_the_network() -> None:
    runs = [
        pairs.PairRun(pairs.APART, 700, return_ratio, 3, jobs_per_host=20)
        for return_ratio in (0.0, 1.0)
    ]
    first, second = (run.measure() for run in runs)
    assert first == second
    assert first.jobs == 40
    assert first.dlr == 1.0
    together = dataclasses.replace(runs[1], strategy="sjf").measure()
    assert together.jobs == 40
    assert 0.2 < together.dlr < 0.8
    assert together.act_s != first.act_s


def test_a_change_of_means_has_an_interval() -> None:
    change = pairs.change_percent([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    # All seeds agree.
    assert change == pytest.approx((50.0, 50.0, 50.0, 50.0, 50.0))
    change = pairs.change_percent([2.0, 4.0], [1.0, 3.0])
    assert change[:3] == pytest.approx((100 / 3, 25.0, 50.0))
    # The means are 3 and 2; seeds deviate by ∓ 1/3 s from two thirds.
    half = 12.71 * 100 * (1 / 3) / 3
    assert charts.bar(change) == pytest.approx((half, half))


def test_gaussian_sizes() -> None:
    sizes = pairs._gaussian(400)
    assert sizes.mean_bytes == pytest.approx(400e6)
    assert float(sizes.cdf(500e6)) == pytest.approx(0.8413, abs=0.002)
    assert sizes.min_bytes > 0
    assert pairs.load(800) == pytest.approx(1.0)


# -- claims ----------------------------------------------------------------


def _judged(name: str, measure: figure.Measure) -> list[bool]:
    made = figures.FIGURES[name]
    return [claim.holds for claim in made.claims(made.run(measure))]


def _of_pair(apart_s: float, pooled_s: float) -> figure.Measure:
    return _invented(
        lambda run: (
            measures.measured(apart_s, apart_s)
            if run.strategy == pairs.APART
            else measures.measured(pooled_s, pooled_s)
        )
    )


def test_claims_of_figures_7_and_8() -> None:
    faster, slower = _of_pair(2.0, 1.0), _of_pair(1.0, 2.0)
    equal = _of_pair(1.0, 1.0)
    for name, right in (("7", faster), ("8", slower)):
        assert all(_judged(name, right))
        assert not any(_judged(name, equal))
    assert not any(_judged("7", slower) + _judged("8", faster))
    made = figures.FIGURES["7"]
    said = made.claims(made.run(faster))[0].ours
    assert "shorter at 10 and longer at 0 of 10 sizes, by up to 50 %" in said


#: How many times better than FIFO strategies are as the paper has it: ACT,
#: TCT, SAR, DLR.
_AS_IN_THE_PAPER = {
    "fifo": (1.0, 1.0, 1.0, 1.0),
    "sjf": (2.0, 0.7, 3.0, 1.0),
    "wa": (2.0, 0.8, 3.0, 1.0),
    "ra": (4.0, 2.0, 2.0, 45.0),
    "wra": (7.1, 3.1, 2.9, 48.0),
}


def _as(factors: Mapping[str, Sequence[float]]) -> figure.Measure:
    def of_run(run: clusters.ClusterRun) -> metrics.Metrics:
        act, tct95, sar, dlr = factors[run.strategy]
        # Small jobs gain more.
        if run.strategy == "wra" and run.sizes.endswith("=100e6"):
            act *= 1.2
        return measures.measured(100 / act, 100 / tct95, sar / 5, dlr / 100)

    return _invented(of_run)


@pytest.mark.parametrize("name", ["10", "11"])
def test_claims_of_figures_10_and_11(name: str) -> None:
    assert all(_judged(name, _as(_AS_IN_THE_PAPER)))
    less = {**_AS_IN_THE_PAPER, "wra": (4.9, 1.9, 2.6, 44.0)}
    some = _judged(name, _as(less))
    assert any(some)
    assert not all(some)
    # Equal is not ahead; what is left is comparable to itself.
    nothing = dict.fromkeys(_AS_IN_THE_PAPER, (1.0, 1.0, 1.0, 1.0))
    made = figures.FIGURES[name]
    for claim in made.claims(made.run(_as(nothing))):
        assert " ahead " not in claim.text or not claim.holds


def _with_boards(
    wra_of: Callable[[float, float], float], crossing: int
) -> figure.Measure:
    """RA becomes better than WA at a number of boards."""

    def of_run(run: clusters.ClusterRun) -> metrics.Metrics:
        wa, ra = 2.0, 4.0 if run.boards >= crossing else 1.0
        factor = {"fifo": 1.0, "wa": wa, "ra": ra, "wra": wra_of(wa, ra)}
        act_s = 100 / factor[run.strategy]
        return measures.measured(act_s, act_s)

    return _invented(of_run)


def test_claims_of_figure_12() -> None:
    made = figures.FIGURES["12"]
    assert all(_judged("12", _with_boards(max, 50)))
    assert _judged("12", _with_boards(max, 30)) == [False, True, True] * 2
    claims = made.claims(made.run(_with_boards(min, 95)))
    assert not any(claim.holds for claim in claims)
    assert claims[0].ours == "nowhere"
    assert claims[1].ours == (
        "behind at 10, 20, 30, 40, 50, 60, 70, 80, 90 %, at worst 0.50 times "
        "as good"
    )


def _with_times(
    fifo_s_of: Callable[[clusters.ClusterRun], float],
) -> figure.Measure:
    """Only FIFO's times depend on the run."""
    return _invented(
        lambda run: (
            measures.measured(fifo_s_of(run), fifo_s_of(run))
            if run.strategy == "fifo"
            else measures.measured(2.0, 2.0)
        )
    )


def test_what_decides_the_gain() -> None:
    growing = _with_times(lambda run: float(run.jobs_per_host))
    assert _judged("jobs-per-host", growing) == [True, True]
    steady = _with_times(lambda _run: 4.0)
    assert _judged("jobs-per-host", steady) == [False, False]
    more = _with_times(lambda run: 2.0 + run.load)
    assert _judged("steady-loads", more) == [True] * 3
    less = _with_times(lambda run: 2.0 - run.load)
    assert _judged("steady-loads", less) == [False] * 3


def test_the_first_jobs_can_be_left_out() -> None:
    run = clusters.ClusterRun(
        "fifo", clusters.EXPONENTIAL, 0.8, 1.0, 1, jobs_per_host=4
    )
    late = dataclasses.replace(run, warm_up=0.25)
    all_jobs, later = run.measure(), late.measure()
    assert (all_jobs.jobs, later.jobs) == (400, 300)
    # The queue of FIFO grows: the first jobs wait least.
    assert later.act_s > all_jobs.act_s
    assert later.makespan_s == all_jobs.makespan_s


def test_claims_of_figure_13() -> None:
    # Each metric: WRA's factor, WRA ahead of WA; and what is best for ACT.
    found = _judged("13", _as(_AS_IN_THE_PAPER))
    assert found[:4] == [True] * 4
    ahead = {**_AS_IN_THE_PAPER, "wa": (1.0, 1.0, 1.0, 1.0)}
    ahead |= {"wra": (1.5, 1.5, 1.0, 1.0)}
    assert _judged("13", _as(ahead))[:4] == [False, True] * 2
    behind = {**ahead, "wa": (1.6, 1.6, 1.0, 1.0)}
    assert _judged("13", _as(behind))[:4] == [False] * 4


def _as_reference(wrong: str, by: float) -> figure.Measure:
    """What the reference says, but one strategy's ACT at the load of 1.3."""

    def of_run(run: clusters.ClusterRun) -> metrics.Metrics:
        if run.strategy == "fifo":
            return measures.measured(100.0, 100.0)
        setting = next(
            each
            for each in table6.SETTINGS
            if each.make_run(run.strategy, run.seed) == run
        )
        act, tct95 = setting.reference[run.strategy]
        if setting.load == 1.3 and run.strategy == wrong:
            act *= by
        return measures.measured(100 / act, 100 / tct95)

    return _invented(of_run)


@pytest.mark.parametrize("factor", [0.89, 0.91, 1.0, 1.09, 1.11])
def test_reference_table(factor: float) -> None:
    is_within = 0.9 <= factor <= 1.1
    assert _judged("table6", _as_reference("ra", factor)) == [
        *(True, is_within, True, True),
    ]


def test_one_cell_of_the_reference_table() -> None:
    """Simulated at its full size, with one seed."""
    setting = table6.SETTINGS[-1]
    fifo, wra = (
        setting.make_run(strategy, table6.SEEDS[0]).measure()
        for strategy in ("fifo", "wra")
    )
    # One seed is up to 5 % and 10 % away from the mean over several.
    act, tct95 = setting.reference["wra"]
    assert fifo.act_s / wra.act_s == pytest.approx(act, rel=0.15)
    assert fifo.tct95_s / wra.tct95_s == pytest.approx(tct95, rel=0.25)
