# SPDX-License-Identifier: Apache-2.0

"""Policies of hosts."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:hosts:list"
GET = "fpgapool:hosts:get"
CHANGE = "fpgapool:hosts:change"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST, base.ADMIN_OR_SERVICE, "List the hosts.", "GET", "/v1/hosts"
        ),
        base.rule(
            GET,
            base.ADMIN_OR_SERVICE,
            "Show a host.",
            "GET",
            "/v1/hosts/{host_uuid}",
        ),
        base.rule(
            CHANGE,
            base.ADMIN,
            "Enable, drain or disable a host.",
            "PATCH",
            "/v1/hosts/{host_uuid}",
        ),
    ]
