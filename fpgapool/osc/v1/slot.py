# SPDX-License-Identifier: Apache-2.0

"""Commands for slots."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource

from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import states

_STATES = states.SHOWN_SLOT_STATES


class ListSlots(base.ListCommand):
    """List the slots of the pool's FPGA boards."""

    columns = {
        "id": "ID",
        "host_name": "Host",
        "device_name": "Device",
        "number": "Number",
        "state": "State",
        "accelerator": "Accelerator",
    }
    long_columns = {
        "shape": "Shape",
        "programmed": "Programmed",
        "session_id": "Session ID",
        "reserved_for": "Reserved For",
        "device_id": "Device ID",
        "host_uuid": "Host UUID",
        "fault_reason": "Fault Reason",
        "failures": "Failures",
        "self_tests": "Self-tests",
        "last_self_test": "Last Self-test",
        "next_self_test_at": "Next Self-test",
    }
    sort_keys = ("id", "host_name", "device_name", "number")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--host",
            metavar="<host>",
            help="list only slots of this host (name or UUID)",
        )
        parser.add_argument(
            "--device",
            metavar="<device>",
            type=base.identifier,
            help="list only slots of this device (ID, or its name if that is"
            " unique)",
        )
        parser.add_argument(
            "--accelerator",
            metavar="<accelerator>",
            help="list only slots whose session has this accelerator",
        )
        parser.add_argument(
            "--state", choices=_STATES, help="list only slots in this state"
        )
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the slots."""
        device_id = parsed_args.device and names.device(
            self.client, parsed_args.device
        )
        return self.client.slots(
            **base.host_filter(parsed_args.host),
            **base.given(
                device_id=device_id,
                accelerator=parsed_args.accelerator,
                state=parsed_args.state,
            ),
            **query,
        )


class ShowSlot(base.ShowCommand):
    """Show a slot, and if it is faulty, the reason and its self-tests."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "slot",
            metavar="<slot>",
            type=base.identifier,
            help="ID of the slot, or DEVICE.NUMBER if that is unique",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = names.slot(self.client, parsed_args.slot)
        return base.shown(self.client.get_slot(found), {}, ["name"])


class TestSlot(base.Command):
    """Test slots now; 'slot show' shows a failure."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "slots",
            metavar="<slot>",
            type=base.identifier,
            nargs="+",
            help="ID of the slot, or DEVICE.NUMBER if that is unique; a slot"
            " with a session is not tested",
        )
        parser.add_argument(
            "--accelerator",
            metavar="<accelerator>",
            help="test the slot with this accelerator; if the pool does not"
            " run it on the host and the test passes, the pool uses it there"
            " again; by default accelerators take turns",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Start all tests, also if one slot cannot be tested."""

        def test(slot: str, ignore_missing: bool) -> None:
            found = names.slot(self.client, slot)
            self.client.test_slot(found, parsed_args.accelerator)

        base.do_each(parsed_args.slots, test, "slot", "tested")
