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

"""Commands for services."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource

from fpgapool.osc.v1 import base

_BINARIES = ("fpgapool-conductor", "fpgapool-agent")


class ListServices(base.ListCommand):
    """List the conductor that leads, and the agents."""

    columns = {
        "binary": "Binary",
        "host": "Host",
        "is_up": "Up",
        "last_report_at": "Last Report At",
        "message": "Message",
    }
    long_columns = {"id": "ID"}
    sort_keys = ("id", "binary", "host")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--binary", choices=_BINARIES, help="only of this program"
        )
        base.add_up_options(parser)
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Ask for the services."""
        filters = base.given(
            binary=parsed_args.binary, is_up=parsed_args.is_up
        )
        return self.client.services(**filters, **query)
