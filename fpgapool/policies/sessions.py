# SPDX-License-Identifier: Apache-2.0

"""Policies of sessions."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:sessions:list"
LIST_ALL = "fpgapool:sessions:list:all_projects"
GET = "fpgapool:sessions:get"
ALL_PROJECTS = "fpgapool:sessions:all_projects"
CREATE = "fpgapool:sessions:create"
DELETE = "fpgapool:sessions:delete"
CONNECT = "fpgapool:sessions:connect"

_COLLECTION = "/v1/sessions"
_ONE = "/v1/sessions/{session_id}"
_REOPEN = "/v1/sessions/{session_id}/reopen"
_RENEW = "/v1/sessions/{session_id}/renew-secret"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST,
            base.ANY_PROJECT_READER,
            "List the sessions of the own project.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List the sessions of all projects.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
        base.rule(
            GET,
            base.ANY_PROJECT_READER,
            "Show a session.",
            "GET",
            _ONE,
        ),
        policy.DocumentedRuleDefault(
            name=ALL_PROJECTS,
            check_str=base.ADMIN,
            description="Also show and close sessions of other projects.",
            operations=[
                {"method": "GET", "path": _ONE},
                {"method": "DELETE", "path": _ONE},
                {"method": "GET", "path": "/v1/slots"},
            ],
            scope_types=["project"],
        ),
        base.rule(
            CREATE,
            base.PROJECT_MEMBER_OR_INSTANCE,
            "Open a session.",
            "POST",
            _COLLECTION,
        ),
        base.rule(
            DELETE,
            base.ANY_MEMBER,
            "Cancel or close a session.",
            "DELETE",
            _ONE,
        ),
        policy.DocumentedRuleDefault(
            name=CONNECT,
            check_str=base.PROJECT_MEMBER_OR_INSTANCE,
            description=(
                "Get the secret by which a client connects to a session's"
                " slot, also a new secret or another slot."
            ),
            operations=[
                {"method": "GET", "path": _ONE},
                {"method": "POST", "path": _COLLECTION},
                {"method": "POST", "path": _REOPEN},
                {"method": "POST", "path": _RENEW},
            ],
            scope_types=["project"],
        ),
    ]
