# SPDX-License-Identifier: Apache-2.0

"""What all commands have in common."""

from __future__ import annotations

import argparse
import decimal
import itertools
import json
import logging
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from openstack import exceptions as sdk_exceptions
from openstack import resource
from osc_lib import exceptions
from osc_lib import utils
from osc_lib.cli import format_columns
from osc_lib.command import command

from fpgapool.osc.sdk import proxy
from fpgapool.osc.v1 import messages

Formatters = Mapping[str, Any]
#: Names of columns, and a row or an iterable of rows.
Table = tuple[Sequence[str], Iterable[Any]]

LOG = logging.getLogger(__name__)

_DIRECTIONS = ("asc", "desc")
_PREFIXES = ("", "K", "M", "G", "T", "P")
# No more digits than any size has.
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([KMGTP]?)(i?)B?", re.I)
# They divide addresses.
_NOT_IN_IDENTIFIERS = frozenset("/?#%")
# What the base class has and resources of the pool have not.
_HIDDEN = ("location",)


class Command(command.Command):
    """A command that asks the pool."""

    @property
    def client(self) -> proxy.Proxy:
        """What speaks with the pool."""
        # Where the plugin has put it.
        manager: Any = self.app.client_manager
        client: proxy.Proxy = manager.fpgapool
        return client

    @property
    def connection(self) -> Any:
        """The connection to the whole cloud."""
        manager: Any = self.app.client_manager
        return manager.sdk_connection

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command, and say what to do if it fails."""
        try:
            return super().run(parsed_args)
        except sdk_exceptions.SDKException as error:
            raise exceptions.CommandError(messages.of_error(error)) from error


class JsonColumn(format_columns.DictColumn):
    """A document of several levels, for a person on several lines."""

    def human_readable(self) -> str:
        """Return it as a person reads it."""
        return json.dumps(self._value, indent=1, ensure_ascii=False)


class ShowCommand(Command, command.ShowOne):
    """A command that shows one thing."""


class ListCommand(Command, command.Lister):
    """A command that lists what there is."""

    #: Attributes of a member, and what their columns are called.
    columns: Mapping[str, str]
    #: Those that --long adds.
    long_columns: Mapping[str, str]
    #: How values of attributes are written.
    formatters: Formatters = {}
    #: What the service can sort by; the first is what it does sort by.
    sort_keys: Sequence[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return what understands the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--long", action="store_true", help="show more columns"
        )
        parser.add_argument(
            "--sort",
            metavar="<key>[:<direction>][,...]",
            type=_order(self.sort_keys),
            default={},
            help=f"sort by {', '.join(self.sort_keys)}; the direction is"
            " asc or desc; several keys are separated by commas",
        )
        parser.add_argument(
            "--limit",
            metavar="<limit>",
            type=positive,
            help="show so many at most",
        )
        parser.add_argument(
            "--marker",
            metavar="<id>",
            help="begin after this one",
        )
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Ask for what is listed.

        :param parsed_args: with the filters.
        :param query: the page and the order.
        """
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """List them."""
        query = given(limit=parsed_args.limit, marker=parsed_args.marker)
        query.update(parsed_args.sort)
        columns = dict(self.columns)
        if getattr(parsed_args, "all_projects", None):
            columns["project_id"] = "Project ID"
        if parsed_args.long:
            columns.update(self.long_columns)
        # The service's limit is that of a page.
        members = itertools.islice(
            self.members(parsed_args, query), parsed_args.limit
        )
        return list(columns.values()), (
            utils.get_item_properties(
                member, list(columns), formatters=self.formatters
            )
            for member in members
        )


def do_each(
    identifiers: Sequence[str],
    act: Callable[..., object],
    kind: str,
    done: str,
) -> None:
    """Do something with each of several, and go on if it fails with one.

    :param act: gets an identifier, and ``ignore_missing``.
    :param kind: what they are, one of them.
    :param done: what is done with them, as a participle.
    :raises exceptions.CommandError: in the end, if it failed with any.
    """
    failed = []
    for one in identifiers:
        try:
            act(one, ignore_missing=False)
        except (
            sdk_exceptions.SDKException,
            exceptions.CommandError,
        ) as error:
            failed.append(one)
            LOG.error("%s %s: %s", kind, one, messages.of_error(error))
    if failed:
        raise exceptions.CommandError(
            f"{len(failed)} of {len(identifiers)} {kind}s were not {done}:"
            f" {', '.join(failed)}"
        )


def given(**values: Any) -> dict[str, Any]:
    """Return those options that were given."""
    return {name: value for name, value in values.items() if value is not None}


def positive(text: str) -> int:
    """Return the number that a text means.

    :raises argparse.ArgumentTypeError: if it is none, or not positive.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive integer")
    return number


def size_bytes(text: str) -> int:
    """Return the bytes that a text such as ``1.5G`` or ``4Ki`` means.

    :raises argparse.ArgumentTypeError: if it is no size from 1 byte on.
    """
    matched = _SIZE.fullmatch(text)
    if matched:
        prefix, is_binary = matched[2].upper(), bool(matched[3])
        power = _PREFIXES.index(prefix)
        size = decimal.Decimal(matched[1]) * (1024 if is_binary else 1000) ** (
            power
        )
        if size >= 1 and size == int(size):
            return int(size)
    raise argparse.ArgumentTypeError(
        f"{text!r} is no size: whole bytes, or such as 1G (10^9) or 1Gi (2^30)"
    )


def identifier(text: str) -> str:
    """Return a name or an identifier.

    :raises argparse.ArgumentTypeError: if it would be another address.
    """
    if text in ("", ".", "..") or not _NOT_IN_IDENTIFIERS.isdisjoint(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name and no ID")
    return text


def _order(keys: Sequence[str]) -> Callable[[str], dict[str, list[str]]]:
    def parse(text: str) -> dict[str, list[str]]:
        order: dict[str, list[str]] = {"sort_key": [], "sort_dir": []}
        for part in text.split(","):
            key, colon, direction = part.partition(":")
            if key not in keys or (colon and direction not in _DIRECTIONS):
                raise argparse.ArgumentTypeError(
                    f"{part!r} is not one of {', '.join(keys)}, with :asc or"
                    " :desc behind it, or nothing"
                )
            order["sort_key"].append(key)
            order["sort_dir"].append(direction or _DIRECTIONS[0])
        if ":" not in text:
            # The service knows which way is usual.
            del order["sort_dir"]
        return order

    return parse


def host_filter(host: str | None) -> dict[str, str]:
    """Return what is asked for to find a host's devices or slots.

    :param host: its name or UUID; None for all hosts.
    """
    if host is None:
        return {}
    # The service finds the UUID; names are compared here.
    is_uuid = utils.is_uuid_like(host)
    return {"host_uuid" if is_uuid else "host_name": host}


def add_up_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--up`` and ``--down``.

    :param parser: gets them.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--up",
        dest="is_up",
        action="store_true",
        default=None,
        help="list only those that report to the pool",
    )
    group.add_argument(
        "--down",
        dest="is_up",
        action="store_false",
        default=None,
        help="list only those that do not report to the pool",
    )


def shown(
    found: resource.Resource,
    formatters: Formatters,
    hidden: Sequence[str] = (),
) -> Table:
    """Return what there is to show of a resource.

    :param found: the resource.
    :param formatters: how values of attributes are written.
    :param hidden: attributes that are not shown.
    """
    names = {
        "connection_info": "connection",
        "is_compatible": "compatible",
        "is_stateless": "stateless",
        "is_up": "up",
    }
    columns, attributes = utils.get_osc_show_columns_for_sdk_resource(
        found,
        {name: names[name] for name in names if hasattr(found, name)},
        [*_HIDDEN, *hidden],
    )
    return columns, utils.get_item_properties(
        found, attributes, formatters=formatters
    )
