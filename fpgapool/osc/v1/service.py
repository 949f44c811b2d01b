# SPDX-License-Identifier: Apache-2.0

"""Commands for services."""

from fpgapool.osc.v1 import base
from fpgapool.vocabulary import inventory


class ListServices(base.ListCommand):
    """List conductors, agents and processes of the API."""

    described = inventory.SERVICE
    method = "services"
    filters = ("binary", "is_up")
    arguments = (
        base.option(
            "binary",
            "list only services with this binary",
            choices=inventory.BINARIES,
        ),
        base.UP_OR_DOWN,
    )
