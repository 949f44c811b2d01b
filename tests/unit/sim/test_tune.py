# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim tune``: what it says, and what it refuses."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool import strategies
from fpgapool.cmd import sim
from fpgapool.conductor.runtime import strategy_loading
from fpgapool.core.queues import thresholds
from fpgapool.sim.experiments import tuning
from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.strategies import base
from fpgapool.strategies import orderings
from tests.unit.sim import commands
from tests.unit.sim import measures

SMALL = "--hosts 6 --boards 3 --slots 2 --jobs-per-host 20 --seeds 2".split()
EXPONENTIAL = "--dist=exponential:mean_bytes=3e6,s0_bytes=1e5"


def tune_text(
    capsys: pytest.CaptureFixture[str], *options: str | pathlib.Path
) -> str:
    assert sim.main(["tune", *map(str, options)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def snippet(text: str) -> str:
    return text[text.index("[scheduler]") :]


def thresholds_of(text: str, directory: pathlib.Path) -> tuple[float, ...]:
    """What the conductor makes of it."""
    path = directory / "fpgapool.conf"
    path.write_text(text)
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf(["--config-file", str(path)], default_config_files=[])
    made = strategies.wra(strategy_loading.options(conf), 0)
    assert isinstance(made, base.ComposedStrategy)
    assert isinstance(made.ordering, orderings.WaOrdering)
    return made.ordering.thresholds_bytes


def test_the_first_threshold_makes_the_others_fixed(
    tmp_path: pathlib.Path,
) -> None:
    found = scenarios.SHORT_TAIL.thresholds_bytes
    fixed = "[scheduler]\nfirst_threshold_bytes = 20000000"
    assert found == thresholds_of(fixed, tmp_path)
    # Learnt, and nothing is known yet.
    assert thresholds_of("", tmp_path) == ()


@pytest.mark.parametrize("queues", [1, 2, 8, 20])
def test_configuration_is_what_the_conductor_reads(
    queues: int, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tune_text(
        capsys, EXPONENTIAL, "--load=0.9", f"--queues={queues}", "--no-confirm"
    )
    assert "load 0.9: not confirmed by simulation." in said
    found = thresholds_of(snippet(said), tmp_path)
    assert len(found) == queues - 1
    if queues > 2:
        # Most of the queues are where jobs are.
        assert 1e5 < found[0] < 3e6 < found[-1] < 1e8


@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_sizes_from_a_file(
    suffix: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = distributions.BoundedPowerLaw(1e6, 1e9, 1.2).quantile(
        np.random.default_rng(2).random(800)
    )
    path = tmp_path / f"sizes.{suffix}"
    if suffix == "csv":
        rows = [
            "id,size_bytes",
            *(f"{i},{s!r}" for i, s in enumerate(sizes.tolist())),
        ]
    else:
        rows = ["# of last week", "", *map(repr, sizes.tolist())]
    path.write_text("\n".join(rows) + "\n")
    said = tune_text(capsys, "--sizes", path, "--load=0.8", "--no-confirm")
    assert said.startswith("800 sizes with a mean of ")
    assert "fitted as power-law: smallest AIC" in said
    assert f"# sizes.{suffix} as power-law, load 0.8" in said
    assert "geometric_queues = 1\nlinear_queues_end = 2\n" in said


def test_sizes_of_no_family(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sizes"
    path.write_text("1000000\n" * 50 + "900000000\n" * 50)
    said = tune_text(
        capsys, "--sizes", path, "--load=0.8", "--queues=2", "--no-confirm"
    )
    assert "fitted as empirical: no family" in said
    # Small ones before large ones.
    (bound_bytes,) = thresholds_of(snippet(said), tmp_path)
    assert 1e6 <= bound_bytes < 9e8


def test_confirmation_that_succeeds(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without thresholds of its own, a strategy serves by arrival.
    monkeypatch.setattr(thresholds, "learnt_thresholds", lambda *_: ())
    options = (EXPONENTIAL, "--load=0.95", *SMALL)
    said = tune_text(capsys, *options)
    assert "The tuned thresholds beat the defaults" in said
    assert "tuned, better than the defaults in simulations" in said
    assert "wait p95" in " ".join(said.split())
    assert thresholds_of(snippet(said), tmp_path)[0] < 3e6
    assert said == tune_text(capsys, *options)
    assert said != tune_text(capsys, *options, "--seed=7")


def test_confirmation_that_fails(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # One queue is worse than the twenty of the default.
    said = tune_text(
        capsys, "--dist=exponential", "--load=0.95", "--queues=1", *SMALL
    )
    assert "do not beat the defaults under wa" in said
    assert "The defaults are kept." in said
    assert thresholds_of(snippet(said), tmp_path) == thresholds_of(
        "", tmp_path
    )


def make_comparison(
    strategy: str, act: float, tct95: float
) -> tuning.Comparison:
    """With these improvements."""
    default = measures.measured(act_s=10.0, tct95_s=30.0)
    return tuning.Comparison(
        strategy,
        0,
        default,
        dataclasses.replace(default, act_s=10.0 / act, tct95_s=30.0 / tct95),
    )


@pytest.mark.parametrize(
    ("act", "tct95", "is_better"),
    [
        (1.1, 1.1, True),
        (1.1, 0.95, True),
        (1.1, 0.85, False),
        (0.99, 1.5, False),
        (1.0, 1.0, False),
    ],
)
def test_what_is_better(act: float, tct95: float, is_better: bool) -> None:
    summary, _ = tuning.summarise(
        [make_comparison("wa", act, tct95), make_comparison("wra", 1, 1)]
    )
    assert summary.is_better is is_better
    assert summary.gain.act.mean == pytest.approx(act)
    assert summary.gain.tct95.mean == pytest.approx(tct95)
    assert summary.default["act_s"] == 10


def test_means_over_seeds() -> None:
    summary, _ = tuning.summarise(
        [
            make_comparison("wa", 2.0, 1.0),
            make_comparison("wa", 0.5, 4.0),
            make_comparison("wra", 1.0, 1.0),
        ]
    )
    assert summary.gain.act[:3] == pytest.approx((1, 0.5, 2))
    assert summary.gain.tct95.mean == pytest.approx(2)
    assert summary.gain.means["act_s"] == pytest.approx(12.5)


BAD = {
    "load 1": (
        "--dist=exponential --load=1",
        "--load: must be a number above 0 and below 1",
    ),
    "load above 1": ("--dist=exponential --load=1.2", "not 1.2"),
    "load 0": (
        "--dist=exponential --load=0",
        "--load: must be a number above 0 and below 1",
    ),
    "load below 0": ("--dist=exponential --load=-0.5", "not -0.5"),
    "load NaN": ("--dist=exponential --load=nan", "not nan"),
    "unknown distribution": (
        "--dist=pareto --load=0.5",
        "--dist: unknown distribution 'pareto'; "
        "known distributions: exponential, power-law, lognormal",
    ),
    "unknown parameter": (
        "--dist=exponential:alpha=1 --load=0.5",
        "--dist: exponential:alpha: unknown parameter; "
        "known parameters: s0_bytes, mean_bytes",
    ),
    "parameter twice": (
        "--dist=lognormal:sigma=1,sigma=2 --load=0.5",
        "--dist: lognormal:sigma: is a duplicate",
    ),
    "parameter without a number": (
        "--dist=lognormal:sigma --load=0.5",
        "--dist: lognormal:sigma: '' is not a number",
    ),
    "parameter NaN": (
        "--dist=power-law:alpha=nan --load=0.5",
        "--dist: power-law: alpha must be positive and finite, not nan",
    ),
    "mean below s0": (
        "--dist=exponential:mean_bytes=1 --load=0.5",
        "--dist: exponential: s0_bytes and mean_bytes must satisfy",
    ),
    "sizes beyond the configuration": (
        "--dist=exponential:mean_bytes=1e20 --load=0.5",
        "--dist: sizes are too large",
    ),
    "no queue": (
        "--dist=exponential --load=0.5 --queues=0",
        "--queues: must be an integer from 1 to 1000, not 0",
    ),
    "too many queues": (
        "--dist=exponential --load=0.5 --queues=1001",
        "--queues: must be an integer from 1 to 1000, not 1001",
    ),
    "no board": (
        "--dist=exponential --load=0.5 --boards=0",
        "--boards: must be an integer from 1 to 100000, not 0",
    ),
    "more boards than hosts": (
        "--dist=exponential --load=0.5 --boards=5 --hosts=4",
        "--boards: 5 boards need at least as many hosts, but --hosts is 4",
    ),
    "no seeds": (
        "--dist=exponential --load=0.5 --seeds=0",
        "--seeds: must be an integer from 1 to 1000, not 0",
    ),
    "hosts": (
        "--dist=exponential --load=0.5 --hosts=100001",
        "--hosts: must be an integer from 1 to 100000, not 100001",
    ),
    "too many jobs": (
        "--dist=exponential --load=0.5 --jobs-per-host=20001",
        "--jobs-per-host: 2000100 jobs exceed the limit of 2000000",
    ),
    "return ratio": (
        "--dist=exponential --load=0.5 --return-ratio=nan",
        "--return-ratio: must be a number from 0 to 1000, not nan",
    ),
}


@pytest.mark.parametrize(("options", "said"), BAD.values(), ids=BAD.keys())
def test_bad_options(
    options: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in commands.refused(capsys, "tune", *options.split())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "contains no sizes"),
        ("# nothing\n\n", "contains no sizes"),
        ("5\n-3\n", "line 2: -3 is not a finite number above 0"),
        ("5\nnan\n", "line 2: nan is not a finite number above 0"),
        ("5\nlarge\n", "line 2: 'large' is not a number"),
        ("id,size_bytes\n1,5\n2,\n", "line 3: '' is not a number"),
    ],
)
def test_bad_sizes(
    content: str,
    said: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "sizes"
    path.write_text(content)
    found = commands.refused(capsys, "tune", "--sizes", path, "--load=0.5")
    assert found == f"{path}: {said}"


def test_no_sizes_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sizes"
    found = commands.refused(capsys, "tune", "--sizes", path, "--load=0.5")
    assert found == f"{path}: No such file or directory"


@pytest.mark.parametrize(
    "options",
    ["--load=0.5", "--dist=exponential", "--dist=exponential --load=much"],
)
def test_options_that_do_not_parse(
    options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        sim.main(["tune", *options.split()])
    assert caught.value.code == 2
    assert "tune: error: " in capsys.readouterr().err
