# SPDX-License-Identifier: Apache-2.0

"""Commands for slots."""

from __future__ import annotations

import argparse
from typing import Any

from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import states


class ListSlots(base.ListCommand):
    """List the slots of the pool's FPGA boards."""

    described = inventory.SLOT
    method = "slots"
    filters = ("accelerator", "state")
    arguments = (
        base.option("host", "list only slots of this host (name or UUID)"),
        base.option(
            "device",
            "list only slots of this device (ID, or its name if that is"
            " unique)",
            type=base.identifier,
        ),
        base.option(
            "accelerator",
            "list only slots whose session has this accelerator",
        ),
        base.option(
            "state",
            "list only slots in this state",
            choices=states.SHOWN_SLOT_STATES,
        ),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the filters that were given."""
        found: dict[str, Any] = base.host_filter(parsed_args.host)
        if parsed_args.device:
            found["device_id"] = names.device(self.client, parsed_args.device)
        return found | super().query(parsed_args)


class ShowSlot(base.ShowCommand):
    """Show a slot, and if it is faulty, the reason and its self-tests."""

    arguments = (
        base.positional(
            "slot", "ID of the slot, or DEVICE.NUMBER if that is unique"
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = names.slot(self.client, parsed_args.slot)
        return base.shown(self.client.get_slot(found), {}, ["name"])


class TestSlot(base.Command):
    """Test slots now; 'slot show' shows a failure."""

    arguments = (
        base.positional(
            "slots",
            "ID of the slot, or DEVICE.NUMBER if that is unique; a slot with"
            " a session is not tested",
            nargs="+",
        ),
        base.option(
            "accelerator",
            "test the slot with this accelerator; if the pool does not run it"
            " on the host and the test passes, the pool uses it there again;"
            " by default accelerators take turns",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Start all tests, also if one slot cannot be tested."""

        def test(slot: str, ignore_missing: bool) -> None:
            found = names.slot(self.client, slot)
            self.client.test_slot(found, parsed_args.accelerator)

        base.do_each(parsed_args.slots, test, "slot", "tested")
