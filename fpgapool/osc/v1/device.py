# SPDX-License-Identifier: Apache-2.0

"""Commands for devices."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource
from osc_lib import exceptions
from osc_lib.cli import format_columns

from fpgapool.osc.v1 import administration
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import states

_FORMATTERS = {"dma_bytes_per_s": format_columns.SizeColumn}
_STATES = states.SHOWN_DEVICE_STATES


class ListDevices(base.ListCommand):
    """List the FPGA boards of the pool."""

    columns = {
        "id": "ID",
        "name": "Name",
        "host_name": "Host",
        "model": "Model",
        "state": "State",
        "slots": "Slots",
        "sessions": "Sessions",
    }
    long_columns = {
        "reservable_slots": "Reservable Slots",
        "reserved_slots": "Reserved Slots",
        "pending_reservations": "Pending Reservations",
        "admin_state": "Admin State",
        "admin_reason": "Admin Reason",
        "drain_deadline_at": "Drain Deadline",
        "host_uuid": "Host UUID",
        "dma_bytes_per_s": "DMA Bytes/s",
        "fault_reason": "Fault Reason",
        "failures": "Failures",
        "self_tests": "Self-tests",
        "last_self_test": "Last Self-test",
        "next_self_test_at": "Next Self-test",
    }
    formatters = _FORMATTERS
    sort_keys = ("name", "id", "host_name")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--host",
            metavar="<host>",
            help="list only devices of this host (name or UUID)",
        )
        parser.add_argument(
            "--state", choices=_STATES, help="list only devices in this state"
        )
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the devices."""
        return self.client.devices(
            **base.host_filter(parsed_args.host),
            **base.given(state=parsed_args.state),
            **query,
        )


class ShowDevice(base.ShowCommand):
    """Show an FPGA board."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "device",
            metavar="<device>",
            type=base.identifier,
            help="ID of the device, or its name if that is unique",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        named = names.device(self.client, parsed_args.device)
        found = self.client.get_device(named)
        return base.shown(found, _FORMATTERS)


class SetDevice(base.ShowCommand):
    """Enable, drain or disable an FPGA board, or set its reservable slots."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "device",
            metavar="<device>",
            type=base.identifier,
            help="ID of the device, or its name if that is unique",
        )
        administration.add_options(parser, "its slots", required=False)
        parser.add_argument(
            "--reservable-slots",
            metavar="<count>",
            type=_count,
            help="number of its slots that instances can reserve; not less"
            " than they have reserved",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Make the change, and show the device."""
        wish = administration.wish(parsed_args) | base.given(
            reservable_slots=parsed_args.reservable_slots
        )
        if not wish:
            raise exceptions.CommandError(
                "give --enable, --disable, --drain or --reservable-slots"
            )
        found = names.device(self.client, parsed_args.device)
        changed = self.client.administer_device(found, **wish)
        return base.shown(changed, _FORMATTERS)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of slots")
    return int(text)
