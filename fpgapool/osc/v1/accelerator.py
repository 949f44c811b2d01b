# SPDX-License-Identifier: Apache-2.0

"""Commands for accelerators."""

from fpgapool.osc.v1 import base
from fpgapool.vocabulary import library


class ListAccelerators(base.ListCommand):
    """List the accelerators that sessions can use."""

    described = library.ACCELERATOR
    method = "accelerators"


class ShowAccelerator(base.ShowCommand):
    """Show an accelerator."""

    kind = "accelerator"
    described = library.ACCELERATOR
    hidden = ("id",)
    arguments = (base.positional("accelerator", "name of the accelerator"),)
