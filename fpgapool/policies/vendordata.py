# SPDX-License-Identifier: Apache-2.0

"""Policies of vendordata."""

from oslo_policy import policy

from fpgapool.policies import base

CREATE = "fpgapool:vendordata:create"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            CREATE,
            base.VENDORDATA,
            "Get the token of any instance, as Nova does for its metadata.",
            "POST",
            "/v1/vendordata",
        )
    ]
