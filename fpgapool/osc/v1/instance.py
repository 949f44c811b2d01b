# SPDX-License-Identifier: Apache-2.0

"""Commands for the tokens of Nova's instances."""

import argparse

from fpgapool.osc.v1 import base
from fpgapool.vocabulary import inventory


class ListInstances(base.ListCommand):
    """List instances that have, or had, a token, newest first."""

    described = inventory.INSTANCE
    method = "instances"
    filters = ("all_projects",)
    arguments = (base.ALL_PROJECTS,)


class RevokeInstance(base.Command):
    """Permanently revoke the token of an instance."""

    arguments = (base.positional("instance", "ID of the instance"),)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.revoke_instance_token(parsed_args.instance)
