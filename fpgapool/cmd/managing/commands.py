# SPDX-License-Identifier: Apache-2.0

"""Declarations of the commands of ``fpgapool-manage``."""

import argparse
import contextlib
import typing
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.common import arguments
from fpgapool.common import exception
from fpgapool.db import api as db_api

#: A function that runs a command and returns the exit code.
Run: typing.TypeAlias = Callable[[db_api.Database, argparse.Namespace], int]

FORMAT = arguments.Argument(
    "-f",
    "--format",
    choices=("table", "json"),
    default="table",
    help="output format",
)


@contextlib.contextmanager
def usable_files() -> Iterator[None]:
    """Translate the error of a file that cannot be read or written.

    :raises ConfigurationError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise exception.ConfigurationError(
            reason=f"{error.filename}: {error.strerror}"
        ) from error


class Command:
    """A command.

    :ivar name: name, preceded by the name of its category, if any.
    :ivar on_database: whether a database must be configured.
    :ivar recorded: whether the audit log records it.
    """

    def __init__(
        self,
        name: str,
        run: Run,
        about: str,
        *declared: arguments.Declared,
        on_database: bool = True,
        recorded: bool = False,
    ) -> None:
        self.name = name
        self.run = run
        self.on_database = on_database
        self.recorded = recorded
        self._about = about
        self._declared = declared

    def add_to(self, subparsers: typing.Any) -> None:
        """Add the command's parser, which sets ``made`` to the command."""
        parser = subparsers.add_parser(
            self.name.split()[-1], help=self._about, description=self._about
        )
        arguments.add(self._declared, parser)
        parser.set_defaults(made=self)
