# SPDX-License-Identifier: Apache-2.0

"""Command arguments, declared as data."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import Protocol


class Declared(Protocol):
    """One argument, or several."""

    def add_to(self, parser: Any) -> None:
        """Add it to a parser, or to a group of a parser."""


class Argument:
    """An argument; takes the parameters of ``add_argument``."""

    def __init__(self, *names: str, **options: Any) -> None:
        self._names = names
        self._options = options

    def add_to(self, parser: Any) -> None:
        parser.add_argument(*self._names, **self._options)


class OneOf:
    """Arguments of which a command takes at most one."""

    def __init__(self, *arguments: Declared, required: bool = False) -> None:
        self._arguments = arguments
        self._required = required

    def add_to(self, parser: Any) -> None:
        group = parser.add_mutually_exclusive_group(required=self._required)
        add(self._arguments, group)


class Group:
    """Arguments under their own heading in the help."""

    def __init__(self, title: str, *arguments: Declared) -> None:
        self._title = title
        self._arguments = arguments

    def add_to(self, parser: Any) -> None:
        add(self._arguments, parser.add_argument_group(self._title))


def add(arguments: Iterable[Declared], parser: Any) -> None:
    """Add arguments to a parser, or to a group of a parser."""
    for one in arguments:
        one.add_to(parser)


def option(name: str, metavar: str, meaning: str, **options: Any) -> Argument:
    """Return an option that takes a value.

    :param name: without leading dashes.
    """
    return Argument(f"--{name}", metavar=metavar, help=meaning, **options)


def flag(name: str, meaning: str, **options: Any) -> Argument:
    """Return an option that takes no value."""
    options.setdefault("action", "store_true")
    return Argument(f"--{name}", help=meaning, **options)


def constant(name: str, value: str, meaning: str, dest: str) -> Argument:
    """Return an option that sets an attribute to a fixed value."""
    return flag(name, meaning, dest=dest, action="store_const", const=value)


def number(
    kind: type[float],
    what: str,
    least: float = -sys.float_info.max,
    most: float = sys.float_info.max,
) -> Callable[[str], float]:
    """Return a parser of numbers within bounds.

    :param what: the expected value in errors, such as ``"a number of bytes"``.
    """

    def parse(text: str) -> float:
        try:
            found = kind(text)
        except ValueError:
            found = math.nan
        if not least <= found <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return found

    return parse


#: A number above 0.
positive = number(float, "a positive number", sys.float_info.min)


def matching(pattern: str, what: str) -> Callable[[str], str]:
    """Return a parser of strings that match a pattern.

    :param what: the expected value, for errors.
    """

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return text

    return parse
