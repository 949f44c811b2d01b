# SPDX-License-Identifier: Apache-2.0

"""Commands for devices."""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib import exceptions

from fpgapool.common import arguments
from fpgapool.osc.sdk import inventory as sdk
from fpgapool.osc.v1 import administration
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import states

_DEVICE = base.positional(
    "device",
    "HOST/NAME such as node1/board0, NAME if that is unique, or ID of the"
    " device",
    type=base.of_host,
)


class ListDevices(base.ListCommand):
    """List the FPGA boards of the pool."""

    described = inventory.DEVICE
    method = "devices"
    filters = ("state",)
    derived = {
        "Device": lambda one: names.device_name(one.host_name, one.name)
    }
    table = {
        "Device": "Device",
        "model": "Model",
        "state": "State",
        "slots": "Slots",
        "sessions": "Sessions",
        "id": "ID",
    }
    arguments = (
        base.of_host_option("devices of"),
        base.option(
            "state",
            "list only devices in this state",
            choices=states.SHOWN_DEVICE_STATES,
        ),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        return self.of_host(parsed_args.host) | super().query(parsed_args)


class ShowDevice(base.ShowCommand):
    """Show an FPGA board."""

    kind = "device"
    described = inventory.DEVICE
    arguments: base.Arguments = (_DEVICE,)


class SetDevice(ShowDevice):
    """Enable, drain or disable an FPGA board, or set its reservable slots."""

    arguments = (
        _DEVICE,
        *administration.options("its slots", required=False),
        base.option(
            "reservable-slots",
            "number of the board's slots that instances can reserve; cannot"
            " be lower than the number already reserved",
            metavar="<count>",
            type=arguments.number(int, "a number of slots", 0),
        ),
    )

    def act(self, parsed_args: argparse.Namespace) -> sdk.Device:
        change = administration.change(parsed_args) | base.given(
            reservable_slots=parsed_args.reservable_slots
        )
        if not change:
            raise exceptions.CommandError(
                "specify --enable, --disable, --drain or --reservable-slots"
            )
        return self.client.administer_device(self.named(parsed_args), **change)
