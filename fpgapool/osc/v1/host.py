# SPDX-License-Identifier: Apache-2.0

"""Commands for hosts."""

import argparse

from fpgapool.osc.sdk import inventory as sdk
from fpgapool.osc.v1 import administration
from fpgapool.osc.v1 import base
from fpgapool.vocabulary import inventory

_HOST = base.positional(
    "host", "UUID of the host, or its name if that is unique"
)


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

    kind = "host"
    described = inventory.HOST
    hidden = ("id",)
    arguments: base.Arguments = (_HOST,)


class SetHost(ShowHost):
    """Enable, drain or disable a host with all its FPGA boards."""

    arguments = (_HOST, *administration.options("slots of its devices"))

    def act(self, parsed_args: argparse.Namespace) -> sdk.Host:
        change = administration.change(parsed_args)
        return self.client.administer_host(self.named(parsed_args), **change)
