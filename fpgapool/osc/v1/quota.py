# SPDX-License-Identifier: Apache-2.0

"""Commands for quotas."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from collections.abc import Mapping

from osc_lib import exceptions
from osc_lib.command import command

from fpgapool.common import arguments
from fpgapool.osc.sdk import accounting as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import columns
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import accounting

_limit = arguments.number(
    int,
    f"a limit: 0 or more, or {accounting.UNLIMITED} for unlimited",
    accounting.UNLIMITED,
    accounting.MAX_LIMIT,
)


_switch = arguments.number(int, "0 or 1", 0, 1)


def _byte_limit(text: str) -> float:
    with contextlib.suppress(argparse.ArgumentTypeError):
        text = str(base.size_bytes(text))
    return _limit(text)


def _option(resource: str) -> str:
    return f"--{resource.replace('_', '-')}"


def _is_size(resource: str) -> bool:
    return resource.endswith("_bytes")


_PROJECT = (
    base.positional("project", "the project (name or ID)"),
    *projects.OPTIONS,
)


def _parser(resource: str) -> Callable[[str], float]:
    if resource in accounting.SWITCHES:
        return _switch
    return _byte_limit if _is_size(resource) else _limit


def _limit_text(resource: str) -> str:
    if resource in accounting.SWITCHES:
        return accounting.QUOTAS[resource].rpartition(";")[0]
    return f"limit: {_of(resource)}; -1 means unlimited" + (
        "; accepts suffixes such as G and Gi" * _is_size(resource)
    )


def _of(resource: str) -> str:
    """Return what a limit applies to, as a part of a help text."""
    meaning = accounting.QUOTAS[resource].partition(";")[0].rstrip(".")
    return meaning[0].lower() + meaning[1:].replace(". F", "; f")


def _project_id(asked: base.Command, parsed_args: argparse.Namespace) -> str:
    return projects.find_id(asked.connection, parsed_args.project, parsed_args)


class ShowQuota(base.Command, command.Lister):
    """Show the limits and usage of a project."""

    arguments = (
        base.positional(
            "project",
            "the project (name or ID); default is your own",
            nargs="?",
            metavar="<project>",
        ),
        *projects.OPTIONS,
        base.flag("default", "show the default limits"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        if parsed_args.default:
            found = self.client.get_default_quota()
        elif parsed_args.project is None:
            projects.check_own(parsed_args)
            found = self.client.get_quota()
        else:
            found = self.client.get_quota(_project_id(self, parsed_args))
        return _table(found)


class SetQuota(base.Command, command.Lister):
    """Set limits of a project."""

    arguments = (
        *(
            base.option(
                resource.replace("_", "-"),
                _limit_text(resource),
                type=_parser(resource),
            )
            for resource in accounting.QUOTAS
        ),
        *_PROJECT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Set the given limits, and show all limits."""
        limits = base.given(
            **{one: getattr(parsed_args, one) for one in accounting.QUOTAS}
        )
        return _change(self, parsed_args, limits)


class UnsetQuota(base.Command, command.Lister):
    """Reset some limits of a project to the defaults."""

    arguments = (
        *(
            base.flag(
                resource.replace("_", "-"),
                f"reset this limit: {_of(resource)}",
            )
            for resource in accounting.QUOTAS
        ),
        *_PROJECT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Reset the given limits, and show all limits."""
        named = [one for one in accounting.QUOTAS if getattr(parsed_args, one)]
        return _change(self, parsed_args, dict.fromkeys(named))


class DeleteQuota(base.Command):
    """Reset all limits of a project to the defaults."""

    arguments = _PROJECT

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.delete_quota(_project_id(self, parsed_args))


def _change(
    asked: base.Command,
    parsed_args: argparse.Namespace,
    limits: Mapping[str, int | None],
) -> base.Table:
    """Set limits, and show all."""
    if not limits:
        options = ", ".join(map(_option, accounting.QUOTAS))
        raise exceptions.CommandError(f"specify at least one of {options}")
    project_id = _project_id(asked, parsed_args)
    for resource, limit in limits.items():
        if limit == 0 and resource not in accounting.SWITCHES:
            asked.note(
                f"{_option(resource)} 0: the project may have none;"
                f" {accounting.UNLIMITED} means unlimited"
            )
    return _table(asked.client.set_quota(project_id, **limits))


class _Limit(columns.Bytes):
    def text(self, value: float) -> str:
        if value == accounting.UNLIMITED:
            return str(value)
        return super().text(value)


def _amount(resource: str, value: int | None) -> object:
    return _Limit(value) if _is_size(resource) else value


def _table(quota: sdk.Quota) -> base.Table:
    shown = {
        resource: found
        for resource in accounting.QUOTAS
        if (found := getattr(quota, resource)) is not None
    }
    return ("Resource", "Limit", "In Use", "Source"), (
        (
            resource,
            _amount(resource, found["limit"]),
            _amount(resource, found.get("in_use")),
            found["source"],
        )
        for resource, found in shown.items()
    )
