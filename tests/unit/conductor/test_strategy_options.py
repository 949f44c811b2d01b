# SPDX-License-Identifier: Apache-2.0

"""Options that only one strategy has, from the configuration."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from fpgapool import conf as configuration
from fpgapool.common import exception
from fpgapool.conductor.runtime import strategy_loading


def load(strategy: str, given: str):
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("strategy", strategy, group="conductor")
    conf.set_override("strategy_options", given, group="scheduler")
    return strategy_loading.load_strategy(conf)


def test_a_strategy_gets_its_own_options() -> None:
    made = load("era", "spread:0.25,size_power:1")
    assert (made.inner.options.spread, made.inner.options.size_power) == (
        0.25,
        1.0,
    )


@pytest.mark.parametrize(
    ("strategy", "given", "message"),
    [
        ("era", "sprad:1", "unknown options sprad; known are"),
        ("wra", "spread:1", "unknown options spread; known are"),
        ("era", "spread:much", "spread must be a number, not 'much'"),
        ("era", "spread:true", "spread must be a number, not True"),
        ("wra", "skip_limit:5", "skip_limit: set the option of [scheduler]"),
    ],
)
def test_other_options_are_refused(strategy, given, message) -> None:
    with pytest.raises(exception.ConfigurationError) as caught:
        load(strategy, given)
    assert message in str(caught.value)
