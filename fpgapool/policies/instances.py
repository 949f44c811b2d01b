# SPDX-License-Identifier: Apache-2.0

"""Policies of instances and their tokens."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:instances:list"
LIST_ALL = "fpgapool:instances:list:all_projects"
ALL_PROJECTS = "fpgapool:instances:all_projects"
REVOKE_TOKEN = "fpgapool:instances:revoke_token"

_COLLECTION = "/v1/instances"
_TOKEN = "/v1/instances/{instance_id}/token"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST,
            base.PROJECT_READER_OR_ADMIN,
            "List the instances of the own project that have tokens.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List the instances of all projects that have tokens.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
        base.rule(
            ALL_PROJECTS,
            base.ADMIN,
            "Also revoke tokens of instances of other projects.",
            "DELETE",
            _TOKEN,
        ),
        base.rule(
            REVOKE_TOKEN,
            base.PROJECT_MEMBER_OR_ADMIN,
            "Revoke the token of an instance.",
            "DELETE",
            _TOKEN,
        ),
    ]
