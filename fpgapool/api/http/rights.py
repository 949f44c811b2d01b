# SPDX-License-Identifier: Apache-2.0

"""The rules that policies consist of, and rights that are not operations.

Each route names its policy and the default rule of it. A right lets a caller
do more in some operations, or is needed in several.

Keystone's default roles imply each other: an administrator is a manager, a
manager a member, a member a reader, each in the project of the token.
"""

from __future__ import annotations

import dataclasses

#: Roles that an operator creates, each for one kind of user: agents, and
#: Nova's user for vendordata.
AGENT_ROLE = "fpgapool:agent"
VENDORDATA_ROLE = "fpgapool:vendordata"

#: Every caller, without a token. These requests are not authenticated, so that
#: a configured policy cannot make them less public.
PUBLIC = "@"

ADMIN = "rule:admin_api"
ADMIN_OR_SERVICE = "rule:admin_or_service_api"
ADMIN_OR_AGENT = "rule:admin_or_agent_api"
VENDORDATA = "rule:vendordata_api"
PROJECT_MEMBER = "rule:project_member_api"
PROJECT_MEMBER_OR_ADMIN = "rule:project_member_or_admin"
PROJECT_READER_OR_ADMIN = "rule:project_reader_or_admin"
ANY_READER = "rule:any_reader"
# Including instances, which see only their own sessions.
PROJECT_MEMBER_OR_INSTANCE = "rule:project_member_or_instance"
ANY_MEMBER = "rule:project_member_or_admin_or_instance"
ANY_PROJECT_READER = "rule:project_reader_or_admin_or_instance"
ANY_READER_OR_INSTANCE = "rule:any_reader_or_instance"

#: The basic rules: name, check and description.
BASIC = (
    ("admin_api", "role:admin", "Administrators of the cloud."),
    (
        "service_api",
        "role:service",
        "Other services of the cloud, such as Nova.",
    ),
    (
        "admin_or_service_api",
        "rule:admin_api or rule:service_api",
        "Administrators and other services.",
    ),
    (
        "agent_api",
        f"role:{AGENT_ROLE}",
        "Agents, which fetch the files of bitstreams.",
    ),
    (
        "admin_or_agent_api",
        "rule:admin_api or rule:agent_api",
        "Administrators and agents.",
    ),
    (
        "vendordata_api",
        f"role:{VENDORDATA_ROLE}",
        "Nova's user for vendordata.",
    ),
    (
        "project_reader_api",
        "role:reader and project_id:%(project_id)s",
        "Users who may see a project's resources.",
    ),
    (
        "project_member_api",
        "role:member and project_id:%(project_id)s",
        "Users who may use the pool for a project.",
    ),
    (
        "project_manager_api",
        "role:manager and project_id:%(project_id)s",
        "Users who may manage a project's resources.",
    ),
    (
        "project_reader_or_admin",
        "rule:project_reader_api or rule:admin_api",
        "Readers of a project, and administrators.",
    ),
    (
        "project_member_or_admin",
        "rule:project_member_api or rule:project_manager_api"
        " or rule:admin_api",
        "Members of a project, and administrators.",
    ),
    (
        "any_reader",
        "rule:project_reader_api or rule:admin_or_service_api",
        "Readers of any project, and other services.",
    ),
    (
        "instance_api",
        "role:fpgapool:instance and project_id:%(project_id)s",
        "Instances, by tokens of their own.",
    ),
    (
        "project_member_or_instance",
        "rule:project_member_api or rule:instance_api",
        "Members of a project, and its instances.",
    ),
    (
        "project_member_or_admin_or_instance",
        "rule:project_member_or_admin or rule:instance_api",
        "Members of a project, its instances, and administrators.",
    ),
    (
        "project_reader_or_admin_or_instance",
        "rule:project_reader_or_admin or rule:instance_api",
        "Readers of a project, its instances, and administrators.",
    ),
    (
        "any_reader_or_instance",
        "rule:any_reader or rule:instance_api",
        "Readers of any project, instances, and other services.",
    ),
)

# Policies of routes that handlers also check in other routes.
BITSTREAMS_UPDATE = "fpgapool:bitstreams:update"
GROUPS_UPDATE = "fpgapool:groups:update"
HOSTS_LIST = "fpgapool:hosts:list"

# The rights that belong to no single route.
BITSTREAMS_LIST_ALL = "fpgapool:bitstreams:list:all_projects"
BITSTREAMS_ALL_PROJECTS = "fpgapool:bitstreams:all_projects"
BITSTREAMS_PUBLISH = "fpgapool:bitstreams:publish"
GROUPS_LIST_ALL = "fpgapool:groups:list:all_projects"
GROUPS_ALL_PROJECTS = "fpgapool:groups:all_projects"
GROUPS_SHARE = "fpgapool:groups:share"
INSTANCES_LIST_ALL = "fpgapool:instances:list:all_projects"
INSTANCES_ALL_PROJECTS = "fpgapool:instances:all_projects"
SESSIONS_LIST_ALL = "fpgapool:sessions:list:all_projects"
SESSIONS_ALL_PROJECTS = "fpgapool:sessions:all_projects"
SESSIONS_CONNECT = "fpgapool:sessions:connect"
USAGE_LIST_ALL = "fpgapool:usage:list:all_projects"


@dataclasses.dataclass(frozen=True)
class Right:
    """A policy that is not that of one route.

    :ivar operations: method and path of each in which it counts.
    """

    name: str
    rule: str
    description: str
    operations: tuple[str, ...]


def _list_all(name: str, what: str, path: str) -> Right:
    return Right(
        name,
        ADMIN,
        f"List the {what} of all projects.",
        (f"GET {path}?all_projects=true",),
    )


_BITSTREAM = "/v1/bitstreams/{bitstream_id}"
_GROUP = "/v1/groups/{group_id}"
_SESSION = "/v1/sessions/{session_id}"

RIGHTS = (
    _list_all(BITSTREAMS_LIST_ALL, "bitstreams", "/v1/bitstreams"),
    Right(
        BITSTREAMS_ALL_PROJECTS,
        ADMIN_OR_AGENT,
        "Also access the bitstreams of other projects.",
        (
            f"GET {_BITSTREAM}",
            f"GET {_BITSTREAM}/file",
            f"PATCH {_BITSTREAM}",
            f"DELETE {_BITSTREAM}",
        ),
    ),
    Right(
        BITSTREAMS_PUBLISH,
        ADMIN,
        "Make a bitstream public, or private again.",
        ("POST /v1/bitstreams", f"PATCH {_BITSTREAM}"),
    ),
    _list_all(GROUPS_LIST_ALL, "groups", "/v1/groups"),
    Right(
        GROUPS_ALL_PROJECTS,
        ADMIN,
        "Also access the groups of other projects.",
        (
            f"GET {_GROUP}",
            f"PATCH {_GROUP}",
            f"DELETE {_GROUP}",
            f"PUT {_GROUP}/goal",
            f"DELETE {_GROUP}/goal",
            f"GET {_GROUP}/clients",
            f"GET {_GROUP}/clients/{{client_id}}",
            f"DELETE {_GROUP}/clients/{{client_id}}",
        ),
    ),
    Right(
        GROUPS_SHARE,
        ADMIN,
        "Share a group with other projects, or stop sharing it.",
        ("POST /v1/groups", f"PATCH {_GROUP}"),
    ),
    _list_all(
        INSTANCES_LIST_ALL, "instances that have tokens", "/v1/instances"
    ),
    Right(
        INSTANCES_ALL_PROJECTS,
        ADMIN,
        "Also revoke tokens of instances of other projects.",
        ("DELETE /v1/instances/{instance_id}/token",),
    ),
    _list_all(SESSIONS_LIST_ALL, "sessions", "/v1/sessions"),
    Right(
        SESSIONS_ALL_PROJECTS,
        ADMIN,
        "Also show and close sessions of other projects.",
        (f"GET {_SESSION}", f"DELETE {_SESSION}", "GET /v1/slots"),
    ),
    Right(
        SESSIONS_CONNECT,
        PROJECT_MEMBER_OR_INSTANCE,
        "Get the secret with which a client connects to a session's slot, a"
        " new secret, or another slot.",
        (
            f"GET {_SESSION}",
            "POST /v1/sessions",
            f"POST {_SESSION}/reopen",
            f"POST {_SESSION}/renew-secret",
        ),
    ),
    _list_all(USAGE_LIST_ALL, "usage", "/v1/usage"),
)
