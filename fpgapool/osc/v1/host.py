# SPDX-License-Identifier: Apache-2.0

"""Commands for hosts."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource
from osc_lib.cli import format_columns

from fpgapool.osc.v1 import administration
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names

_FORMATTERS = {
    "nic_bytes_per_s": format_columns.SizeColumn,
    "faulty_accelerators": format_columns.ListDictColumn,
}


class ListHosts(base.ListCommand):
    """List the hosts of the pool."""

    columns = {
        "uuid": "UUID",
        "name": "Name",
        "is_up": "Up",
        "devices": "Devices",
        "slots": "Slots",
        "sessions": "Sessions",
        "admin_state": "Admin State",
    }
    long_columns = {
        "admin_reason": "Admin Reason",
        "drain_deadline_at": "Drain Deadline",
        "nic_bytes_per_s": "NIC Bytes/s",
        "faulty_accelerators": "Faulty Accelerators",
    }
    formatters = _FORMATTERS
    sort_keys = ("name", "uuid")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--name",
            metavar="<name>",
            help="list only the host with this name",
        )
        base.add_up_options(parser)
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the hosts."""
        filters = base.given(name=parsed_args.name, is_up=parsed_args.is_up)
        return self.client.hosts(**filters, **query)


class ShowHost(base.ShowCommand):
    """Show a host of the pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "host",
            metavar="<host>",
            type=base.identifier,
            help="UUID of the host, or its name if that is unique",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = names.host(self.client, parsed_args.host)
        return base.shown(self.client.get_host(found), _FORMATTERS, ["id"])


class SetHost(base.ShowCommand):
    """Enable, drain or disable a host with all its FPGA boards."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "host",
            metavar="<host>",
            type=base.identifier,
            help="UUID of the host, or its name if that is unique",
        )
        administration.add_options(parser, "slots of its devices")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Make the change, and show the host."""
        wish = administration.wish(parsed_args)
        found = names.host(self.client, parsed_args.host)
        changed = self.client.administer_host(found, **wish)
        return base.shown(changed, _FORMATTERS, ["id"])
