# SPDX-License-Identifier: Apache-2.0

"""Which requests need more than a tenant's rights, for the audit log."""

from __future__ import annotations

from collections.abc import Mapping

from fpgapool import policies
from fpgapool.api import errors
from fpgapool.common import audit
from fpgapool.common import context
from fpgapool.policies import base
from fpgapool.vocabulary import codes

# By default: who gives such a right to others may want to know, too.
_ADMINS = frozenset(
    rule.name for rule in policies.list_rules() if rule.check_str == base.ADMIN
)
# Besides administrators, by default: who does so all the time.
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

    :ivar before: what was there of that which the request changes.
    """

    def __init__(self) -> None:
        self.before: dict[str, object] = {}
        self._rules: list[str] = []
        self._projects: list[str] = []

    @property
    def is_noted(self) -> bool:
        """Whether the request gets a line."""
        return bool(self._rules)

    def note(
        self, caller: context.RequestContext, rule: str, owner: str | None
    ) -> None:
        """A rule was asked, and the request goes on, or ends, by it.

        :param caller: who asks.
        :param rule: its name.
        :param owner: the project to whose things it applies.
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

        :param caller: who asks.
        :param operation: method and route.
        :param target: what it is about.
        :param values: the request's body.
        :param error: why it has failed; None if it has not.
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
