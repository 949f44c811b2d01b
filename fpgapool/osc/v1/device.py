#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Commands for devices."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource
from osc_lib.cli import format_columns

from fpgapool.osc.v1 import base

_FORMATTERS = {"dma_bytes_per_s": format_columns.SizeColumn}
_STATES = ("up", "down", "faulty", "disabled")


class ListDevices(base.ListCommand):
    """List the FPGA boards of the pool."""

    columns = {
        "id": "ID",
        "name": "Name",
        "host_name": "Host",
        "model": "Model",
        "state": "State",
        "slots": "Slots",
    }
    long_columns = {
        "host_uuid": "Host UUID",
        "dma_bytes_per_s": "DMA Bytes/s",
        "fault_reason": "Fault Reason",
    }
    formatters = _FORMATTERS
    sort_keys = ("name", "id", "host_name")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--host", metavar="<host>", help="only of this host (name or UUID)"
        )
        parser.add_argument(
            "--state", choices=_STATES, help="only in this state"
        )
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Ask for the devices."""
        return self.client.devices(
            **base.host_filter(parsed_args.host),
            **base.given(state=parsed_args.state),
            **query,
        )


class ShowDevice(base.ShowCommand):
    """Show an FPGA board."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "device",
            metavar="<device>",
            type=base.identifier,
            help="ID of the device",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = self.client.get_device(parsed_args.device)
        return base.shown(found, _FORMATTERS)
