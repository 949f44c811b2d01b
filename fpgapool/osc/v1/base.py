# SPDX-License-Identifier: Apache-2.0

"""Base classes of the commands."""

from __future__ import annotations

import argparse
import decimal
import itertools
import json
import logging
import os
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
from fpgapool.vocabulary import fields

Formatters = Mapping[str, Any]
#: Names of columns, and a row or an iterable of rows.
Table = tuple[Sequence[str], Iterable[Any]]

LOG = logging.getLogger(__name__)

_DIRECTIONS = ("asc", "desc")
_PREFIXES = ("", "K", "M", "G", "T", "P")
# More digits than any size has.
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([KMGTP]?)(i?)B?", re.I)
# Separators of URLs.
_NOT_IN_IDENTIFIERS = frozenset("/?#%")
# Attributes of the base class that resources of the pool lack.
_HIDDEN = ("location",)


class Command(command.Command):
    """A command that uses the pool's API."""

    @property
    def client(self) -> proxy.Proxy:
        """The proxy of the pool."""
        # The plugin has put it there.
        manager: Any = self.app.client_manager
        client: proxy.Proxy = manager.fpgapool
        return client

    @property
    def connection(self) -> Any:
        """The connection to the whole cloud."""
        manager: Any = self.app.client_manager
        return manager.sdk_connection

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command, and say what to do if it fails.

        :raises CommandError: also if standard output cannot be written.
        """
        if self.app.stdout is None and isinstance(
            self, ShowCommand | ListCommand
        ):
            raise exceptions.CommandError("standard output is closed")
        try:
            return super().run(parsed_args)
        except sdk_exceptions.SDKException as error:
            raise exceptions.CommandError(messages.of_error(error)) from error
        finally:
            self._flush()

    def _flush(self) -> None:
        stdout = self.app.stdout
        if stdout is None:
            return
        try:
            stdout.flush()
        except OSError as error:
            # Python would try again at its end, and complain.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stdout.fileno())
            os.close(null)
            raise exceptions.CommandError(
                f"standard output: {error.strerror}"
            ) from error


class JsonColumn(format_columns.DictColumn):
    """A nested document, on several lines for people."""

    def human_readable(self) -> str:
        """Return the text for people."""
        return json.dumps(self._value, indent=1, ensure_ascii=False)


class ShowCommand(Command, command.ShowOne):
    """A command that shows one thing."""


class ListCommand(Command, command.Lister):
    """A command that lists resources."""

    #: Attributes of a member, and the headings of their columns.
    columns: Mapping[str, str]
    #: Further columns of --long.
    long_columns: Mapping[str, str]
    #: How to write values of attributes.
    formatters: Formatters = {}
    #: Keys that the service can sort by; the first is its default.
    sort_keys: Sequence[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
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
            help="show at most this many",
        )
        parser.add_argument(
            "--marker",
            metavar="<id>",
            help="start after the member with this ID",
        )
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the members.

        :param query: the page and the order.
        """
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """List the members."""
        query = given(limit=parsed_args.limit, marker=parsed_args.marker)
        query.update(parsed_args.sort)
        columns = dict(self.columns)
        if getattr(parsed_args, "all_projects", None):
            columns["project_id"] = "Project ID"
        if parsed_args.long:
            columns.update(self.long_columns)
        # The service's limit is the length of a page.
        members = itertools.islice(
            self.members(parsed_args, query), parsed_args.limit
        )
        return list(columns.values()), (
            utils.get_item_properties(
                member, list(columns), formatters=self.formatters
            )
            for member in members
        )


def columns(described: fields.Fields, *, listed: bool) -> dict[str, str]:
    """Return the attributes of a list, and the headings of their columns.

    :param listed: whether the list shows them without ``--long``.
    """
    names = [
        "id" if field.shown == "id" else field.name
        for field in described.shown
        if field.column is listed
    ]
    titles = "\n".join(names).replace("_", " ").title()
    titles = re.sub(r"\b(Id|Uuid)\b", lambda found: found[0].upper(), titles)
    return dict(zip(names, titles.splitlines(), strict=True))


def do_each(
    identifiers: Sequence[str],
    act: Callable[..., object],
    kind: str,
    done: str,
) -> None:
    """Call a function for each of several objects, also if it fails for one.

    :param act: gets an identifier, and ``ignore_missing``.
    :param kind: the kind of the objects, in the singular.
    :param done: the action, as a participle.
    :raises exceptions.CommandError: at the end, if any call failed.
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
    """Return the options that were given."""
    return {name: value for name, value in values.items() if value is not None}


def positive(text: str) -> int:
    """Return the positive integer in a text.

    :raises argparse.ArgumentTypeError: if it is not one.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return number


def size_bytes(text: str) -> int:
    """Return the bytes that a text such as ``1.5G`` or ``4Ki`` means.

    :raises argparse.ArgumentTypeError: if it is not a size of at least 1 byte.
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
        f"{text!r} is not a size: whole bytes, or such as 1G (10^9) or 1Gi"
        " (2^30)"
    )


def identifier(text: str) -> str:
    """Return a name or an identifier.

    :raises argparse.ArgumentTypeError: if it would change the URL.
    """
    if text in ("", ".", "..") or not _NOT_IN_IDENTIFIERS.isdisjoint(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name or an ID")
    return text


def _order(keys: Sequence[str]) -> Callable[[str], dict[str, list[str]]]:
    def parse(text: str) -> dict[str, list[str]]:
        order: dict[str, list[str]] = {"sort_key": [], "sort_dir": []}
        for part in text.split(","):
            key, colon, direction = part.partition(":")
            if key not in keys or (colon and direction not in _DIRECTIONS):
                raise argparse.ArgumentTypeError(
                    f"{part!r} is not one of {', '.join(keys)}, optionally"
                    " with :asc or :desc"
                )
            order["sort_key"].append(key)
            order["sort_dir"].append(direction or _DIRECTIONS[0])
        if ":" not in text:
            # The service knows the usual direction.
            del order["sort_dir"]
        return order

    return parse


def host_filter(host: str | None) -> dict[str, str]:
    """Return the query for a host's devices or slots.

    :param host: its name or UUID; None for all hosts.
    """
    if host is None:
        return {}
    # The service filters by UUID; names are compared here.
    is_uuid = utils.is_uuid_like(host)
    return {"host_uuid" if is_uuid else "host_name": host}


def add_up_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--up`` and ``--down``."""
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
    """Return the columns and values of a resource.

    :param formatters: how to write values of attributes.
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
