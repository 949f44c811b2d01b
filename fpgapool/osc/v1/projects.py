# SPDX-License-Identifier: Apache-2.0

"""Projects, which Keystone knows by names, too."""

from __future__ import annotations

import argparse
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says more of a project that is named.

    :param parser: gets it.
    """
    parser.add_argument(
        "--project-domain",
        metavar="<project-domain>",
        help="domain of the project (name or ID), where several projects"
        " have the name",
    )
    parser.add_argument(
        "--force-project",
        action="store_true",
        help="take what names the project for its ID, and do not ask Keystone:"
        " for projects that are gone, and where you may not look for others",
    )


def find_id(
    connection: Any, project: str, parsed_args: argparse.Namespace
) -> str:
    """Return a project's ID.

    :param connection: to the cloud.
    :param project: its name or ID.
    :param parsed_args: of :func:`add_options`.
    :raises CommandError: if Keystone does not know it, or does not say.
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
            f"Keystone does not say which project {project!r} is; give its ID"
            f" and --force-project ({error})"
        ) from error
    if found is None:
        raise exceptions.CommandError(
            f"Keystone has no project {project!r}; if this is the ID of one"
            " that is gone, add --force-project"
        )
    return str(found.id)
