# SPDX-License-Identifier: Apache-2.0

"""Commands for groups and their clients."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from openstack import resource
from osc_lib import exceptions
from osc_lib.cli import format_columns

from fpgapool.common import arguments
from fpgapool.osc.sdk import group as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import states

_FORMATTERS: base.Formatters = {
    "projects": format_columns.ListColumn,
    "goal": format_columns.DictColumn,
    "members": format_columns.ListDictColumn,
}
_OPTIONS = {option.name: option for option in description.GROUP.options}
_GOAL = ("deadline_at", "rate_per_s", "actions")


_GROUP = base.positional(
    "group", "ID of the group, or its name if that is unique"
)


def _first_slots() -> Iterator[arguments.Declared]:
    """Yield options about the slots that a group gets all at once."""
    for option in description.GROUP.options:
        flag = option.flag.removeprefix("--")
        if option.kind is fields.FLAG and option.fixed:
            yield base.flag(flag, option.help, default=None)
        elif option.kind is fields.SECONDS:
            yield base.option(
                flag,
                option.help,
                metavar="<seconds>",
                dest=option.name,
                type=float,
            )
        elif option.fixed:
            yield base.option(flag, option.help, choices=option.limits["enum"])


def _options(required: str = "") -> Iterator[arguments.Declared]:
    """Yield options for what can be set later, too, but the name."""
    for name, option in _OPTIONS.items():
        if option.fixed:
            continue
        flag = name.replace("_", "-")
        if option.kind is fields.FLAG:
            yield arguments.OneOf(
                base.flag(flag, option.help, default=None),
                base.flag(
                    f"no-{name}",
                    f"the opposite of --{flag}",
                    dest=name,
                    action="store_false",
                    default=None,
                ),
            )
        elif option.kind is fields.INTEGER:
            yield base.option(
                flag,
                option.help,
                metavar="<slots>",
                type=int,
                required=name == required,
            )
    yield from projects.several(_OPTIONS["projects"].help)


_GOAL_OPTIONS = (
    arguments.OneOf(
        base.option(
            "deadline",
            "goal: time by which --actions tasks must be complete (ISO 8601,"
            " such as 2026-03-01T12:00:00; UTC by default)",
            metavar="<time>",
            dest="deadline_at",
            type=base.time_text,
        ),
        base.option(
            "rate",
            "goal: tasks to complete per second",
            dest="rate_per_s",
            type=float,
        ),
    ),
    base.option(
        "actions",
        "number of tasks after which the goal ends; required with --deadline",
        type=int,
    ),
)


def _given(
    asked: base.Command, parsed_args: argparse.Namespace
) -> dict[str, Any]:
    """Return the given options, with projects' names replaced by IDs."""
    given = base.given(
        **{name: getattr(parsed_args, name, None) for name in _OPTIONS}
    )
    if "projects" in given:
        given["projects"] = projects.find_ids(
            asked.connection, given["projects"], parsed_args
        )
    return given


def _goal(parsed_args: argparse.Namespace) -> dict[str, Any]:
    return base.given(**{name: getattr(parsed_args, name) for name in _GOAL})


class ShowGroup(base.ShowCommand):
    """Show a group with its goal and its slots."""

    kind = "group"
    described = description.GROUP
    formatters = _FORMATTERS
    arguments: base.Arguments = (_GROUP,)


class CreateGroup(ShowGroup):
    """Create a group: slots with one accelerator that clients share."""

    arguments = (
        base.positional("name", _OPTIONS["name"].help, type=str),
        base.option("accelerator", "name of the accelerator", required=True),
        *_options(required="size"),
        *_first_slots(),
        *_GOAL_OPTIONS,
    )

    def act(self, parsed_args: argparse.Namespace) -> sdk.Group:
        goal = _goal(parsed_args)
        return self.client.create_group(
            accelerator=parsed_args.accelerator,
            **_given(self, parsed_args),
            **({"goal": goal} if goal else {}),
        )


class ListGroups(base.ListCommand):
    """List the groups that your project may use."""

    described = description.GROUP
    method = "groups"
    more_columns = {"goal": "Goal"}
    formatters = _FORMATTERS
    filters = ("name", "accelerator", "state", "all_projects")
    arguments = (
        base.option("name", "list only groups with this name"),
        base.option("accelerator", "list only groups with this accelerator"),
        base.option(
            "state",
            "list only groups in this state",
            type=str.upper,
            choices=states.GROUP_STATES,
        ),
        base.ALL_PROJECTS,
        *projects.one("list only groups of this project (name or ID)"),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        return super().query(parsed_args) | projects.query(self, parsed_args)


class SetGroup(base.Command):
    """Rename, resize or share a group, or set its goal."""

    kind = "group"
    arguments = (
        _GROUP,
        base.option("name", "new name of the group"),
        *_options(),
        *_GOAL_OPTIONS,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Change the group, and then its goal."""
        changes = _given(self, parsed_args)
        found = self.named(parsed_args)
        if "projects" in changes:
            known = self.client.get_group(found).projects or []
            changes["projects"] = [*known, *changes["projects"]]
        if changes:
            self.client.update_group(found, **changes)
        goal = _goal(parsed_args)
        if goal:
            self.client.set_group_goal(found, **goal)


class UnsetGroup(base.Command):
    """Remove the goal of a group, or stop sharing it with projects."""

    kind = "group"
    arguments = (
        _GROUP,
        base.flag("goal", "remove its goal"),
        *projects.several("stop sharing it with this project (admin only)"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Remove the projects, and then the goal."""
        gone = _given(self, parsed_args).get("projects", [])
        found = self.named(parsed_args)
        if gone:
            known = self.client.get_group(found).projects or []
            left = [one for one in known if one not in gone]
            if not left:
                # A shared group without projects is shared with all projects.
                raise exceptions.CommandError(
                    "this would remove the last project, and a shared group"
                    " with an empty list is open to all projects; to stop"
                    " sharing it, run 'openstack fpga group set --no-shared"
                    f" {parsed_args.group}'"
                )
            self.client.update_group(found, projects=left)
        if parsed_args.goal:
            self.client.delete_group_goal(found)


class DeleteGroup(base.EachCommand):
    """Delete groups, and revoke their clients."""

    kind = "group"
    done = "deleted"
    arguments = (
        base.positional(
            "groups",
            "ID of a group, or its name if that is unique",
            nargs="+",
        ),
    )


class ListGroupClients(base.ListCommand):
    """List the clients of a group."""

    kind = "group"
    described = description.CLIENT
    more_columns = {"hosts": "Hosts"}
    formatters = {"hosts": format_columns.ListDictColumn}
    arguments = (_GROUP,)

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        found = self.named(parsed_args)
        return self.client.group_clients(found, **query)


class RevokeGroupClient(base.EachCommand):
    """Permanently revoke clients of a group, and end their tasks."""

    kind = "client"
    done = "revoked"
    arguments = (
        _GROUP,
        base.positional("clients", "ID of a client", nargs="+"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.group = names.find(self.client, "group", parsed_args.group)
        super().take_action(parsed_args)

    def act(self, identifier: str, parsed_args: argparse.Namespace) -> None:
        self.client.revoke_group_client(
            parsed_args.group, identifier, ignore_missing=False
        )
