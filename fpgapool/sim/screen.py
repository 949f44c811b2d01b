# SPDX-License-Identifier: Apache-2.0

"""What commands have in common: the console and kinds of arguments."""

from __future__ import annotations

import argparse
import contextlib
import typing

import rich.console
import rich.markup

#: Tables and pipes: no terminal says how wide it is.
_PLAIN_WIDTH = 120


def make_console() -> rich.console.Console:
    """Return standard output, wide enough for the tables."""
    console = rich.console.Console(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    return console


def say(console: rich.console.Console, text: str) -> None:
    """Write a line of text, as it is.

    :param console: where to write.
    :param text: may hold what rich would take for markup.
    """
    console.print(rich.markup.escape(text), soft_wrap=True)


@contextlib.contextmanager
def busy(console: rich.console.Console, text: str) -> typing.Iterator[None]:
    """Say what is being done, on a terminal only."""
    if console.is_terminal:
        with console.status(rich.markup.escape(text)):
            yield
    else:
        yield


def seed(text: str) -> int:
    """A seed from the command line."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number of at least 0"
        )
    return int(text)
