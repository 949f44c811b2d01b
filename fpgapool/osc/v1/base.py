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


class Argument:
    """An argument of a command, as ``add_argument`` takes it."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.names = names
        self.options = options

    def add_to(self, parser: Any) -> None:
        """Add it to a parser, or to a group of a parser."""
        parser.add_argument(*self.names, **self.options)


class OneOf:
    """Arguments of which a command takes at most one."""

    def __init__(self, *arguments: Argument, required: bool = False) -> None:
        self.arguments = arguments
        self.required = required

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add them to a parser."""
        group = parser.add_mutually_exclusive_group(required=self.required)
        for one in self.arguments:
            one.add_to(group)


def positional(name: str, meaning: str, **options: Any) -> Argument:
    """Return an argument that names a resource, or several."""
    singular = name.removesuffix("s") if "nargs" in options else name
    return Argument(
        name,
        **{
            "metavar": f"<{singular}>",
            "type": identifier,
            "help": meaning,
            **options,
        },
    )


def option(name: str, meaning: str, **options: Any) -> Argument:
    """Return an option that takes a value; its name has no dashes before."""
    if "choices" not in options:
        options.setdefault("metavar", f"<{name}>")
    return Argument(f"--{name}", help=meaning, **options)


def flag(name: str, meaning: str, **options: Any) -> Argument:
    """Return an option that takes no value."""
    options.setdefault("action", "store_true")
    return Argument(f"--{name}", help=meaning, **options)


class Command(command.Command):
    """A command that uses the pool's API."""

    #: What it takes.
    arguments: Sequence[Argument | OneOf] = ()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        for one in (*self.common_arguments(), *self.arguments):
            one.add_to(parser)
        return parser

    def common_arguments(self) -> Sequence[Argument | OneOf]:
        """Return what all commands of this kind take."""
        return ()

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
    """A command that lists resources.

    :cvar described: the members of a resource, from which columns derive.
    :cvar method: of the proxy, which lists the resources.
    :cvar filters: arguments that are filters of the API, by their names.
    :cvar formatters: how to write values of attributes that are not described.
    :cvar more_columns: attributes that are not described, with ``--long``.
    """

    described: fields.Fields
    method: str
    filters: Sequence[str] = ()
    formatters: Formatters = {}
    more_columns: Mapping[str, str] = {}

    def common_arguments(self) -> Sequence[Argument | OneOf]:
        """Return what all lists take."""
        keys = self.described.sort_keys
        return (
            flag("long", "show more columns"),
            Argument(
                "--sort",
                metavar="<key>[:<direction>][,...]",
                type=_order(keys),
                default={},
                help=f"sort by {', '.join(keys)}; the direction is asc or"
                " desc; several keys are separated by commas",
            ),
            option("limit", "show at most this many", type=positive),
            option("marker", "start after this ID", metavar="<id>"),
        )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the filters that were given."""
        return given(
            **{name: getattr(parsed_args, name) for name in self.filters}
        )

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the members.

        :param query: the page, the order and the filters.
        """
        found: Iterable[resource.Resource] = getattr(self.client, self.method)(
            **query
        )
        return found

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """List the members."""
        query = given(limit=parsed_args.limit, marker=parsed_args.marker)
        query |= {**parsed_args.sort, **self.query(parsed_args)}
        shown = columns(self.described, listed=True)
        if query.get("all_projects"):
            shown["project_id"] = "Project ID"
        if parsed_args.long:
            shown |= columns(self.described, listed=False)
            shown |= self.more_columns
        # The service's limit is the length of a page.
        members = itertools.islice(
            self.members(parsed_args, query), parsed_args.limit
        )
        formats = {**formatters(self.described), **self.formatters}
        return list(shown.values()), (
            utils.get_item_properties(member, list(shown), formatters=formats)
            for member in members
        )


_FORMATTERS = {
    fields.NAMES: format_columns.ListColumn,
    fields.RATE: format_columns.SizeColumn,
    fields.OBJECT: JsonColumn,
    fields.OBJECTS: format_columns.ListDictColumn,
}


def formatters(described: fields.Fields) -> dict[str, Any]:
    """Return how to write the values of a resource's attributes."""
    return {
        field.name: _FORMATTERS[field.kind]
        for field in described.shown
        if field.kind in _FORMATTERS
    }


def columns(described: fields.Fields, *, listed: bool) -> dict[str, str]:
    """Return the attributes of a list, and the headings of their columns.

    :param listed: whether the list shows them without ``--long``.
    """
    found = {}
    for field in described.shown:
        if field.column is listed:
            name = "id" if field.shown == "id" else field.name
            found[name] = field.title or _title(name)
    return found


def _title(name: str) -> str:
    title = name.replace("_", " ").title()
    return re.sub(r"\b(Id|Uuid)\b", lambda found: found[0].upper(), title)


def do_each(
    identifiers: Sequence[str],
    act: Callable[..., object],
    kind: str,
    done: str,
) -> None:
    """Call a function for each of several objects, also if it fails for one.

    :param act: gets an identifier, and ``ignore_missing``.
    :param kind: the kind of the objects, in the singular.
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


UP_OR_DOWN = OneOf(
    flag(
        "up",
        "list only those that report to the pool",
        dest="is_up",
        default=None,
    ),
    flag(
        "down",
        "list only those that do not report to the pool",
        dest="is_up",
        action="store_false",
        default=None,
    ),
)
ALL_PROJECTS = flag(
    "all-projects", "list those of all projects (admin only)", default=None
)


def shown(
    found: resource.Resource,
    formats: Formatters,
    hidden: Sequence[str] = (),
) -> Table:
    """Return the columns and values of a resource."""
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
        found, attributes, formatters=formats
    )
