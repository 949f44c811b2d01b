# SPDX-License-Identifier: Apache-2.0

"""Commands for quotas."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping

from osc_lib import exceptions
from osc_lib.command import command

from fpgapool.osc.sdk import quota as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import projects

_ANY = -1
_LARGEST = 2**63 - 1

_MEANINGS = {
    "sessions": "sessions with a slot; further ones wait",
    "queued": "requests that wait; further ones are refused",
    "queued_bytes": "total bytes that these requests claim",
    "bitstream_bytes": "total bytes of the project's bitstreams",
    "groups": "groups; further ones are refused",
    "group_slots": "slots that these groups may grow to",
    "group_clients": "clients that the project has attached to groups",
    "max_priority": "priorities that count against other projects",
}


def _limit(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = _ANY - 1
    if not _ANY <= number <= _LARGEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a limit: a whole number, or {_ANY} for unlimited"
        )
    return number


def _byte_limit(text: str) -> int:
    with contextlib.suppress(argparse.ArgumentTypeError):
        text = str(base.size_bytes(text))
    return _limit(text)


def _option(resource: str) -> str:
    return f"--{resource.replace('_', '-')}"


def _is_size(resource: str) -> bool:
    return resource.endswith("_bytes")


def _add_project(parser: argparse.ArgumentParser, nargs: str | None) -> None:
    parser.add_argument(
        "project",
        metavar="<project>",
        type=base.identifier,
        nargs=nargs,
        help="the project (name or ID)"
        + ("; default is your own" if nargs else ""),
    )
    projects.add_options(parser)


def _project_id(asked: base.Command, parsed_args: argparse.Namespace) -> str:
    return projects.find_id(asked.connection, parsed_args.project, parsed_args)


class ShowQuota(base.Command, command.Lister):
    """Show the limits and the use of a project."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_project(parser, "?")
        parser.add_argument(
            "--default",
            action="store_true",
            help="show the default limits",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        if parsed_args.default:
            found = self.client.get_default_quota()
        elif parsed_args.project is None:
            found = self.client.get_quota()
        else:
            found = self.client.get_quota(_project_id(self, parsed_args))
        return _table(found)


class SetQuota(base.Command, command.Lister):
    """Limit the use of a project."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        for resource, meaning in _MEANINGS.items():
            parser.add_argument(
                _option(resource),
                metavar=f"<{resource.replace('_', '-')}>",
                type=_byte_limit if _is_size(resource) else _limit,
                help=f"maximum of {meaning}; -1 means unlimited"
                + (", 1G and 1Gi are understood" * _is_size(resource)),
            )
        _add_project(parser, None)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Set the given limits, and show all."""
        limits = base.given(
            **{one: getattr(parsed_args, one) for one in sdk.RESOURCES}
        )
        return _change(self, parsed_args, limits)


class UnsetQuota(base.Command, command.Lister):
    """Reset some limits of a project to the defaults."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        for resource, meaning in _MEANINGS.items():
            parser.add_argument(
                _option(resource), action="store_true", help=meaning
            )
        _add_project(parser, None)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Reset the given limits, and show all."""
        named = [one for one in sdk.RESOURCES if getattr(parsed_args, one)]
        return _change(self, parsed_args, dict.fromkeys(named))


class DeleteQuota(base.Command):
    """Reset all limits of a project to the defaults."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_project(parser, None)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Reset them."""
        self.client.delete_quota(_project_id(self, parsed_args))


def _change(
    asked: base.Command,
    parsed_args: argparse.Namespace,
    limits: Mapping[str, int | None],
) -> base.Table:
    """Set limits, and show all."""
    if not limits:
        options = ", ".join(map(_option, sdk.RESOURCES))
        raise exceptions.CommandError(f"give at least one of {options}")
    project_id = _project_id(asked, parsed_args)
    return _table(asked.client.set_quota(project_id, **limits))


def _table(quota: sdk.Quota) -> base.Table:
    shown = {
        resource: found
        for resource in sdk.RESOURCES
        if (found := getattr(quota, resource)) is not None
    }
    return ("Resource", "Limit", "In Use", "Source"), (
        (resource, found["limit"], found.get("in_use"), found["source"])
        for resource, found in shown.items()
    )
