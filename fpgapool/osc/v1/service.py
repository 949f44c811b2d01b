# SPDX-License-Identifier: Apache-2.0

"""Commands for services."""

from fpgapool.osc.v1 import base
from fpgapool.vocabulary import inventory


class ListServices(base.ListCommand):
    """List the leading conductor and the agents."""

    described = inventory.SERVICE
    method = "services"
    filters = ("binary", "is_up")
    arguments = (
        base.option(
            "binary",
            "list only services with this binary",
            choices=("fpgapool-conductor", "fpgapool-agent"),
        ),
        base.UP_OR_DOWN,
    )
