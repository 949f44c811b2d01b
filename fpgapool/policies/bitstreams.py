# SPDX-License-Identifier: Apache-2.0

"""Policies of bitstreams."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:bitstreams:list"
LIST_ALL = "fpgapool:bitstreams:list:all_projects"
GET = "fpgapool:bitstreams:get"
ALL_PROJECTS = "fpgapool:bitstreams:all_projects"
CREATE = "fpgapool:bitstreams:create"
UPLOAD = "fpgapool:bitstreams:upload"
DOWNLOAD = "fpgapool:bitstreams:download"
UPDATE = "fpgapool:bitstreams:update"
PUBLISH = "fpgapool:bitstreams:publish"
SHARE = "fpgapool:bitstreams:share"
APPROVE = "fpgapool:bitstreams:approve"
REJECT = "fpgapool:bitstreams:reject"
DELETE = "fpgapool:bitstreams:delete"

_COLLECTION = "/v1/bitstreams"
_ONE = "/v1/bitstreams/{bitstream_id}"
_FILE = f"{_ONE}/file"
_PROJECT = f"{_ONE}/projects/{{project_id}}"

_READER_OR_AGENT = "rule:project_reader_or_admin or rule:agent_api"


def list_rules() -> list[policy.RuleDefault]:
    """Return the policies of these operations."""
    return [
        base.rule(
            LIST,
            base.PROJECT_READER_OR_ADMIN,
            "List the bitstreams that the own project may see.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List the bitstreams of all projects.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
        base.rule(
            GET,
            base.PROJECT_READER_OR_ADMIN,
            "Show a bitstream.",
            "GET",
            _ONE,
        ),
        policy.DocumentedRuleDefault(
            name=ALL_PROJECTS,
            check_str=base.ADMIN_OR_AGENT,
            description="Also find the bitstreams of other projects.",
            operations=[
                {"method": "GET", "path": _ONE},
                {"method": "GET", "path": _FILE},
                {"method": "PATCH", "path": _ONE},
                {"method": "DELETE", "path": _ONE},
            ],
            scope_types=["project"],
        ),
        base.rule(
            CREATE,
            base.PROJECT_MEMBER,
            "Create a bitstream; its file follows.",
            "POST",
            _COLLECTION,
        ),
        base.rule(
            UPLOAD,
            base.PROJECT_MEMBER_OR_ADMIN,
            "Upload a bitstream's file.",
            "PUT",
            _FILE,
        ),
        base.rule(
            DOWNLOAD,
            _READER_OR_AGENT,
            "Download a bitstream's file; agents do so.",
            "GET",
            _FILE,
        ),
        base.rule(
            UPDATE,
            base.PROJECT_MEMBER_OR_ADMIN,
            "Change the metadata of a bitstream.",
            "PATCH",
            _ONE,
        ),
        policy.DocumentedRuleDefault(
            name=PUBLISH,
            check_str=base.ADMIN,
            description="Make a bitstream public, or private again.",
            operations=[
                {"method": "POST", "path": _COLLECTION},
                {"method": "PATCH", "path": _ONE},
            ],
            scope_types=["project"],
        ),
        policy.DocumentedRuleDefault(
            name=SHARE,
            check_str=base.PROJECT_MEMBER_OR_ADMIN,
            description="Start or stop sharing a bitstream with a project.",
            operations=[
                {"method": "PUT", "path": _PROJECT},
                {"method": "DELETE", "path": _PROJECT},
            ],
            scope_types=["project"],
        ),
        base.rule(
            APPROVE,
            base.ADMIN,
            "Approve a bitstream, so that slots may run it.",
            "POST",
            f"{_ONE}/approve",
        ),
        base.rule(
            REJECT,
            base.ADMIN,
            "Reject a bitstream, so that no slot runs it.",
            "POST",
            f"{_ONE}/reject",
        ),
        base.rule(
            DELETE,
            base.PROJECT_MEMBER_OR_ADMIN,
            "Delete a bitstream.",
            "DELETE",
            _ONE,
        ),
    ]
