# SPDX-License-Identifier: Apache-2.0

"""Look up projects and users by name in Keystone.

In a pool without Keystone, the names are the IDs.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from keystoneauth1 import identity as keystone
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from fpgapool.common import arguments
from fpgapool.osc.v1 import base

# An ID of Keystone, whose length depends on its driver, or a system user.
_USER_ID = re.compile("[0-9a-f]{32}|[0-9a-f]{64}|[0-9]{1,10}")

#: Options of every command that names a project.
OPTIONS = (
    base.option(
        "project-domain",
        "domain of the project (name or ID), needed if several projects have"
        " the same name",
    ),
    base.flag(
        "force-project",
        "treat the given project as an ID and do not look it up in Keystone;"
        " use this for deleted projects, or if you may not list projects",
    ),
)


def one(meaning: str) -> tuple[arguments.Declared, ...]:
    """Return the option ``--project`` and :data:`OPTIONS`."""
    return (base.option("project", meaning), *OPTIONS)


def user(meaning: str) -> tuple[arguments.Declared, ...]:
    """Return the options ``--user`` and ``--user-domain``."""
    return (
        base.option("user", meaning),
        base.option(
            "user-domain",
            "domain of the user (name or ID), needed if several users have the"
            " same name",
        ),
    )


def several(meaning: str, **options: Any) -> tuple[arguments.Declared, ...]:
    """Return the same options, but ``--project`` may be repeated."""
    return (
        base.option(
            "project",
            f"{meaning} (name or ID; repeat the option for several)",
            dest="projects",
            action="append",
            type=base.identifier,
            **options,
        ),
        *OPTIONS,
    )


def find_id(
    connection: Any, project: str, parsed_args: argparse.Namespace
) -> str:
    """Return a project's ID.

    :raises CommandError: if Keystone does not return the project.
    :raises openstack.exceptions.SDKException: if the name is ambiguous.
    """
    if parsed_args.force_project or not _has_keystone(connection):
        return project
    return _find_id(
        connection.identity,
        ("project", project, parsed_args.project_domain),
        "use its ID with --force-project",
        "if this is the ID of a deleted project, add --force-project",
    )


def _has_keystone(connection: Any) -> bool:
    auth = connection.session.auth
    return isinstance(auth, keystone.BaseIdentityPlugin)


def find_user_id(connection: Any, user: str, domain: str | None) -> str:
    """Return a user's ID.

    :param user: name or ID; what looks like an ID is not looked up, because
        the user may be deleted, or a system user.
    :raises CommandError: if Keystone does not return the user.
    :raises openstack.exceptions.SDKException: if the name is ambiguous.
    """
    if _USER_ID.fullmatch(user) or not _has_keystone(connection):
        return user
    return _find_id(
        connection.identity, ("user", user, domain), "use the ID", "use an ID"
    )


def _find_id(
    identity: Any,
    wanted: tuple[str, str, str | None],
    if_forbidden: str,
    if_missing: str,
) -> str:
    """Return the ID of a project or user.

    :param wanted: the kind, the name or ID, and the domain.
    """
    kind, name, domain = wanted
    try:
        domain_id = domain and (
            identity.find_domain(domain, ignore_missing=False).id
        )
        found = getattr(identity, f"find_{kind}")(
            name, ignore_missing=True, domain_id=domain_id
        )
    except sdk_exceptions.NotFoundException:
        found = None
    except (
        sdk_exceptions.ForbiddenException,
        auth_exceptions.EndpointNotFound,
    ) as error:
        raise exceptions.CommandError(
            f"cannot look up {kind} {name!r} in Keystone ({error});"
            f" {if_forbidden}"
        ) from error
    if found is None:
        raise exceptions.CommandError(
            f"Keystone has no {kind} {name!r}; {if_missing}"
        )
    return str(found.id)


def check_own(parsed_args: argparse.Namespace) -> None:
    """Check the options of a command that names no project.

    :raises CommandError: if there are options that need one.
    """
    # The parser also reads ``--project`` as the beginning of the first.
    if parsed_args.project_domain or parsed_args.force_project:
        raise exceptions.CommandError(
            "--project-domain and --force-project need a project: name it"
            " last, without an option"
        )


def find_ids(
    connection: Any, names: list[str], parsed_args: argparse.Namespace
) -> list[str]:
    """Return the IDs of several projects; see :func:`find_id`."""
    return [find_id(connection, name, parsed_args) for name in names]


def query(
    asked: base.Command, parsed_args: argparse.Namespace
) -> dict[str, Any]:
    """Return the filter for the option of :func:`one`, if it was given."""
    if not parsed_args.project:
        return {}
    project = parsed_args.project
    return {"project_id": find_id(asked.connection, project, parsed_args)}
