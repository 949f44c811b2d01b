# SPDX-License-Identifier: Apache-2.0

"""Commands for the tokens of Nova's instances."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource

from fpgapool.osc.v1 import base


class ListInstances(base.ListCommand):
    """List instances that have, or had, a token, newest first."""

    columns = {
        "id": "ID",
        "name": "Name",
        "token": "Token",
        "max_sessions": "Max Sessions",
        "created_at": "Created At",
    }
    long_columns = {"project_id": "Project ID", "host_uuid": "Host UUID"}
    sort_keys = ("created_at",)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--all-projects",
            action="store_true",
            default=None,
            help="list instances of all projects (admin only)",
        )
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the instances."""
        filters = base.given(all_projects=parsed_args.all_projects)
        return self.client.instances(**filters, **query)


class RevokeInstance(base.Command):
    """Revoke the token of an instance, for good."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "instance",
            metavar="<instance>",
            type=base.identifier,
            help="ID of the instance",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Revoke it."""
        self.client.revoke_instance_token(parsed_args.instance)
