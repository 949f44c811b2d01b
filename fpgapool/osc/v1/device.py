# SPDX-License-Identifier: Apache-2.0

"""Commands for devices."""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib import exceptions

from fpgapool.osc.sdk import inventory as sdk
from fpgapool.osc.v1 import administration
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import states

_DEVICE = base.positional(
    "device", "ID of the device, or its name if that is unique"
)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of slots")
    return int(text)


def _shown(found: sdk.Device) -> base.Table:
    return base.shown(found, base.formatters(inventory.DEVICE))


class ListDevices(base.ListCommand):
    """List the FPGA boards of the pool."""

    described = inventory.DEVICE
    method = "devices"
    filters = ("state",)
    arguments = (
        base.option("host", "list only devices of this host (name or UUID)"),
        base.option(
            "state",
            "list only devices in this state",
            choices=states.SHOWN_DEVICE_STATES,
        ),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the filters that were given."""
        return base.host_filter(parsed_args.host) | super().query(parsed_args)


class ShowDevice(base.ShowCommand):
    """Show an FPGA board."""

    arguments = (_DEVICE,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = names.device(self.client, parsed_args.device)
        return _shown(self.client.get_device(found))


class SetDevice(base.ShowCommand):
    """Enable, drain or disable an FPGA board, or set its reservable slots."""

    arguments = (
        _DEVICE,
        *administration.options("its slots", required=False),
        base.option(
            "reservable-slots",
            "number of its slots that instances can reserve; not less than"
            " they have reserved",
            metavar="<count>",
            type=_count,
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Make the change, and show the device."""
        change = administration.change(parsed_args) | base.given(
            reservable_slots=parsed_args.reservable_slots
        )
        if not change:
            raise exceptions.CommandError(
                "give --enable, --disable, --drain or --reservable-slots"
            )
        found = names.device(self.client, parsed_args.device)
        return _shown(self.client.administer_device(found, **change))
