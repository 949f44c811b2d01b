# SPDX-License-Identifier: Apache-2.0

"""Commands for what projects may use."""

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
    "queued_bytes": "bytes that those claim together",
    "bitstream_bytes": "bytes of the project's bitstreams together",
}


def _limit(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = _ANY - 1
    if not _ANY <= number <= _LARGEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no limit: a whole number, or {_ANY} for any amount"
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
        + ("; default is one's own" if nargs else ""),
    )
    projects.add_options(parser)


def _project_id(asked: base.Command, parsed_args: argparse.Namespace) -> str:
    return projects.find_id(asked.connection, parsed_args.project, parsed_args)


class ShowQuota(base.Command, command.Lister):
    """Show what a project may use of the pool, and uses."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        _add_project(parser, "?")
        parser.add_argument(
            "--default",
            action="store_true",
            help="show what projects may use that have no limits of their own",
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
    """Limit what a project may use of the pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        for resource, meaning in _MEANINGS.items():
            parser.add_argument(
                _option(resource),
                metavar=f"<{resource.replace('_', '-')}>",
                type=_byte_limit if _is_size(resource) else _limit,
                help=f"most {meaning}; -1 means any amount"
                + (", 1G and 1Gi are understood" * _is_size(resource)),
            )
        _add_project(parser, None)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Set what is given, and show all."""
        limits = base.given(
            **{one: getattr(parsed_args, one) for one in sdk.RESOURCES}
        )
        return _change(self, parsed_args, limits)


class UnsetQuota(base.Command, command.Lister):
    """Let the default hold again for some of what a project may use."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        for resource, meaning in _MEANINGS.items():
            parser.add_argument(
                _option(resource), action="store_true", help=meaning
            )
        _add_project(parser, None)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Unset what is given, and show all."""
        named = [one for one in sdk.RESOURCES if getattr(parsed_args, one)]
        return _change(self, parsed_args, dict.fromkeys(named))


class DeleteQuota(base.Command):
    """Let the defaults hold again for all that a project may use."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        _add_project(parser, None)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Do so."""
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
