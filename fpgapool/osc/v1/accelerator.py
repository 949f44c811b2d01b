# SPDX-License-Identifier: Apache-2.0

"""Commands for accelerators."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource
from osc_lib.cli import format_columns

from fpgapool.osc.v1 import base

_FORMATTERS = {
    "params_schema": base.JsonColumn,
    "platforms": base.JsonColumn,
    "peak_bytes_per_s": format_columns.SizeColumn,
    "shapes": format_columns.ListColumn,
}


class ListAccelerators(base.ListCommand):
    """List the accelerators that sessions can have."""

    columns = {
        "name": "Name",
        "description": "Description",
        "peak_bytes_per_s": "Peak Bytes/s",
        "is_stateless": "Stateless",
    }
    long_columns = {
        "return_ratio": "Return Ratio",
        "shapes": "Shapes",
        "chunk_multiple_bytes": "Chunk Multiple Bytes",
        "core": "Core",
    }
    formatters = _FORMATTERS
    sort_keys = ("name",)

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Ask for the accelerators."""
        return self.client.accelerators(**query)


class ShowAccelerator(base.ShowCommand):
    """Show an accelerator."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "accelerator",
            metavar="<accelerator>",
            type=base.identifier,
            help="name of the accelerator",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = self.client.get_accelerator(parsed_args.accelerator)
        return base.shown(found, _FORMATTERS, hidden=["id"])
