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

"""Enforcement of the rules of :mod:`fpgapool.policies`."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg
from oslo_policy import opts
from oslo_policy import policy

from fpgapool import policies
from fpgapool.common import context


class Enforcer:
    """Tells who may do what, by the rules in code and in ``policy.yaml``.

    :param conf: the configuration, with its files read.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._enforcer = make_enforcer(conf)

    def allows(
        self,
        caller: context.RequestContext,
        rule: str,
        target: Mapping[str, str | None],
    ) -> bool:
        """Whether a caller may do something.

        :param rule: a rule's name.
        :param target: what it is done to: its ``project_id``.
        """
        allowed: bool = self._enforcer.authorize(
            rule, dict(target), caller, do_raise=False
        )
        return allowed


def make_enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return oslo.policy's enforcer with all rules.

    :param conf: the configuration, with its files read.
    """
    opts.set_defaults(conf)
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer


def get_enforcer() -> policy.Enforcer:
    """Return an enforcer for the commands of oslo.policy."""
    conf = cfg.ConfigOpts()
    conf([], project="fpgapool")
    return make_enforcer(conf)
