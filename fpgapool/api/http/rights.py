# SPDX-License-Identifier: Apache-2.0

"""The rules of policies, and policies that do not belong to a single route.

Each route names its policy and that policy's default rule. A right, as defined
here, allows a caller to do more in some operations, or is required in several.

Keystone's default roles imply each other: in the project of the token, an
administrator is also a manager, a manager is also a member, and a member is
also a reader.
"""

from __future__ import annotations

import dataclasses

#: Roles that an operator creates: for the users of agents, and for the user
#: with which Nova requests vendordata.
AGENT_ROLE = "fpgapool:agent"
VENDORDATA_ROLE = "fpgapool:vendordata"

#: The rule of operations that need no token. These requests are not
#: authenticated, so a configured policy cannot restrict them.
PUBLIC = "@"

#: The basic rules: name, check and description.
BASIC: list[tuple[str, str, str]] = []


def _rule(name: str, check: str, description: str) -> str:
    BASIC.append((name, check, description))
    return f"rule:{name}"


ADMIN = _rule("admin_api", "role:admin", "Administrators of the cloud.")
_SERVICE = _rule(
    "service_api", "role:service", "Other services of the cloud, such as Nova."
)
ADMIN_OR_SERVICE = _rule(
    "admin_or_service_api",
    f"{ADMIN} or {_SERVICE}",
    "Administrators and other services.",
)
# Unlike ADMIN_OR_SERVICE it is not audited: it shows no data of tenants, and
# whoever watches the pool uses it again and again.
HARDWARE_READER = _rule(
    "hardware_reader_api",
    ADMIN_OR_SERVICE,
    "Users who see boards and slots, and a name or hash of their host.",
)
_AGENT = _rule(
    "agent_api",
    f"role:{AGENT_ROLE}",
    "Agents, which download the files of bitstreams.",
)
ADMIN_OR_AGENT = _rule(
    "admin_or_agent_api", f"{ADMIN} or {_AGENT}", "Administrators and agents."
)
VENDORDATA = _rule(
    "vendordata_api",
    f"role:{VENDORDATA_ROLE}",
    "The user with which Nova requests vendordata.",
)
_READER = _rule(
    "project_reader_api",
    "role:reader and project_id:%(project_id)s",
    "Users who may see a project's resources.",
)
PROJECT_MEMBER = _rule(
    "project_member_api",
    "role:member and project_id:%(project_id)s",
    "Users who may use the pool for a project.",
)
_MANAGER = _rule(
    "project_manager_api",
    "role:manager and project_id:%(project_id)s",
    "Users who may manage a project's resources.",
)
PROJECT_READER_OR_ADMIN = _rule(
    "project_reader_or_admin",
    f"{_READER} or {ADMIN}",
    "Readers of a project, and administrators.",
)
PROJECT_MEMBER_OR_ADMIN = _rule(
    "project_member_or_admin",
    f"{PROJECT_MEMBER} or {_MANAGER} or {ADMIN}",
    "Members of a project, and administrators.",
)
ANY_READER = _rule(
    "any_reader",
    f"{_READER} or {ADMIN_OR_SERVICE}",
    "Readers of any project, and other services.",
)
# Instances see only their own sessions.
_INSTANCE = _rule(
    "instance_api",
    "role:fpgapool:instance and project_id:%(project_id)s",
    "Instances, with their own tokens.",
)
PROJECT_MEMBER_OR_INSTANCE = _rule(
    "project_member_or_instance",
    f"{PROJECT_MEMBER} or {_INSTANCE}",
    "Members of a project, and its instances.",
)
ANY_MEMBER = _rule(
    "project_member_or_admin_or_instance",
    f"{PROJECT_MEMBER_OR_ADMIN} or {_INSTANCE}",
    "Members of a project, its instances, and administrators.",
)
ANY_PROJECT_READER = _rule(
    "project_reader_or_admin_or_instance",
    f"{PROJECT_READER_OR_ADMIN} or {_INSTANCE}",
    "Readers of a project, its instances, and administrators.",
)
ANY_READER_OR_INSTANCE = _rule(
    "any_reader_or_instance",
    f"{ANY_READER} or {_INSTANCE}",
    "Readers of any project, instances, and other services.",
)
READER_OR_AGENT = f"{PROJECT_READER_OR_ADMIN} or {_AGENT}"

# Policies of routes that handlers also check in other routes.
BITSTREAMS_UPDATE = "fpgapool:bitstreams:update"
GROUPS_UPDATE = "fpgapool:groups:update"
POOL_GET = "fpgapool:pool:get"
POOL_HOSTS = "fpgapool:pool:hosts"


@dataclasses.dataclass(frozen=True)
class Right:
    """A policy that does not belong to a single route.

    :ivar operations: method and path of each operation that depends on it.
    """

    name: str
    rule: str
    description: str
    operations: tuple[str, ...]


RIGHTS: list[Right] = []


def _right(
    name: str, description: str, *operations: str, rule: str = ADMIN
) -> str:
    name = f"fpgapool:{name}"
    RIGHTS.append(Right(name, rule, description, operations))
    return name


def _list_all(resource: str, what: str = "") -> str:
    return _right(
        f"{resource}:list:all_projects",
        f"List the {what or resource} of all projects.",
        f"GET /v1/{resource}?all_projects=true",
    )


_BITSTREAM = "/v1/bitstreams/{bitstream_id}"
_GROUP = "/v1/groups/{group_id}"
_RESERVATION = "/v1/reservations/{reservation_id}"
_SESSION = "/v1/sessions/{session_id}"

BUDGETS_LIST_ALL = _list_all("budgets")
BITSTREAMS_LIST_ALL = _list_all("bitstreams")
BITSTREAMS_ALL_PROJECTS = _right(
    "bitstreams:all_projects",
    "Also access the bitstreams of other projects.",
    f"GET {_BITSTREAM}",
    f"GET {_BITSTREAM}/file",
    f"PATCH {_BITSTREAM}",
    f"DELETE {_BITSTREAM}",
    rule=ADMIN_OR_AGENT,
)
BITSTREAMS_PUBLISH = _right(
    "bitstreams:publish",
    "Make a bitstream public, or private again.",
    "POST /v1/bitstreams",
    f"PATCH {_BITSTREAM}",
)
GROUPS_LIST_ALL = _list_all("groups")
GROUPS_ALL_PROJECTS = _right(
    "groups:all_projects",
    "Also access the groups of other projects.",
    f"GET {_GROUP}",
    f"PATCH {_GROUP}",
    f"DELETE {_GROUP}",
    f"PUT {_GROUP}/goal",
    f"DELETE {_GROUP}/goal",
    f"GET {_GROUP}/clients",
    f"GET {_GROUP}/clients/{{client_id}}",
    f"DELETE {_GROUP}/clients/{{client_id}}",
)
GROUPS_SHARE = _right(
    "groups:share",
    "Share a group with other projects, or stop sharing it.",
    "POST /v1/groups",
    f"PATCH {_GROUP}",
)
HOSTS_IDENTIFY = _right(
    "hosts:identify",
    "See the names and UUIDs of hosts; other callers see a hash of each, which"
    " differs between projects.",
    "GET /v1/hosts",
    "GET /v1/hosts/{host_uuid}",
    "GET /v1/devices",
    "GET /v1/devices/{device_id}",
    "GET /v1/slots",
    "GET /v1/slots/{slot_id}",
    "GET /v1/pool",
    "GET /v1/pool/hosts",
    "GET /v1/sessions",
    f"GET {_SESSION}",
    f"GET {_GROUP}",
    "GET /v1/instances",
    rule=ADMIN_OR_SERVICE,
)
INSTANCES_LIST_ALL = _list_all("instances", "instances that have tokens")
INSTANCES_ALL_PROJECTS = _right(
    "instances:all_projects",
    "Also revoke the tokens of other projects' instances.",
    "DELETE /v1/instances/{instance_id}/token",
)
RESERVATIONS_LIST_ALL = _list_all("reservations")
RESERVATIONS_ALL_PROJECTS = _right(
    "reservations:all_projects",
    "Also access the reservations of other projects, and reserve slots beyond"
    " a project's quota.",
    "POST /v1/reservations",
    f"GET {_RESERVATION}",
    f"PATCH {_RESERVATION}",
    f"DELETE {_RESERVATION}",
)
SESSIONS_LIST_ALL = _list_all("sessions")
SESSIONS_ALL_PROJECTS = _right(
    "sessions:all_projects",
    "Also show and close sessions of other projects.",
    f"GET {_SESSION}",
    f"DELETE {_SESSION}",
    "GET /v1/slots",
)
SESSIONS_CONNECT = _right(
    "sessions:connect",
    "Get the secret with which a client connects to a session's slot, renew"
    " it, or request another slot.",
    f"GET {_SESSION}",
    "POST /v1/sessions",
    f"POST {_SESSION}/reopen",
    f"POST {_SESSION}/renew-secret",
    rule=PROJECT_MEMBER_OR_INSTANCE,
)
USAGE_LIST_ALL = _list_all("usage")
