# SPDX-License-Identifier: Apache-2.0

"""Commands for budgets."""

from __future__ import annotations

import argparse
from typing import Any

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib import utils
from osc_lib.cli import format_columns
from osc_lib.command import command

from fpgapool.common import arguments
from fpgapool.osc.sdk import accounting as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import budget
from fpgapool.vocabulary import units

_limit = arguments.number(
    int, "a limit: a whole number of at least 1", 1, budget.MAX_LIMIT
)
_PROJECT = (
    base.positional("project", "the project (name or ID)"),
    *projects.OPTIONS,
)


class _Left(format_columns.DictColumn):
    """What is left of an amount."""

    resource: str

    def human_readable(self) -> str:
        if self._value is None:
            return "unlimited"
        left, total = (
            self._text(number)
            for number in (
                self._value["left"],
                self._value["limit"] + self._value["carried"],
            )
        )
        return f"{left} of {total} left"

    def _text(self, number: float) -> str:
        if self.resource == "bytes":
            return units.bytes_text(number)
        return f"{number:,.0f} {self.resource.rpartition('_')[2]}"


def _column(name: str) -> type[_Left]:
    return type(f"_{name}", (_Left,), {"resource": name})


_FORMATTERS = {name: _column(name) for name in budget.RESOURCES}


def _bytes_limit(text: str) -> float:
    return _limit(str(base.size_bytes(text)))


def _id(asked: base.Command, parsed_args: argparse.Namespace) -> str:
    return projects.find_id(asked.connection, parsed_args.project, parsed_args)


class ShowBudget(base.ShowCommand):
    """Show the budget of a project, and what is left of it."""

    described = budget.FIELDS
    formatters = _FORMATTERS
    hidden = ("id", "name", "links")
    arguments = (
        base.positional(
            "project",
            "the project (name or ID); default is your own",
            nargs="?",
            metavar="<project>",
        ),
        *projects.OPTIONS,
    )

    def act(self, parsed_args: argparse.Namespace) -> sdk.Budget:
        if parsed_args.project is not None:
            return self.client.get_budget(_id(self, parsed_args))
        projects.check_own(parsed_args)
        for found in self.client.budgets():
            return found
        raise exceptions.CommandError("your project has no budget")


class ListBudgets(base.Command, command.Lister):
    """List the budgets of projects."""

    arguments = (base.flag("all-projects", "list all projects (admin only)"),)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        shown = base.headings(budget.FIELDS, listed=True)
        found = self.client.budgets(
            **base.given(all_projects=parsed_args.all_projects or None)
        )
        return list(shown.values()), (
            utils.get_item_properties(one, shown, formatters=_FORMATTERS)
            for one in found
        )


class SetBudget(ShowBudget):
    """Set the budget of a project; what is not given stays as it is."""

    arguments = (
        base.option(
            "slot-s", "seconds for which slots may be held", type=_limit
        ),
        base.option(
            "bytes",
            "bytes of input and output; accepts suffixes such as G and Gi",
            type=_bytes_limit,
        ),
        base.option("energy-j", "joules", type=_limit),
        *(
            base.flag(f"no-{name.replace('_', '-')}", "remove this limit")
            for name in budget.RESOURCES
        ),
        base.option(
            "period",
            "when the budget refills: each day, week (on Monday) or month, in"
            f" UTC; by default {budget.MONTH}",
            choices=budget.PERIODS,
        ),
        base.option(
            "action",
            "what happens when nothing is left: refuse new sessions, give only"
            " slots that nobody else takes (idle_only), or also end the"
            f" sessions that wait (finish); by default {budget.REFUSE}",
            choices=budget.ACTIONS,
        ),
        base.flag("carry-over", "what is left can be used in the next period"),
        base.flag("no-carry-over", "what is left is lost"),
        *_PROJECT,
    )

    def act(self, parsed_args: argparse.Namespace) -> sdk.Budget:
        """Set the budget, and return it as it is now."""
        changes = _changes(parsed_args)
        if not changes:
            raise exceptions.CommandError("specify at least one option to set")
        project_id = _id(self, parsed_args)
        return self.client.set_budget(
            project_id, **self._now(project_id) | changes
        )

    def _now(self, project_id: str) -> dict[str, Any]:
        """Return the project's own budget; empty if it has none."""
        try:
            found = self.client.get_budget(project_id)
        except sdk_exceptions.NotFoundException:
            return {}
        if found.source != "project":
            return {}
        values = {name: getattr(found, name) for name in budget.DEFAULTS}
        return {
            name: value["limit"] if isinstance(value, dict) else value
            for name, value in values.items()
        }


def _changes(parsed_args: argparse.Namespace) -> dict[str, Any]:
    changes = base.given(
        **{
            name: getattr(parsed_args, name)
            for name in (*budget.RESOURCES, "period", "action")
        }
    )
    for name in budget.RESOURCES:
        if getattr(parsed_args, f"no_{name}"):
            changes[name] = None
    for option, value in ("carry_over", True), ("no_carry_over", False):
        if getattr(parsed_args, option):
            changes["carry_over"] = value
    return changes


class DeleteBudget(base.Command):
    """Delete the budget of a project, so that the default applies."""

    arguments = _PROJECT

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.delete_budget(_id(self, parsed_args))
