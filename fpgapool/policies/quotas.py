# SPDX-License-Identifier: Apache-2.0

"""Policies of quotas."""

from oslo_policy import policy

from fpgapool.policies import base

GET = "fpgapool:quotas:get"
DEFAULTS = "fpgapool:quotas:defaults"
UPDATE = "fpgapool:quotas:update"
DELETE = "fpgapool:quotas:delete"

_OWN = "/v1/quotas"
_ONE = "/v1/quotas/{project_id}"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        policy.DocumentedRuleDefault(
            name=GET,
            check_str=base.PROJECT_READER_OR_ADMIN,
            description="Show the limits and the use of a project.",
            operations=[
                {"method": "GET", "path": _OWN},
                {"method": "GET", "path": _ONE},
            ],
            scope_types=["project"],
        ),
        base.rule(
            DEFAULTS,
            base.PROJECT_READER_OR_ADMIN,
            "Show the default limits.",
            "GET",
            "/v1/quotas/defaults",
        ),
        base.rule(
            UPDATE,
            base.ADMIN,
            "Limit the use of a project.",
            "PUT",
            _ONE,
        ),
        base.rule(
            DELETE,
            base.ADMIN,
            "Reset the limits of a project to the defaults.",
            "DELETE",
            _ONE,
        ),
    ]
