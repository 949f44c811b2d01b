# SPDX-License-Identifier: Apache-2.0

"""Policies of slots and their self-tests."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:slots:list"
GET = "fpgapool:slots:get"
TEST = "fpgapool:slots:test"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
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
            "Start a self-test of a slot.",
            "POST",
            "/v1/slots/{slot_id}/test",
        ),
    ]
