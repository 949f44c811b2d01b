# SPDX-License-Identifier: Apache-2.0

"""Commands for accelerators."""

import argparse

from fpgapool.osc.v1 import base
from fpgapool.vocabulary import library


class ListAccelerators(base.ListCommand):
    """List the accelerators that sessions can have."""

    described = library.ACCELERATOR
    method = "accelerators"


class ShowAccelerator(base.ShowCommand):
    """Show an accelerator."""

    arguments = (base.positional("accelerator", "name of the accelerator"),)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = self.client.get_accelerator(parsed_args.accelerator)
        formats = base.formatters(library.ACCELERATOR)
        return base.shown(found, formats, hidden=["id"])
