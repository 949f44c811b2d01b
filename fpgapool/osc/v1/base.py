# SPDX-License-Identifier: Apache-2.0

"""Base classes of the commands."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import decimal
import itertools
import logging
import os
import re
import time
import typing
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from openstack import exceptions as sdk_exceptions
from openstack import resource
from osc_lib import exceptions
from osc_lib import utils
from osc_lib.command import command

from fpgapool.common import arguments
from fpgapool.osc.sdk import proxy
from fpgapool.osc.v1 import columns
from fpgapool.osc.v1 import messages
from fpgapool.osc.v1 import names
from fpgapool.vocabulary import fields

Formatters = Mapping[str, Any]
#: Names of columns, and a row or an iterable of rows.
Table = tuple[Sequence[str], Iterable[Any]]

LOG = logging.getLogger(__name__)

_DIRECTIONS = ("asc", "desc")
_WATCH_S = 2.0
_CLEAR_SCREEN = "\x1b[H\x1b[2J"
_PREFIXES = ("", "K", "M", "G", "T", "P")
# Allows more digits than any size has.
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([KMGTP]?)(i?)B?", re.I)
# Characters that separate parts of URLs.
_NOT_IN_IDENTIFIERS = frozenset("/?#%")
# Attributes of openstacksdk's base class that the pool lacks.
_HIDDEN = ("location",)
# API names of the attributes that have a different name in the SDK.
_NAMES = {
    "connection_info": "connection",
    "is_compatible": "compatible",
    "is_stateless": "stateless",
    "is_up": "up",
}


def positional(name: str, meaning: str, **options: Any) -> arguments.Argument:
    """Return an argument that names one or several resources."""
    singular = name.removesuffix("s") if "nargs" in options else name
    options = {"metavar": f"<{singular}>", "type": identifier, **options}
    return arguments.Argument(name, help=meaning, **options)


def option(name: str, meaning: str, **options: Any) -> arguments.Argument:
    """Return an option that takes a value; ``name`` has no leading dashes."""
    metavar = None if "choices" in options else f"<{name}>"
    options = {"metavar": metavar, **options}
    return arguments.option(name, meaning=meaning, **options)


flag = arguments.flag


#: The arguments of a command.
Arguments: typing.TypeAlias = Sequence[arguments.Declared]


class Command(command.Command):
    """A command that uses the pool's API."""

    arguments: Arguments = ()
    #: Kind of resource, as arguments and proxy methods name it.
    kind = ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add((*self.common_arguments(), *self.arguments), parser)
        return parser

    def common_arguments(self) -> Arguments:
        """Return the arguments that all commands of this class take."""
        return ()

    @property
    def client(self) -> proxy.Proxy:
        # The openstack command creates this attribute from the plugin.
        manager: Any = self.app.client_manager
        client: proxy.Proxy = manager.fpgapool
        return client

    def named(self, parsed_args: argparse.Namespace) -> str:
        """Return the identifier of the resource that an argument names."""
        text = getattr(parsed_args, self.kind)
        return names.find(self.client, self.kind, text)

    @property
    def connection(self) -> Any:
        """The connection to the whole cloud."""
        manager: Any = self.app.client_manager
        return manager.sdk_connection

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; if it fails, report what to do.

        :raises CommandError: if the API or standard output returns an error.
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

    def say(self, text: str) -> None:
        """Write a line about what the command has done."""
        if self.app.stdout is not None:
            self.app.stdout.write(f"{text}\n")

    def note(self, text: str) -> None:
        """Write a line to standard error, if that is possible."""
        with contextlib.suppress(AttributeError, OSError):
            self.app.stderr.write(f"{text}\n")
            self.app.stderr.flush()

    def _flush(self) -> None:
        stdout = self.app.stdout
        if stdout is None:
            return
        try:
            stdout.flush()
        except OSError as error:
            # Otherwise, Python would try again at exit and print an error.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stdout.fileno())
            os.close(null)
            raise exceptions.CommandError(
                f"standard output: {error.strerror}"
            ) from error


class ShowCommand(Command, command.ShowOne):
    """A command that shows one resource, possibly after changing it.

    :cvar described: the members of a resource.
    :cvar formatters: formatters of attributes that have no description.
    """

    described: fields.Fields
    formatters: Formatters = {}
    hidden: Sequence[str] = ()

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return self.shown(self.act(parsed_args))

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Any],
    ) -> int:
        """Write the columns; those for programs have nested values as JSON."""
        values = columns.cells(parsed_args.formatter, data)
        return super().produce_output(parsed_args, column_names, values)

    def act(self, parsed_args: argparse.Namespace) -> resource.Resource:
        """Get or change the resource, and return it."""
        get = getattr(self.client, f"get_{self.kind}")
        found: resource.Resource = get(self.named(parsed_args))
        return found

    def shown(self, found: resource.Resource) -> Table:
        """Return the columns and values of a resource."""
        shown, attributes = utils.get_osc_show_columns_for_sdk_resource(
            found,
            {name: _NAMES[name] for name in _NAMES if hasattr(found, name)},
            [*_HIDDEN, *self.hidden],
        )
        formats = {**columns.formatters(self.described), **self.formatters}
        return shown, utils.get_item_properties(
            found, attributes, formatters=formats
        )


class EachCommand(Command):
    """A command that acts on several resources; it continues after errors.

    The argument that takes the resources is the plural of their kind.

    :cvar done: past participle of the action, for error messages.
    :cvar told: what to write about each resource, ``{0}``, after success.
    """

    done: str
    told = ""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        identifiers = getattr(parsed_args, f"{self.kind}s")
        failed = []
        for one in identifiers:
            try:
                found = names.find(self.client, self.kind, one)
                self.act(found, parsed_args)
                if self.told:
                    self.say(self.told.format(one))
            except (
                sdk_exceptions.SDKException,
                exceptions.CommandError,
            ) as error:
                failed.append(one)
                text = messages.of_error(error)
                if repr(one) not in text:
                    text = f"{self.kind} {one}: {text}"
                if len(identifiers) == 1:
                    raise exceptions.CommandError(text) from error
                LOG.error("%s", text)
        if failed:
            raise exceptions.CommandError(
                f"{len(failed)} of {len(identifiers)} {self.kind}s were not"
                f" {self.done}: {', '.join(failed)}"
            )

    def act(self, identifier: str, parsed_args: argparse.Namespace) -> None:
        """Act on one resource; the default is to delete it."""
        delete = getattr(self.client, f"delete_{self.kind}")
        delete(identifier, ignore_missing=False)


class ListCommand(Command, command.Lister):
    """A command that lists resources.

    :cvar described: the members of a resource, which define the columns.
    :cvar method: name of the proxy method that lists the resources.
    :cvar filters: names of the arguments that are filters of the API.
    :cvar formatters: formatters of attributes that have no description.
    :cvar more_columns: headings of attributes that have no description and
        that only ``--long`` shows.
    :cvar derived: columns that are computed from a resource, by heading.
    :cvar table: attributes and derived columns that people see in a table,
        with their headings; empty: the same that programs see.
    :cvar added: derived columns that programs see after the described ones.
    :cvar pause: waits between two lists of ``--watch``, in seconds.
    """

    described: fields.Fields
    method: str
    filters: Sequence[str] = ()
    formatters: Formatters = {}
    more_columns: Mapping[str, str] = {}
    derived: Mapping[str, Callable[[Any], Any]] = {}
    table: Mapping[str, str] = {}
    added: Sequence[str] = ()
    pause: Callable[[float], object] = staticmethod(time.sleep)

    def common_arguments(self) -> Arguments:
        keys = self.described.sort_keys
        return (
            flag("long", "show more columns"),
            arguments.Argument(
                "--sort",
                metavar="<key>[:<direction>][,...]",
                type=_order(keys),
                default={},
                help=f"sort the list; possible keys: {', '.join(keys)}; the"
                " direction is asc or desc",
            ),
            option("limit", "maximum number of rows", type=positive),
            option("marker", "start after this ID", metavar="<id>"),
            arguments.Argument(
                "--watch",
                metavar="<seconds>",
                nargs="?",
                const=_WATCH_S,
                type=arguments.number(float, "a number of seconds", 0.1),
                help="list again and again, every 2 seconds by default, until"
                " Ctrl-C",
            ),
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command, with ``--watch`` until it is interrupted."""
        if parsed_args.watch is None:
            return super().run(parsed_args)
        try:
            while True:
                if self.app.stdout is not None and self.app.stdout.isatty():
                    self.app.stdout.write(_CLEAR_SCREEN)
                super().run(parsed_args)
                self.pause(parsed_args.watch)
        except KeyboardInterrupt:
            return 0

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the filters that were given."""
        return given(
            **{name: getattr(parsed_args, name) for name in self.filters}
        )

    def of_host(self, host: str | None) -> dict[str, str]:
        """Return the query for what belongs to a host.

        :param host: name or UUID; None means all hosts.
        :raises CommandError: if no host has the name.
        """
        if host is None:
            return {}
        return {"host_uuid": names.find(self.client, "host", host)}

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the resources to list."""
        found: Iterable[resource.Resource] = getattr(self.client, self.method)(
            **query
        )
        return found

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        query = given(limit=parsed_args.limit, marker=parsed_args.marker)
        query |= {**parsed_args.sort, **self.query(parsed_args)}
        shown = headings(self.described, listed=True)
        if self.table and parsed_args.formatter == "table":
            shown = dict(self.table)
        else:
            shown |= {name: name for name in self.added}
        if query.get("all_projects"):
            shown["project_id"] = "Project ID"
        if parsed_args.long:
            more = headings(self.described, listed=False) | self.more_columns
            shown |= {k: v for k, v in more.items() if k not in shown}
        # Tables and programs have other headings; --column takes both.
        for known in (self.table, headings(self.described, listed=True)):
            shown |= {
                name: heading
                for name, heading in known.items()
                if heading in set(parsed_args.columns) - {*shown.values()}
            }
        # The service's limit applies to each page, not to the whole list.
        members = itertools.islice(
            self.members(parsed_args, query), parsed_args.limit
        )
        first = list(itertools.islice(members, 1))
        if not first:
            text = self.empty(parsed_args)
            if text and parsed_args.formatter == "table":
                self.note(text)
        return list(shown.values()), (
            columns.cells(
                parsed_args.formatter, self._row(member, list(shown))
            )
            for member in itertools.chain(first, members)
        )

    def empty(self, parsed_args: argparse.Namespace) -> str:
        """Return what to tell people about an empty list.

        :raises CommandError: if a filter names what does not exist.
        """
        return ""

    def _row(self, member: resource.Resource, names: list[str]) -> list[Any]:
        formats = {**columns.formatters(self.described), **self.formatters}
        described = [name for name in names if name not in self.derived]
        values = dict(
            zip(
                described,
                utils.get_item_properties(
                    member, described, formatters=formats
                ),
                strict=True,
            )
        )
        return [
            self.derived[name](member)
            if name in self.derived
            else values[name]
            for name in names
        ]


def headings(described: fields.Fields, *, listed: bool) -> dict[str, str]:
    """Return the attributes of a list with their column headings.

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


def given(**values: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in values.items() if value is not None}


def instant(text: str | None) -> float | None:
    """Return a time of the API in seconds since the epoch; None: unknown."""
    try:
        return datetime.datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None


def time_text(text: str) -> str:
    """Return a time as it is; the service reads it.

    :raises argparse.ArgumentTypeError: if it is not a time in ISO 8601.
    """
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; example: 2026-11-29T15:00:00"
        ) from None
    return text


positive = arguments.number(int, "a positive integer", 1)


def size_bytes(text: str) -> int:
    """Return the number of bytes in a size such as ``1.5G`` or ``4Ki``.

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
        f"{text!r} is not a size in bytes; examples: 1000, 1G (10^9), 1Gi"
        " (2^30)"
    )


def of_host(text: str) -> str:
    """Return an identifier, or a name that may have its host before it.

    :raises argparse.ArgumentTypeError: see :func:`identifier`.
    """
    parts = text.split("/", maxsplit=1)
    if not all(map(_is_identifier, parts)):
        raise _not_named(text)
    return text


def identifier(text: str) -> str:
    """Return a name or an identifier.

    :raises argparse.ArgumentTypeError: if it would change a request's URL.
    """
    if not _is_identifier(text):
        raise _not_named(text)
    return text


def session_id(text: str) -> str:
    """Return the ID of a session, of which no part is enough.

    :raises argparse.ArgumentTypeError: if it is none.
    """
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the whole ID of a session, which is a UUID; see"
            " 'openstack fpga session list'"
        ) from None


def _is_identifier(text: str) -> bool:
    return text not in ("", ".", "..") and _NOT_IN_IDENTIFIERS.isdisjoint(text)


def _not_named(text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{text!r} is not a name or an ID")


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
            # Let the service use each key's default direction.
            del order["sort_dir"]
        return order

    return parse


def of_host_option(what: str) -> arguments.Argument:
    """Return the option whose query is :meth:`ListCommand.of_host`."""
    return option("host", f"list only {what} this host (name or UUID)")


UP_OR_DOWN = arguments.OneOf(
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
    "all-projects", "include all projects (admin only)", default=None
)
