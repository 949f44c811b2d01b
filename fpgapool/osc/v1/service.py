# SPDX-License-Identifier: Apache-2.0

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
    """List the leading conductor and the agents."""

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
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--binary",
            choices=_BINARIES,
            help="list only services of this program",
        )
        base.add_up_options(parser)
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the services."""
        filters = base.given(
            binary=parsed_args.binary, is_up=parsed_args.is_up
        )
        return self.client.services(**filters, **query)
