# SPDX-License-Identifier: Apache-2.0

"""Commands for slots."""

from __future__ import annotations

import argparse
from typing import Any

from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import states

_NAMED = (
    "HOST/DEVICE.NUMBER such as node1/board0.1, DEVICE.NUMBER if that is"
    " unique, or ID"
)


class ListSlots(base.ListCommand):
    """List the slots of the pool's FPGA boards."""

    described = inventory.SLOT
    method = "slots"
    filters = ("accelerator", "state")
    derived = {
        "Slot": lambda one: names.slot_name(
            one.host_name, one.device_name, one.number
        )
    }
    table = {
        "Slot": "Slot",
        "state": "State",
        "accelerator": "Accelerator",
        "session_id": "Session ID",
        "id": "ID",
    }
    arguments = (
        base.of_host_option("slots of"),
        base.option(
            "device",
            "list only slots of this device (HOST/NAME such as node1/board0,"
            " NAME if that is unique, or ID)",
            type=base.of_host,
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
        found: dict[str, Any] = self.of_host(parsed_args.host)
        if parsed_args.device:
            found["device_id"] = names.find(
                self.client, "device", parsed_args.device
            )
        return found | super().query(parsed_args)

    def empty(self, parsed_args: argparse.Namespace) -> str:
        names.check_accelerator(self.client, parsed_args.accelerator)
        return super().empty(parsed_args)


class ShowSlot(base.ShowCommand):
    """Show a slot and, if it is faulty, the reason and its self-tests."""

    kind = "slot"
    described = inventory.SLOT
    hidden = ("name",)
    arguments = (
        base.positional("slot", f"{_NAMED} of the slot", type=base.of_host),
    )


class TestSlot(base.EachCommand):
    """Test slots now; 'slot show' shows why a test failed."""

    kind = "slot"
    done = "tested"
    told = (
        "slot {0}: the test has started; 'openstack fpga slot show {0}' shows"
        " its result"
    )
    arguments = (
        base.positional(
            "slots",
            f"{_NAMED} of the slot; a slot with a session is not tested",
            nargs="+",
            type=base.of_host,
        ),
        base.option(
            "accelerator",
            "test the slot with this accelerator; by default, accelerators"
            " take turns. If the pool had stopped using it on the host and the"
            " test passes, the pool uses it there again",
        ),
    )

    def act(self, identifier: str, parsed_args: argparse.Namespace) -> None:
        self.client.test_slot(identifier, parsed_args.accelerator)
