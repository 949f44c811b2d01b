# SPDX-License-Identifier: Apache-2.0

"""Policies of accelerators."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:accelerators:list"
GET = "fpgapool:accelerators:get"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST,
            base.ANY_READER_OR_INSTANCE,
            "List the accelerators.",
            "GET",
            "/v1/accelerators",
        ),
        base.rule(
            GET,
            base.ANY_READER_OR_INSTANCE,
            "Show an accelerator.",
            "GET",
            "/v1/accelerators/{name}",
        ),
    ]
