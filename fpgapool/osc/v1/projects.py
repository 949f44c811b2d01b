# SPDX-License-Identifier: Apache-2.0

"""Names of projects in Keystone."""

from __future__ import annotations

import argparse
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from fpgapool.common import arguments
from fpgapool.osc.v1 import base

#: The options for a named project.
OPTIONS = (
    base.option(
        "project-domain",
        "domain of the project (name or ID), if several projects have the"
        " name",
    ),
    base.flag(
        "force-project",
        "use the given project as an ID without asking Keystone: for deleted"
        " projects, and if you may not list projects",
    ),
)


def one(meaning: str) -> tuple[arguments.Declared, ...]:
    """Return the option ``--project`` and its own."""
    return (base.option("project", meaning), *OPTIONS)


def several(meaning: str, **options: Any) -> tuple[arguments.Declared, ...]:
    """Return the option ``--project``, which may be repeated, and its own."""
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


def find_ids(
    connection: Any, names: list[str], parsed_args: argparse.Namespace
) -> list[str]:
    """Return the IDs of several projects; see :func:`find_id`."""
    return [find_id(connection, name, parsed_args) for name in names]


def query(
    asked: base.Command, parsed_args: argparse.Namespace
) -> dict[str, Any]:
    """Return the filter by the project of :func:`one`, if it was given."""
    if not parsed_args.project:
        return {}
    project = parsed_args.project
    return {"project_id": find_id(asked.connection, project, parsed_args)}
