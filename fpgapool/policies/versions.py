# SPDX-License-Identifier: Apache-2.0

"""Who may see what the API can: anybody, without a token.

These requests are not authenticated, so that a configured rule cannot make
them any less public.
"""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:versions:list"
GET = "fpgapool:versions:get"
DOCUMENT = "fpgapool:openapi:get"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
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
