# SPDX-License-Identifier: Apache-2.0

"""Requests that need more than a tenant's rights, for the audit log."""

from __future__ import annotations

from collections.abc import Mapping

from fpgapool import policies
from fpgapool.api.http import errors
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import audit
from fpgapool.policies import base
from fpgapool.vocabulary import codes

# By default: a deployment may give such a right to other roles, too.
_ADMINS = frozenset(
    rule.name for rule in policies.list_rules() if rule.check_str == base.ADMIN
)
# Besides administrators, by default: services that use it all the time.
_ROUTINE = {
    base.ADMIN_OR_SERVICE: "service",
    base.ADMIN_OR_AGENT: base.AGENT_ROLE,
}
_OPERATORS = {
    rule.name: _ROUTINE[rule.check_str]
    for rule in policies.list_rules()
    if rule.check_str in _ROUTINE
}


class Trail:
    """The privileges that one request has used or wanted.

    :ivar before: the state before the change.
    """

    def __init__(self) -> None:
        self.before: dict[str, object] = {}
        self._rules: list[str] = []
        self._projects: list[str] = []

    @property
    def is_noted(self) -> bool:
        """Whether the request needs a line."""
        return bool(self._rules)

    def note(
        self, caller: context.RequestContext, rule: str, owner: str | None
    ) -> None:
        """Note a policy decision that the request depended on.

        :param caller: the caller.
        :param rule: the policy's name.
        :param owner: the project that owns the target.
        """
        is_foreign = owner != caller.project_id
        if is_foreign and owner is not None and owner not in self._projects:
            self._projects.append(owner)
        if (is_foreign or _is_privileged(rule, caller)) and (
            rule not in self._rules
        ):
            self._rules.append(rule)

    def record(
        self,
        caller: context.RequestContext,
        operation: str,
        target: Mapping[str, object],
        values: Mapping[str, object],
        error: Exception | None = None,
    ) -> None:
        """Write the line of the request, if it needs one.

        :param caller: the caller.
        :param operation: method and route.
        :param target: of the request.
        :param values: the request's body.
        :param error: of a failed request; None if it succeeded.
        """
        if not self._rules:
            return
        code = errors.translate(error).code if error is not None else None
        outcome = audit.DONE
        if code is not None:
            denied = code == codes.FORBIDDEN
            outcome = audit.DENIED if denied else audit.FAILED
        audit.record(
            action=f"{operation} {' '.join(self._rules)}",
            outcome=outcome,
            code=code,
            user=caller.user_id,
            project=caller.project_id,
            target=target,
            target_projects=self._projects or None,
            values=values,
            before=self.before,
            request_id=caller.request_id,
        )


def _is_privileged(rule: str, caller: context.RequestContext) -> bool:
    if rule in _OPERATORS:
        return _OPERATORS[rule] not in caller.roles
    return rule in _ADMINS
