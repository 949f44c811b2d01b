# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim advise``: what it compares, and what it may say."""

from __future__ import annotations

import math
import pathlib
import random
import re
import typing

import numpy as np
import pytest

from fpgapool.cmd import sim
from fpgapool.sim import simulation
from fpgapool.sim.experiments import advising
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from tests.unit.sim import commands

JOBS = 1200


def measured(
    completions_s: metrics.Floats, tenants: int = 1
) -> metrics.Floats:
    """The measures of jobs that take one second alone."""
    return advising.resampled(
        completions_s,
        completions_s - 1,
        completions_s,
        np.arange(completions_s.size) % tenants,
    )


def draw(seed: int = 0, mean_s: float = 10.0) -> metrics.Floats:
    random = np.random.default_rng(seed)
    return 1 + random.exponential(mean_s, JOBS)


def shuffled() -> metrics.Floats:
    """Other jobs are slow, but as many and as much."""
    return np.random.default_rng(9).permutation(draw(1))


def width(ratio: advising.Ratio) -> float:
    return math.log(ratio.high / ratio.low)


# -- intervals --------------------------------------------------------------


def test_strategies_get_the_same_draws() -> None:
    """What takes twice as long does so in each draw."""
    completions_s = draw()
    found = {"a": measured(completions_s), "b": measured(2 * completions_s)}
    [mean, p95, p99, *_] = advising.compare(found, "a")["b"]
    for ratio in (mean, p95, p99):
        assert ratio == pytest.approx((2, 2, 2))


def test_jobs_of_a_burst_count_as_one_observation() -> None:
    """The same jobs say less when the slow ones come together."""
    mixed = draw()
    bursts = np.sort(mixed)
    base = np.full(JOBS, 10.0)
    wide, narrow = (
        advising.compare({"a": measured(base), "b": measured(one)}, "a")["b"][
            0
        ]
        for one in (bursts, mixed)
    )
    assert wide.value == pytest.approx(narrow.value)
    assert width(wide) > 2 * width(narrow)


def test_intervals_hold_for_all_strategies_at_once() -> None:
    """So they widen with the number of strategies."""
    found = {str(seed): measured(draw(seed)) for seed in range(10)}
    few = advising.compare({one: found[one] for one in ("0", "1")}, "0")
    many = advising.compare(found, "0")
    assert width(many["1"][0]) > 1.15 * width(few["1"][0])


def test_intervals_of_independent_jobs_are_hardly_wider_than_needed() -> None:
    found = {"a": measured(draw(1)), "b": measured(draw(2))}
    ratio = advising.compare(found, "a")["b"][0]
    errors = [np.std(draw(seed)) / np.mean(draw(seed)) for seed in (1, 2)]
    expected = 2 * 1.96 * np.hypot(*errors) / JOBS**0.5
    # Wider, as the widest of several counts.
    assert expected < width(ratio) < 1.6 * expected


def test_without_waits_their_ratio_is_unknown() -> None:
    found = {"a": measured(np.ones(JOBS)), "b": measured(draw())}
    ratios = advising.compare(found, "a")["b"]
    assert advising.shown(ratios[3]) == ""
    assert advising.shown(ratios[0]) != ""


# -- the sentence -----------------------------------------------------------


def advise(**completions_s: metrics.Floats) -> str:
    """What is said if wra is configured."""
    found = {name: measured(one) for name, one in completions_s.items()}
    return advising.advice(found, "wra")


def test_a_difference_within_the_intervals_is_none() -> None:
    text = advise(wra=draw(1), era=0.94 * shuffled())
    assert text.startswith("no strategy is clearly better than wra; ")
    assert "era" in text


def test_what_is_clearly_better_is_recommended() -> None:
    text = advise(wra=draw(1), era=0.5 * draw(1), fifo=3 * draw(1))
    assert text.startswith("era is clearly better than wra: ")
    assert "0.5 × (0.5–0.5)" in text
    assert "may be as good" not in text


def test_equally_good_ones_are_named() -> None:
    text = advise(wra=draw(1), era=0.3 * draw(1), ra=0.3 * shuffled())
    assert re.match(r"(era|ra) is clearly better than wra: ", text)
    assert re.search(r"; (era|ra) may be as good\.$", text)


def test_a_clearly_longer_tail_is_not_recommended() -> None:
    usual = draw(1)
    slow_tail = np.where(usual > np.percentile(usual, 98), 4, 0.3) * usual
    text = advise(wra=usual, sjf=slow_tail)
    assert text.startswith("no strategy is clearly better than wra; ")
    assert text.endswith("clearly worse in its 99th percentile.")


def test_a_trifle_is_not_recommended() -> None:
    """However sure it is."""
    text = advise(wra=draw(1), era=0.97 * draw(1))
    assert text.startswith("no strategy is clearly better than wra; ")


def test_unfairness_between_projects_is_not_recommended() -> None:
    usual = draw(1)
    unfair = usual * np.tile([0.1, 1.0], JOBS // 2)
    found = {"wra": measured(usual, 2), "sjf": measured(unfair, 2)}
    text = advising.advice(found, "wra")
    assert text.endswith("clearly worse in Jain's index.")


def test_alone_nothing_is_better() -> None:
    assert advise(wra=draw()) == "no strategy is clearly better than wra."


# -- the command ------------------------------------------------------------


def history(
    directory: pathlib.Path, jobs: int = 1000, **members: typing.Any
) -> pathlib.Path:
    """Write sessions that wait for each other."""
    chooser = random.Random(3)
    arrivals = 0.0
    made = []
    for number in range(jobs):
        arrivals += chooser.expovariate(3.0)
        made.append(
            commands.make_job(
                number,
                host=chooser.randrange(3),
                arrival_s=arrivals,
                size_bytes=chooser.expovariate(1 / 1e9) + 1,
                tenant=f"p{number % 2}",
            )
        )
    scenario = commands.make_scenario(jobs=made, **members)
    return commands.write(directory / "sessions.json", scenario)


def said(
    capsys: pytest.CaptureFixture[str], *arguments: str | pathlib.Path
) -> str:
    options = ["advise", "--processes", "1", *map(str, arguments)]
    assert sim.main(options) == 0
    captured = capsys.readouterr()
    assert commands.without_progress(captured.err) == []
    return captured.out


def test_others_have_the_options_of_the_configured_strategy() -> None:
    configured = scenarios.StrategyOptions(
        slot_choice="least_busy", own={"mine": 1}, preempt="fine"
    )
    scenario = scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(hosts=1, fpga_hosts=(0,), accelerators={}),
        strategies={"wra": configured},
        jobs=[],
    )
    made = advising.with_all(scenario, ["sjf"]).strategies
    assert made == {
        "wra": configured,
        "sjf": scenarios.StrategyOptions(
            strategy="sjf", slot_choice="least_busy", preempt="fine"
        ),
    }


def test_all_strategies_of_the_file_and_installed_are_compared(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {"fifo": {"jobs": [], "metrics": {"act_s": 1e-6}}}
    own = {"fifo": {}, "mine": {"strategy": "sjf"}}
    path = history(tmp_path, expected=expected, strategies=own)
    text = said(capsys, path)
    for name in ("mine", *simulation.installed()):
        assert re.search(rf"^ {name} ", text, re.MULTILINE)
    assert "projects: 2, slots: 8, configured strategy: fifo" in text
    assert "They differ much" in text
    assert text.count("\nAdvice: ") == 1


def test_too_few_sessions_are_no_basis(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = commands.refused(capsys, "advise", history(tmp_path, jobs=999))
    assert "999 sessions are too few to compare strategies" in text
    assert "compare strategies with fpgapool-sim run" in text


def test_a_replay_without_end_is_left_out(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    never = {"strategy": "ra", "wait_s_per_byte": 1e6, "remote_limit": 0}
    path = history(tmp_path, strategies={"fifo": {}, "never": never})
    text = said(capsys, path, "--strategy", "never", "sjf")
    assert "left out: never: " in text
    assert re.search("^ sjf ", text, re.MULTILINE)


def test_time_is_bounded(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--strategy", "sjf", "--max-s", "1e-9", "--processes", "1")
    text = commands.refused(capsys, "advise", history(tmp_path), *options)
    assert "strategies.fifo: the replay takes longer than 1e-09 s" in text
