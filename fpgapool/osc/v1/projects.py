# SPDX-License-Identifier: Apache-2.0

"""Names of projects in Keystone."""

from __future__ import annotations

import argparse
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a named project."""
    parser.add_argument(
        "--project-domain",
        metavar="<project-domain>",
        help="domain of the project (name or ID), if several projects have the"
        " name",
    )
    parser.add_argument(
        "--force-project",
        action="store_true",
        help="use the given project as an ID without asking Keystone: for"
        " deleted projects, and if you may not list projects",
    )


def find_id(
    connection: Any, project: str, parsed_args: argparse.Namespace
) -> str:
    """Return a project's ID.

    :raises CommandError: if Keystone does not know it, or refuses to answer.
    :raises openstack.exceptions.SDKException: if several have the name.
    """
    if parsed_args.force_project:
        return project
    identity = connection.identity
    domain = parsed_args.project_domain
    try:
        domain_id = domain and (
            identity.find_domain(domain, ignore_missing=False).id
        )
        found = identity.find_project(
            project, ignore_missing=True, domain_id=domain_id
        )
    except sdk_exceptions.NotFoundException:
        found = None
    except (
        sdk_exceptions.ForbiddenException,
        auth_exceptions.EndpointNotFound,
    ) as error:
        raise exceptions.CommandError(
            f"Keystone refuses to look up project {project!r}; give its ID and"
            f" --force-project ({error})"
        ) from error
    if found is None:
        raise exceptions.CommandError(
            f"Keystone has no project {project!r}; if this is the ID of a"
            " deleted project, add --force-project"
        )
    return str(found.id)
