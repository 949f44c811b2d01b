# SPDX-License-Identifier: Apache-2.0

"""Policies of the pool's summary and snapshot."""

from oslo_policy import policy

from fpgapool.policies import base

GET = "fpgapool:pool:get"
SNAPSHOT = "fpgapool:pool:snapshot"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(GET, base.ANY_READER, "Show the pool.", "GET", "/v1/pool"),
        base.rule(
            SNAPSHOT,
            base.ADMIN_OR_SERVICE,
            "Show the data by which Nova places instances.",
            "GET",
            "/v1/pool/snapshot",
        ),
    ]
