# SPDX-License-Identifier: Apache-2.0

"""Policies of usage."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:usage:list"
LIST_ALL = "fpgapool:usage:list:all_projects"

_COLLECTION = "/v1/usage"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST,
            base.PROJECT_READER_OR_ADMIN,
            "List the usage of a project.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List the usage of all projects.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
    ]
