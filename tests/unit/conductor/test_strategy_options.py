# SPDX-License-Identifier: Apache-2.0

"""Options that only one strategy has, from the configuration."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from fpgapool import conf as configuration
from fpgapool.common import exception
from fpgapool.conductor.runtime import strategy_loading


def load(strategy: str, given: str, **tuning: object):
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("strategy", strategy, group="conductor")
    conf.set_override("strategy_options", given, group="scheduler")
    for name, value in tuning.items():
        conf.set_override(name, value, group="scheduler")
    return strategy_loading.load_strategy(conf)


@pytest.mark.parametrize("strategy", ["era", "auto"])
def test_a_strategy_gets_its_own_options(strategy) -> None:
    made = load(strategy, "spread:0.25,size_power:1")
    assert (made.inner.options.spread, made.inner.options.size_power) == (
        0.25,
        1.0,
    )


def test_affinity_is_set_in_the_configuration() -> None:
    made = load("ra", "", affinity=True, affinity_wait_s=3.0)
    options = made.inner.placement.options
    assert (options.affinity, options.affinity_wait_s) == (True, 3.0)
    assert made.wants_affinity
    assert not load("wra", "").wants_affinity


@pytest.mark.parametrize(
    ("tuning", "gain"),
    [
        ({}, None),
        ({"preempt_gain": 2.0}, None),
        ({"preempt": "fine"}, 0.25),
        ({"preempt": "fine", "preempt_gain": 0.0}, 0.0),
    ],
)
def test_slots_change_hands_only_if_the_operator_wants_it(
    tuning, gain
) -> None:
    assert load("wra", "", **tuning).preempt_gain == gain


@pytest.mark.parametrize(
    ("strategy", "given", "message"),
    [
        ("era", "sprad:1", "unknown options sprad; known options:"),
        ("auto", "aging_per_s:1", "unknown options aging_per_s; known"),
        ("wra", "spread:1", "unknown options spread; known options:"),
        ("era", "spread:much", "spread must be a number, not 'much'"),
        ("era", "spread:true", "spread must be a number, not True"),
        ("wra", "skip_limit:5", "skip_limit: set the [scheduler] option"),
    ],
)
def test_other_options_are_refused(strategy, given, message) -> None:
    with pytest.raises(exception.ConfigurationError) as caught:
        load(strategy, given)
    assert message in str(caught.value)


def load_groups(programming_time_s: float = 0.0, **given: object):
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    conf([], default_config_files=[])
    for name, value in given.items():
        conf.set_override(name, value, group="scheduler")
    return strategy_loading.load_groups(conf, programming_time_s)


def test_groups_have_the_policy_of_the_configuration() -> None:
    made = load_groups()
    assert type(made.policy).__name__ == "AheadPolicy"
    assert made.period_s == 10.0
    assert made.warning is None
    made = load_groups(
        elasticity="ahead",
        elasticity_period_s=5.0,
        elasticity_options="adopt:0.5",
    )
    assert (made.period_s, made.policy.options.adopt) == (5.0, 0.5)
    assert load_groups(elasticity="hybrid").policy.serves_goals


def test_a_period_that_is_short_for_the_boards() -> None:
    assert "much of their time being programmed" in (
        load_groups(3.78).warning or ""
    )
    assert load_groups(0.9).warning is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"elasticity": "magic"}, "expected one of: ahead, edf, hybrid, nnls"),
        (
            {"elasticity": "hybird"},
            "unknown elasticity policy 'hybird' in [scheduler]; did you mean"
            " hybrid? expected one of: ahead, ",
        ),
        (
            {"elasticity_options": "adopt:2"},
            "elasticity policy ahead: adopt must be above 0",
        ),
        ({"elasticity_options": "adapt:1"}, "unknown options adapt"),
        (
            {"elasticity_period_s": 1.0, "programming_time_s": 3.78},
            "a period of 1 s is too short: it must be at least 2 times",
        ),
    ],
)
def test_other_policies_and_periods_are_refused(given, message) -> None:
    with pytest.raises(exception.ConfigurationError) as caught:
        load_groups(**given)
    assert message in str(caught.value)
