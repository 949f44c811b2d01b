# SPDX-License-Identifier: Apache-2.0

"""Policies of services."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:services:list"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST,
            base.ADMIN_OR_SERVICE,
            "List the leading conductor and the agents.",
            "GET",
            "/v1/services",
        )
    ]
