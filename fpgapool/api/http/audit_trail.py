# SPDX-License-Identifier: Apache-2.0

"""The use of rights that tenants do not have, for the audit log."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fpgapool.api.http import errors
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import audit
from fpgapool.vocabulary import codes


@dataclasses.dataclass(slots=True)
class AuditTrail:
    """The privileges that a request has used or was refused.

    :ivar before: the values that the request replaces.
    """

    before: dict[str, object] = dataclasses.field(default_factory=dict)
    _policies: list[str] = dataclasses.field(default_factory=list)
    _projects: list[str] = dataclasses.field(default_factory=list)

    def add(
        self,
        caller: context.RequestContext,
        policy: str,
        owner: str | None,
        is_privileged: bool,
    ) -> None:
        """Add a policy that was checked for the request.

        :param owner: the project that owns the target.
        :param is_privileged: whether the policy gives the caller more rights
            than a tenant has.
        """
        is_foreign = owner != caller.project_id
        if is_foreign and owner is not None and owner not in self._projects:
            self._projects.append(owner)
        if (is_foreign or is_privileged) and policy not in self._policies:
            self._policies.append(policy)

    def record(
        self,
        caller: context.RequestContext,
        operation: str,
        target: Mapping[str, object],
        values: Mapping[str, object],
        error: Exception | None = None,
    ) -> None:
        """Write the request's line, if it used or was refused a privilege."""
        if not self._policies:
            return
        code = errors.translate(error).code if error is not None else None
        outcome = audit.DONE
        if code is not None:
            denied = code == codes.FORBIDDEN
            outcome = audit.DENIED if denied else audit.FAILED
        audit.record(
            action=f"{operation} {' '.join(self._policies)}",
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

    def record_own(
        self,
        caller: context.RequestContext,
        action: str,
        target: Mapping[str, object],
        target_projects: list[str] | None = None,
    ) -> None:
        """Write a line for an action that is always audited.

        If the caller used a privilege for it, :meth:`record` writes the line.
        """
        if not self._policies:
            audit.record(
                action=action,
                outcome=audit.DONE,
                user=caller.user_id,
                project=caller.project_id,
                target=target,
                target_projects=target_projects,
                before=self.before,
                request_id=caller.request_id,
            )
