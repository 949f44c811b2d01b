# SPDX-License-Identifier: Apache-2.0

"""Commands for groups and their clients."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from openstack import resource
from osc_lib import exceptions
from osc_lib.cli import format_columns

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


def _shown(found: sdk.Group) -> base.Table:
    return base.shown(found, _FORMATTERS)


def _add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "group",
        metavar="<group>",
        type=base.identifier,
        help="ID of the group, or its name if that is unique",
    )


def _add_options(parser: argparse.ArgumentParser, required: str = "") -> None:
    """Add the options of the description, but the name.

    :param required: the one that must be given.
    """
    for name, option in _OPTIONS.items():
        flag = f"--{name.replace('_', '-')}"
        if option.kind is fields.FLAG:
            group = parser.add_mutually_exclusive_group()
            group.add_argument(
                flag, action="store_true", default=None, help=option.help
            )
            group.add_argument(
                f"--no-{name}",
                dest=name,
                action="store_false",
                default=None,
                help=f"the opposite of {flag}",
            )
        elif option.kind is fields.INTEGER:
            parser.add_argument(
                flag,
                metavar="<slots>",
                type=int,
                required=name == required,
                help=option.help,
            )
    _add_project(parser, _OPTIONS["projects"].help)


def _add_project(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument(
        "--project",
        metavar="<project>",
        dest="projects",
        action="append",
        type=base.identifier,
        help=f"{meaning} (name or ID; repeat the option for several)",
    )
    projects.add_options(parser)


def _add_goal(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--deadline",
        metavar="<time>",
        dest="deadline_at",
        help="goal: all --actions shall have ended at this time (ISO 8601,"
        " such as 2026-03-01T12:00:00; UTC by default)",
    )
    group.add_argument(
        "--rate",
        metavar="<rate>",
        dest="rate_per_s",
        type=float,
        help="goal: so many tasks shall end in each second",
    )
    parser.add_argument(
        "--actions",
        metavar="<actions>",
        type=int,
        help="the number of tasks after which the goal ends; needed with"
        " --deadline",
    )


def _given(
    asked: base.Command, parsed_args: argparse.Namespace
) -> dict[str, Any]:
    """Return the options that were given, with the IDs of projects."""
    given = base.given(
        **{name: getattr(parsed_args, name, None) for name in _OPTIONS}
    )
    if "projects" in given:
        given["projects"] = [
            projects.find_id(asked.connection, project, parsed_args)
            for project in given["projects"]
        ]
    return given


def _goal(parsed_args: argparse.Namespace) -> dict[str, Any]:
    return base.given(**{name: getattr(parsed_args, name) for name in _GOAL})


class CreateGroup(base.ShowCommand):
    """Create a group: slots with one accelerator that clients share."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name", metavar="<name>", help=_OPTIONS["name"].help
        )
        parser.add_argument(
            "--accelerator",
            metavar="<accelerator>",
            required=True,
            help="name of the accelerator",
        )
        _add_options(parser, required="size")
        _add_goal(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Create it."""
        goal = _goal(parsed_args)
        return _shown(
            self.client.create_group(
                accelerator=parsed_args.accelerator,
                **_given(self, parsed_args),
                **({"goal": goal} if goal else {}),
            )
        )


class ListGroups(base.ListCommand):
    """List the groups that your project may use."""

    columns = base.columns(description.GROUP, listed=True)
    long_columns = {
        **base.columns(description.GROUP, listed=False),
        "goal": "Goal",
    }
    formatters = _FORMATTERS
    sort_keys = description.SORT_KEYS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--name",
            metavar="<name>",
            help="list only groups with this name",
        )
        parser.add_argument(
            "--accelerator",
            metavar="<accelerator>",
            help="list only groups with this accelerator",
        )
        parser.add_argument(
            "--state",
            type=str.upper,
            choices=states.GROUP_STATES,
            help="list only groups in this state",
        )
        parser.add_argument(
            "--all-projects",
            action="store_true",
            default=None,
            help="list groups of all projects (admin only)",
        )
        parser.add_argument(
            "--project",
            metavar="<project>",
            help="list only groups of this project (name or ID)",
        )
        projects.add_options(parser)
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the groups."""
        project_id = parsed_args.project and projects.find_id(
            self.connection, parsed_args.project, parsed_args
        )
        filters = base.given(
            project_id=project_id,
            **{
                name: getattr(parsed_args, name)
                for name in ("name", "accelerator", "state", "all_projects")
            },
        )
        return self.client.groups(**filters, **query)


class ShowGroup(base.ShowCommand):
    """Show a group with its goal and its slots."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_group(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = names.group(self.client, parsed_args.group)
        return _shown(self.client.get_group(found))


class SetGroup(base.Command):
    """Rename, resize or share a group, or set its goal."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_group(parser)
        parser.add_argument("--name", metavar="<name>", help="its new name")
        _add_options(parser)
        _add_goal(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Change the group, and then its goal."""
        changes = _given(self, parsed_args)
        found = names.group(self.client, parsed_args.group)
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_group(parser)
        parser.add_argument(
            "--goal", action="store_true", help="remove its goal"
        )
        _add_project(parser, "stop sharing it with this project (admin only)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Remove the projects, and then the goal."""
        gone = _given(self, parsed_args).get("projects", [])
        found = names.group(self.client, parsed_args.group)
        if gone:
            known = self.client.get_group(found).projects or []
            left = [one for one in known if one not in gone]
            if not left:
                # Without projects, a shared group is for all of them.
                raise exceptions.CommandError(
                    "the group has no other projects; 'openstack fpga group"
                    f" set --no-shared {parsed_args.group}' stops sharing it"
                )
            self.client.update_group(found, projects=left)
        if parsed_args.goal:
            self.client.delete_group_goal(found)


class DeleteGroup(base.Command):
    """Delete groups, and revoke their clients."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "groups",
            metavar="<group>",
            nargs="+",
            type=base.identifier,
            help="ID of a group, or its name if that is unique",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete them, also if one cannot be deleted."""

        def delete(group: str, ignore_missing: bool) -> None:
            found = names.group(self.client, group)
            self.client.delete_group(found, ignore_missing=ignore_missing)

        base.do_each(parsed_args.groups, delete, "group", "deleted")


class ListGroupClients(base.ListCommand):
    """List the clients of a group."""

    columns = base.columns(description.CLIENT, listed=True)
    long_columns = {
        **base.columns(description.CLIENT, listed=False),
        "hosts": "Hosts",
    }
    formatters = {"hosts": format_columns.ListDictColumn}
    sort_keys = description.CLIENT_SORT_KEYS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_group(parser)
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the clients."""
        found = names.group(self.client, parsed_args.group)
        return self.client.group_clients(found, **query)


class RevokeGroupClient(base.Command):
    """Revoke clients of a group: their tasks end, and they cannot return."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_group(parser)
        parser.add_argument(
            "clients",
            metavar="<client>",
            nargs="+",
            type=base.identifier,
            help="ID of a client",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Revoke them, also if one cannot be revoked."""
        found = names.group(self.client, parsed_args.group)

        def revoke(client: str, ignore_missing: bool) -> None:
            self.client.revoke_group_client(
                found, client, ignore_missing=ignore_missing
            )

        base.do_each(parsed_args.clients, revoke, "client", "revoked")
