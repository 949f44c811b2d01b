# SPDX-License-Identifier: Apache-2.0

"""Who may see what projects have used."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:usage:list"
LIST_ALL = "fpgapool:usage:list:all_projects"

_COLLECTION = "/v1/usage"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(
            LIST,
            base.PROJECT_READER_OR_ADMIN,
            "List what a project has used.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List what all projects have used.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
    ]
