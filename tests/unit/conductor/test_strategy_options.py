#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Options that only one strategy has, from the configuration."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from fpgapool import conf as configuration
from fpgapool.common import exception
from fpgapool.conductor import scheduling


def load(strategy: str, given: str):
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("strategy", strategy, group="conductor")
    conf.set_override("strategy_options", given, group="scheduler")
    return scheduling.load_strategy(conf)


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
