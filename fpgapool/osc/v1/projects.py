#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Projects, which Keystone knows by names, too."""

from __future__ import annotations

import argparse
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions


def add_domain_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--project-domain``.

    :param parser: gets it.
    """
    parser.add_argument(
        "--project-domain",
        metavar="<project-domain>",
        help="domain of the project (name or ID), where several projects"
        " have the name",
    )


def find_id(connection: Any, project: str, domain: str | None = None) -> str:
    """Return a project's ID.

    Most users may not ask Keystone for projects, and those that are gone
    have left something: what is not found is taken for an ID.

    :param connection: to the cloud.
    :param project: its name or ID.
    :param domain: its domain's name or ID.
    :raises openstack.exceptions.SDKException: if several have the name.
    """
    identity = connection.identity
    try:
        domain_id = domain and identity.find_domain(domain).id
        found = identity.find_project(
            project, ignore_missing=True, domain_id=domain_id
        )
    except (
        exceptions.ForbiddenException,
        exceptions.NotFoundException,
        auth_exceptions.EndpointNotFound,
    ):
        return project
    return project if found is None else str(found.id)
