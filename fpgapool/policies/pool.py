# SPDX-License-Identifier: Apache-2.0

"""Who may see the pool at a glance."""

from oslo_policy import policy

from fpgapool.policies import base

GET = "fpgapool:pool:get"
SNAPSHOT = "fpgapool:pool:snapshot"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(GET, base.ANY_READER, "Show the pool.", "GET", "/v1/pool"),
        base.rule(
            SNAPSHOT,
            base.ADMIN_OR_SERVICE,
            "Show what Nova needs to know to place instances.",
            "GET",
            "/v1/pool/snapshot",
        ),
    ]
