# SPDX-License-Identifier: Apache-2.0

"""Commands for usage."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable
from typing import Any

from osc_lib import exceptions
from osc_lib import utils
from osc_lib.command import command

from fpgapool.osc.sdk import accounting as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import columns
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import accounting

_COLUMNS = base.headings(accounting.USAGE, listed=True)
_FORMATTERS = columns.formatters(accounting.USAGE)
_KEYS = ("day", "project_id", "accelerator")
_PER_SLA = "energy_j_per_sla"
_FIGURES = tuple(name for name in _COLUMNS if name not in _KEYS)
_SUMS = tuple(name for name in _FIGURES if name != _PER_SLA)
#: Values of --group-by, and the column that identifies a group of rows.
_GROUPS = {"day": "day", "project": "project_id", "accelerator": "accelerator"}


def _day(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a date; use the form 2026-01-31"
        ) from None


_FILTERS = (
    *projects.one(
        "show usage of this project (name or ID); default is your own"
    ),
    base.option(
        "start",
        "the first day, such as 2026-01-01, in UTC",
        metavar="<day>",
        type=_day,
    ),
    base.option("end", "the last day, inclusive", metavar="<day>", type=_day),
    base.option("accelerator", "show only usage of this accelerator"),
)


def _filters(
    asked: base.Command, parsed_args: argparse.Namespace
) -> dict[str, Any]:
    start, end = parsed_args.start, parsed_args.end
    if start and end and start > end:
        raise exceptions.CommandError(f"--start {start} is after --end {end}")
    return projects.query(asked, parsed_args) | base.given(
        start=start,
        end=end,
        accelerator=parsed_args.accelerator,
    )


def _added(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if all values are None."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class ShowUsage(base.ShowCommand):
    """Show the total usage of a project."""

    arguments = _FILTERS

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        filters = _filters(self, parsed_args)
        found = list(self.client.usage(group_by="accelerator", **filters))
        shown: dict[str, Any] = {
            **filters,
            **dict.fromkeys(_SUMS, 0),
            "energy_j": None,
        }
        for name in _SUMS:
            total = _added(getattr(one, name) for one in found)
            shown[name] = shown[name] if total is None else total
        energy_j, met = shown["energy_j"], shown["sessions_met"]
        shown[_PER_SLA] = (
            energy_j / met if energy_j is not None and met else None
        )
        return tuple(shown), tuple(
            _FORMATTERS[name](value) if name in _FORMATTERS else value
            for name, value in shown.items()
        )


class ListUsage(base.Command, command.Lister):
    """List the usage of projects."""

    arguments = (
        *_FILTERS,
        base.flag("all-projects", "show usage of all projects (admin only)"),
        base.option(
            "group-by",
            "sum the usage of each day, project or accelerator; without it, "
            "each combination of the three is one row",
            choices=tuple(_GROUPS),
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        keys = (
            [_GROUPS[parsed_args.group_by]] if parsed_args.group_by else _KEYS
        )
        found: Iterable[sdk.Usage] = self.client.usage(
            **_filters(self, parsed_args),
            **base.given(
                all_projects=parsed_args.all_projects or None,
                group_by=parsed_args.group_by,
            ),
        )
        names = [*keys, *_FIGURES]
        return [_COLUMNS[name] for name in names], (
            utils.get_item_properties(one, names, formatters=_FORMATTERS)
            for one in found
        )
