# SPDX-License-Identifier: Apache-2.0

"""The basic rules, from which all policies are made.

Keystone's default roles imply each other: an administrator is a manager, a
manager a member, a member a reader, each in the project of the token.
"""

from oslo_policy import policy

#: Roles that an operator creates, each for one kind of user: agents, and
#: Nova's user for vendordata.
AGENT_ROLE = "fpgapool:agent"
VENDORDATA_ROLE = "fpgapool:vendordata"

#: Every caller, without a token.
PUBLIC = "@"

ADMIN = "rule:admin_api"
ADMIN_OR_SERVICE = "rule:admin_or_service_api"
ADMIN_OR_AGENT = "rule:admin_or_agent_api"
VENDORDATA = "rule:vendordata_api"
PROJECT_MEMBER = "rule:project_member_api"
PROJECT_MEMBER_OR_ADMIN = "rule:project_member_or_admin"
PROJECT_READER_OR_ADMIN = "rule:project_reader_or_admin"
ANY_READER = "rule:any_reader"

# Also instances, which see only their own sessions of a project's.
PROJECT_MEMBER_OR_INSTANCE = "rule:project_member_or_instance"
ANY_MEMBER = "rule:project_member_or_admin_or_instance"
ANY_PROJECT_READER = "rule:project_reader_or_admin_or_instance"
ANY_READER_OR_INSTANCE = "rule:any_reader_or_instance"


def list_rules() -> list[policy.RuleDefault]:
    """Return the basic rules."""
    return [
        policy.RuleDefault(
            "admin_api",
            "role:admin",
            description="Administrators of the cloud.",
        ),
        policy.RuleDefault(
            "service_api",
            "role:service",
            description="Other services of the cloud, such as Nova.",
        ),
        policy.RuleDefault(
            "admin_or_service_api",
            "rule:admin_api or rule:service_api",
            description="Administrators and other services.",
        ),
        policy.RuleDefault(
            "agent_api",
            f"role:{AGENT_ROLE}",
            description="Agents, which fetch the files of bitstreams.",
        ),
        policy.RuleDefault(
            "admin_or_agent_api",
            "rule:admin_api or rule:agent_api",
            description="Administrators and agents.",
        ),
        policy.RuleDefault(
            "vendordata_api",
            f"role:{VENDORDATA_ROLE}",
            description="Nova's user for vendordata.",
        ),
        policy.RuleDefault(
            "project_reader_api",
            "role:reader and project_id:%(project_id)s",
            description="Users who may see a project's resources.",
        ),
        policy.RuleDefault(
            "project_member_api",
            "role:member and project_id:%(project_id)s",
            description="Users who may use the pool for a project.",
        ),
        policy.RuleDefault(
            "project_manager_api",
            "role:manager and project_id:%(project_id)s",
            description="Users who may manage a project's resources.",
        ),
        policy.RuleDefault(
            "project_reader_or_admin",
            "rule:project_reader_api or rule:admin_api",
            description="Readers of a project, and administrators.",
        ),
        policy.RuleDefault(
            "project_member_or_admin",
            "rule:project_member_api or rule:project_manager_api"
            " or rule:admin_api",
            description="Members of a project, and administrators.",
        ),
        policy.RuleDefault(
            "any_reader",
            "rule:project_reader_api or rule:admin_or_service_api",
            description="Readers of any project, and other services.",
        ),
        policy.RuleDefault(
            "instance_api",
            "role:fpgapool:instance and project_id:%(project_id)s",
            description="Instances, by tokens of their own.",
        ),
        policy.RuleDefault(
            "project_member_or_instance",
            "rule:project_member_api or rule:instance_api",
            description="Members of a project, and its instances.",
        ),
        policy.RuleDefault(
            "project_member_or_admin_or_instance",
            "rule:project_member_or_admin or rule:instance_api",
            description="Members of a project, its instances, and"
            " administrators.",
        ),
        policy.RuleDefault(
            "project_reader_or_admin_or_instance",
            "rule:project_reader_or_admin or rule:instance_api",
            description="Readers of a project, its instances, and"
            " administrators.",
        ),
        policy.RuleDefault(
            "any_reader_or_instance",
            "rule:any_reader or rule:instance_api",
            description="Readers of any project, instances, and other"
            " services.",
        ),
    ]


def rule(
    name: str, check: str, description: str, method: str, path: str
) -> policy.DocumentedRuleDefault:
    """Return the policy of one operation.

    :param name: ``fpgapool:RESOURCE:ACTION``.
    :param check: the rule that must hold.
    """
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check,
        description=description,
        operations=[{"method": method, "path": path}],
        scope_types=None if check == PUBLIC else ["project"],
    )
