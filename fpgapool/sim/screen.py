# SPDX-License-Identifier: Apache-2.0

"""The console, its tables, and arguments that commands share."""

from __future__ import annotations

import argparse
import contextlib
import typing
from collections.abc import Callable
from collections.abc import Iterable

import rich.console
import rich.markup
import rich.table

from fpgapool.vocabulary import scheduling
from fpgapool.vocabulary import shapes

_T = typing.TypeVar("_T")

#: Files and pipes have no width, but tables need one.
_PLAIN_WIDTH = 120


def make_console() -> rich.console.Console:
    """Return a console on standard output, wide enough for tables."""
    console = rich.console.Console(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    return console


def say(console: rich.console.Console, text: str) -> None:
    """Write a line of text; rich markup in it is not interpreted."""
    console.print(rich.markup.escape(text), soft_wrap=True)


def make_table(
    left: Iterable[str],
    right: Iterable[str],
    title: str | None = None,
    *,
    caption: str | None = None,
) -> rich.table.Table:
    table = rich.table.Table(
        title=title and rich.markup.escape(title),
        title_justify="left",
        caption=caption and rich.markup.escape(caption),
        caption_justify="left",
        box=None,
    )
    for name in left:
        table.add_column(rich.markup.escape(name), no_wrap=True)
    for name in right:
        table.add_column(
            rich.markup.escape(name), justify="right", no_wrap=True
        )
    return table


def add_strategies(parser: argparse._ActionsContainer, text: str) -> None:
    """Add an option for strategies.

    :param text: what they are for.
    """
    parser.add_argument(
        "--strategy",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"{text}; {scheduling.FITTING_SIZES}",
    )


def argument(
    kind: Callable[[str], _T], shape: shapes.Shape[_T]
) -> Callable[[str], _T]:
    """Return an argument type, which converts text and checks its shape."""

    def convert(text: str) -> _T:
        value: object = text
        with contextlib.suppress(ValueError):
            value = kind(text)
        try:
            return shape(value, "")
        except shapes.Invalid as error:
            raise argparse.ArgumentTypeError(
                f"{error.reason}, not {text}"
            ) from None

    return convert


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the argument type of a whole number."""
    return argument(int, shapes.integer(least, most))
