# SPDX-License-Identifier: Apache-2.0

"""Who may see the services."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:services:list"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(
            LIST,
            base.ADMIN_OR_SERVICE,
            "List conductor and agents.",
            "GET",
            "/v1/services",
        )
    ]
