# SPDX-License-Identifier: Apache-2.0

"""Enforcement of the policies of :mod:`fpgapool.policies`."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg
from oslo_policy import opts
from oslo_policy import policy

from fpgapool import policies
from fpgapool.common import context


class Enforcer:
    """Enforces the policies in code and in ``policy.yaml``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._enforcer = make_enforcer(conf)

    def allows(
        self,
        caller: context.RequestContext,
        rule: str,
        target: Mapping[str, str | None],
    ) -> bool:
        """Whether a policy allows a caller something.

        :param rule: the policy's name.
        :param target: of the action: its ``project_id``.
        """
        allowed: bool = self._enforcer.authorize(
            rule, dict(target), caller, do_raise=False
        )
        return allowed


def make_enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return oslo.policy's enforcer with all policies."""
    opts.set_defaults(conf)
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer


def get_enforcer() -> policy.Enforcer:
    """Return an enforcer for the commands of oslo.policy."""
    conf = cfg.ConfigOpts()
    conf([], project="fpgapool")
    return make_enforcer(conf)
