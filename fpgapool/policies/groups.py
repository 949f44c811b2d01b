# SPDX-License-Identifier: Apache-2.0

"""Policies of groups and their clients."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:groups:list"
LIST_ALL = "fpgapool:groups:list:all_projects"
GET = "fpgapool:groups:get"
ALL_PROJECTS = "fpgapool:groups:all_projects"
CREATE = "fpgapool:groups:create"
UPDATE = "fpgapool:groups:update"
SHARE = "fpgapool:groups:share"
GOAL = "fpgapool:groups:goal"
DELETE = "fpgapool:groups:delete"
LIST_CLIENTS = "fpgapool:groups:clients:list"
GET_CLIENT = "fpgapool:groups:clients:get"
ATTACH = "fpgapool:groups:clients:attach"
REVOKE = "fpgapool:groups:clients:revoke"

_COLLECTION = "/v1/groups"
_ONE = "/v1/groups/{group_id}"
_GOAL = f"{_ONE}/goal"
_CLIENTS = f"{_ONE}/clients"
_CLIENT = f"{_CLIENTS}/{{client_id}}"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST,
            base.ANY_PROJECT_READER,
            "List the groups that the own project may use.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List the groups of all projects.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
        base.rule(
            GET,
            base.ANY_PROJECT_READER,
            "Show a group.",
            "GET",
            _ONE,
        ),
        policy.DocumentedRuleDefault(
            name=ALL_PROJECTS,
            check_str=base.ADMIN,
            description="Also find the groups of other projects.",
            operations=[
                {"method": "GET", "path": _ONE},
                {"method": "PATCH", "path": _ONE},
                {"method": "DELETE", "path": _ONE},
                {"method": "PUT", "path": _GOAL},
                {"method": "DELETE", "path": _GOAL},
                {"method": "GET", "path": _CLIENTS},
                {"method": "GET", "path": _CLIENT},
                {"method": "DELETE", "path": _CLIENT},
            ],
            scope_types=["project"],
        ),
        base.rule(
            CREATE,
            base.PROJECT_MEMBER,
            "Create a group.",
            "POST",
            _COLLECTION,
        ),
        base.rule(
            UPDATE,
            base.PROJECT_MEMBER_OR_ADMIN,
            "Rename or resize a group.",
            "PATCH",
            _ONE,
        ),
        policy.DocumentedRuleDefault(
            name=SHARE,
            check_str=base.ADMIN,
            description="Share a group with other projects, or stop sharing"
            " it.",
            operations=[
                {"method": "POST", "path": _COLLECTION},
                {"method": "PATCH", "path": _ONE},
            ],
            scope_types=["project"],
        ),
        policy.DocumentedRuleDefault(
            name=GOAL,
            check_str=base.PROJECT_MEMBER_OR_ADMIN,
            description="Set or remove the goal of a group.",
            operations=[
                {"method": "PUT", "path": _GOAL},
                {"method": "DELETE", "path": _GOAL},
            ],
            scope_types=["project"],
        ),
        base.rule(
            DELETE,
            base.PROJECT_MEMBER_OR_ADMIN,
            "Delete a group.",
            "DELETE",
            _ONE,
        ),
        base.rule(
            LIST_CLIENTS,
            base.ANY_PROJECT_READER,
            "List the clients of a group: all of the own project's groups, and"
            " those of the own project otherwise.",
            "GET",
            _CLIENTS,
        ),
        base.rule(
            GET_CLIENT,
            base.ANY_PROJECT_READER,
            "Show a client of the own project, or of its groups.",
            "GET",
            _CLIENT,
        ),
        base.rule(
            ATTACH,
            base.PROJECT_MEMBER_OR_INSTANCE,
            "Attach a client to a group that the own project may use.",
            "POST",
            _CLIENTS,
        ),
        base.rule(
            REVOKE,
            base.ANY_MEMBER,
            "Revoke a client of the own project, or of its groups.",
            "DELETE",
            _CLIENT,
        ),
    ]
