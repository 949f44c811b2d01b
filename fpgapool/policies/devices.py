# SPDX-License-Identifier: Apache-2.0

"""Policies of devices."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:devices:list"
GET = "fpgapool:devices:get"
CHANGE = "fpgapool:devices:change"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST, base.ANY_READER, "List the devices.", "GET", "/v1/devices"
        ),
        base.rule(
            GET,
            base.ANY_READER,
            "Show a device.",
            "GET",
            "/v1/devices/{device_id}",
        ),
        base.rule(
            CHANGE,
            base.ADMIN,
            "Enable, drain or disable a device.",
            "PATCH",
            "/v1/devices/{device_id}",
        ),
    ]
