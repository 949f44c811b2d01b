# SPDX-License-Identifier: Apache-2.0

"""Who may see the slots, and have them tested."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:slots:list"
GET = "fpgapool:slots:get"
TEST = "fpgapool:slots:test"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(
            LIST, base.ANY_READER, "List the slots.", "GET", "/v1/slots"
        ),
        base.rule(
            GET, base.ANY_READER, "Show a slot.", "GET", "/v1/slots/{slot_id}"
        ),
        base.rule(
            TEST,
            base.ADMIN,
            "Have a slot tested now.",
            "POST",
            "/v1/slots/{slot_id}/test",
        ),
    ]
