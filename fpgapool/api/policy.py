# SPDX-License-Identifier: Apache-2.0

"""Enforcement of the policies of :mod:`fpgapool.policies`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from collections.abc import Mapping

from oslo_config import cfg
from oslo_policy import opts
from oslo_policy import policy

from fpgapool import policies
from fpgapool.api.http import rights
from fpgapool.common.messaging import context

#: A change of ``policy.yaml`` takes effect within this many seconds.
REMEMBERED_S = 1.0

# The roles of services that use a privilege routinely.
_ROUTINE = {
    rights.ADMIN_OR_SERVICE: "service",
    rights.ADMIN_OR_AGENT: rights.AGENT_ROLE,
}
# Parts of checks. A role that must not be there is not required.
_ROLE = re.compile(r"(?<!not )role:([^\s()]+)")
_RULE = re.compile(r"(?<!not )rule:([^\s()]+)")
#: Number of decisions that are cached.
_MOST = 10_000


class Enforcer:
    """Enforces the policies in code and in ``policy.yaml``.

    Decisions are cached for a short time, because making one takes longer than
    the rest of most requests.

    :param clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enforcer = make_enforcer(conf)
        self._defaults = {
            name: rule.check_str
            for name, rule in self._enforcer.registered_rules.items()
        }
        self._clock = clock
        self._known: dict[tuple[object, ...], bool] = {}
        self._known_until_s = 0.0

    def allows(
        self,
        caller: context.RequestContext,
        rule: str,
        target: Mapping[str, str | None],
    ) -> bool:
        """Whether a policy allows a caller's action.

        :param target: target of the action, with its ``project_id``.
        """
        now_s = self._clock()
        if now_s >= self._known_until_s or len(self._known) >= _MOST:
            self._known = {}
            self._known_until_s = now_s + REMEMBERED_S
        # Keep the reference: another thread may replace the cache.
        known = self._known
        key = rule, *target.items(), caller.seen_by_policies
        allowed = known.get(key)
        if allowed is None:
            allowed = known[key] = self._enforcer.authorize(
                rule, dict(target), caller, do_raise=False
            )
        return allowed

    def roles(self, rule: str) -> set[str]:
        """Return the roles of which a policy requires one."""
        found: set[str] = set()
        seen: set[str] = set()
        names = {rule}
        while names:
            seen |= names
            checks = [str(self._enforcer.rules.get(one, "")) for one in names]
            found.update(*map(_ROLE.findall, checks))
            names = set[str]().union(*map(_RULE.findall, checks)) - seen
        return found

    def is_privileged(self, caller: context.RequestContext, rule: str) -> bool:
        """Whether a policy gives a caller more rights than tenants have.

        This depends only on the policy's default, even if a deployment gives
        the right to other roles.
        """
        default = self._defaults.get(rule)
        if default in _ROUTINE:
            return _ROUTINE[default] not in caller.roles
        return default == rights.ADMIN


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
