# SPDX-License-Identifier: Apache-2.0

"""Who may see and set what projects may use."""

from oslo_policy import policy

from fpgapool.policies import base

GET = "fpgapool:quotas:get"
DEFAULTS = "fpgapool:quotas:defaults"
UPDATE = "fpgapool:quotas:update"
DELETE = "fpgapool:quotas:delete"

_OWN = "/v1/quotas"
_ONE = "/v1/quotas/{project_id}"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        policy.DocumentedRuleDefault(
            name=GET,
            check_str=base.PROJECT_READER_OR_ADMIN,
            description="Show what a project may use, and uses.",
            operations=[
                {"method": "GET", "path": _OWN},
                {"method": "GET", "path": _ONE},
            ],
            scope_types=["project"],
        ),
        base.rule(
            DEFAULTS,
            base.PROJECT_READER_OR_ADMIN,
            "Show what projects may use that have no limits of their own.",
            "GET",
            "/v1/quotas/defaults",
        ),
        base.rule(
            UPDATE,
            base.ADMIN,
            "Limit what a project may use.",
            "PUT",
            _ONE,
        ),
        base.rule(
            DELETE,
            base.ADMIN,
            "Let the defaults hold for a project.",
            "DELETE",
            _ONE,
        ),
    ]
