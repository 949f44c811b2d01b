# SPDX-License-Identifier: Apache-2.0

"""Policies of the API's versions: every caller may see them, without a token.

These requests are not authenticated, so that a configured policy cannot make
them less public.
"""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:versions:list"
GET = "fpgapool:versions:get"
DOCUMENT = "fpgapool:openapi:get"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(LIST, base.PUBLIC, "List the API's versions.", "GET", "/"),
        base.rule(GET, base.PUBLIC, "Show an API version.", "GET", "/v1"),
        base.rule(
            DOCUMENT,
            base.PUBLIC,
            "Show the API's OpenAPI document.",
            "GET",
            "/v1/openapi.json",
        ),
    ]
