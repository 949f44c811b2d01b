# SPDX-License-Identifier: Apache-2.0

"""Commands for hosts."""

import argparse

from fpgapool.osc.sdk import inventory as sdk
from fpgapool.osc.v1 import administration
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import inventory

_HOST = base.positional(
    "host", "UUID of the host, or its name if that is unique"
)


def _shown(found: sdk.Host) -> base.Table:
    return base.shown(found, base.formatters(inventory.HOST), ["id"])


class ListHosts(base.ListCommand):
    """List the hosts of the pool."""

    described = inventory.HOST
    method = "hosts"
    filters = ("name", "is_up")
    arguments = (
        base.option("name", "list only the host with this name"),
        base.UP_OR_DOWN,
    )


class ShowHost(base.ShowCommand):
    """Show a host of the pool."""

    arguments = (_HOST,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = names.host(self.client, parsed_args.host)
        return _shown(self.client.get_host(found))


class SetHost(base.ShowCommand):
    """Enable, drain or disable a host with all its FPGA boards."""

    arguments = (_HOST, *administration.options("slots of its devices"))

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Make the change, and show the host."""
        change = administration.change(parsed_args)
        found = names.host(self.client, parsed_args.host)
        return _shown(self.client.administer_host(found, **change))
